//! Changes to a running engine: each affects one element and no packets queued elsewhere.

use std::sync::Arc;

use super::Engine;
use crate::config::{PortConfig, PortNum, PortState, SwitchPortConfig};
use crate::link::capture::CaptureRing;
use crate::link::config::{FlowControl, LinkConfig};
use crate::link::rule::{FaultRule, Tally};
use crate::outputs::{DirectionId, PortId, SwitchId};
use crate::switch::{LinearTable, MulticastTable};

impl Engine {
    /// Give an HFI port, or port 0 of a switch, a new configuration.
    pub fn set_port(&mut self, now: u64, port: PortId, config: PortConfig) {
        self.handle_timeout(now);
        if !self.ports.has(port) {
            return; // it is gone
        }
        let is_open = config.state != PortState::Down;
        let changed = &mut self.ports[port as usize];
        changed.config = config;
        let switch = changed.switch;
        if let Some(leaving) = changed.leaving {
            self.directions[leaving as usize].set_egress(&mut self.state, now, &changed.config.egress);
            self.settle(now);
        }
        if let Some(switch) = switch {
            self.open_port0(switch, is_open.then_some(port));
        }
    }

    /// Let a switch pass packets to its port 0, or not.
    fn open_port0(&mut self, switch: SwitchId, port0: Option<PortId>) {
        let switch = &mut self.switches[switch as usize];
        if switch.port0 == port0 {
            return;
        }
        switch.port0 = port0;
        let visibility = switch.visibility();
        for direction in switch.arriving() {
            self.directions[direction as usize].set_visibility(&mut self.state, visibility);
        }
        self.forget_links();
    }

    /// Stall an HFI port, so that it keeps arriving packets like one with a busy host, or resume it in order.
    pub fn stall_port(&mut self, now: u64, port: PortId, stalled: bool) {
        self.handle_timeout(now);
        if !self.ports.has(port) {
            return; // it is gone
        }
        let port = &mut self.ports[port as usize];
        if stalled {
            port.stall();
        } else {
            port.resume(&mut self.state, now);
            self.settle(now);
        }
    }

    /// Switch a switch on or off.
    pub fn set_switch(&mut self, now: u64, switch: SwitchId, up: bool) {
        self.handle_timeout(now);
        self.switches[switch as usize].up = up;
    }

    /// Give a port of a switch a new configuration.
    pub fn set_switch_port(&mut self, now: u64, switch: SwitchId, port: PortNum, config: SwitchPortConfig) {
        self.handle_timeout(now);
        let port = self.switches[switch as usize].port(port);
        if let Some(leaving) = port.leaving {
            self.directions[leaving as usize].set_egress(&mut self.state, now, &config.egress);
        }
        port.configure(config);
        self.settle(now);
    }

    /// Swap in new forwarding tables, both at once.
    pub fn set_tables(&mut self, now: u64, switch: SwitchId, lft: LinearTable, mft: MulticastTable) {
        self.handle_timeout(now);
        let switch = &mut self.switches[switch as usize];
        switch.lft = lft;
        switch.mft = mft;
    }

    /// Give one direction of a link a new configuration; what is on its way there is lost where it goes down.
    pub fn set_link(&mut self, now: u64, direction: DirectionId, config: &LinkConfig) {
        self.handle_timeout(now);
        if !self.directions.has(direction) {
            return; // it is gone
        }
        self.forget_links();
        self.directions[direction as usize].configure(&mut self.state, now, config);
        self.settle(now);
    }

    /// Change the credits of one direction of a link; packets that wait or are in transit are kept.
    pub fn set_flow(&mut self, now: u64, direction: DirectionId, flow: &FlowControl) {
        self.handle_timeout(now);
        if !self.directions.has(direction) {
            return; // it is gone
        }
        self.directions[direction as usize].set_flow(&mut self.state, now, flow);
        self.settle(now);
    }

    /// Replace the faults of one direction, whose tallies were set before.
    pub fn set_rules(&mut self, now: u64, direction: DirectionId, rules: Vec<FaultRule>) {
        self.handle_timeout(now);
        if !self.directions.has(direction) {
            return; // it is gone
        }
        self.forget_links();
        self.directions[direction as usize].set_rules(rules);
    }

    /// Set a tally before the first rule names it: the same one in the engines of all workers.
    pub fn set_tally(&mut self, number: u32, tally: Arc<Tally>) {
        let index = number as usize;
        if index >= self.state.tallies.len() {
            self.state.tallies.resize_with(index + 1, Default::default);
        }
        self.state.tallies[index].0 = tally;
    }

    /// Report the packets of one direction, or no more.
    pub fn observe(&mut self, now: u64, direction: DirectionId, on: bool) {
        self.handle_timeout(now);
        if !self.directions.has(direction) {
            return; // it is gone
        }
        self.forget_links();
        self.directions[direction as usize].observe(on);
    }

    /// Copy the packets of one direction into a ring, once each; it is `interface` there, a number that the ring has.
    pub fn attach(&mut self, now: u64, direction: DirectionId, ring: Arc<CaptureRing>, interface: u32) {
        self.handle_timeout(now);
        if !self.directions.has(direction) {
            return; // it is gone
        }
        self.forget_links();
        self.directions[direction as usize].attach(ring, interface);
    }

    /// Copy no more of them; harmless when the ring is not attached there.
    pub fn detach(&mut self, now: u64, direction: DirectionId, ring: &Arc<CaptureRing>) {
        self.handle_timeout(now);
        self.forget_links();
        self.directions[direction as usize].detach(ring);
    }

    /// Let go of HFI ports and directions whose links have been taken away: they are down for good.
    pub fn forget(&mut self, now: u64, ports: &[PortId], directions: &[DirectionId]) {
        self.handle_timeout(now);
        self.forget_links();
        directions.iter().for_each(|&direction| self.directions.forget(direction));
        ports.iter().for_each(|&port| self.ports.forget(port));
    }
}
