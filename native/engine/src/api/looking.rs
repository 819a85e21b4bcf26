//! Queries of an engine: its state, and the counters of its elements.

use super::Engine;
use crate::config::End;
use crate::counters::{Drop, Passing};
use crate::link::credits::LanesStatus;
use crate::link::vl_counters::{Uncounted, VlCounters};
use crate::link::wire_counters::WireCounters;
use crate::outputs::{DirectionId, PortId, SwitchId};
use crate::port_errors::{PortError, PortErrors};
use crate::state::{Congestion, ElementId};

/// The counts of one element since the last query.
#[derive(Debug)]
pub enum Counted {
    /// What it sent, and what it received.
    Port {
        port: PortId,
        counted: Box<(Passing, Passing)>,
    },
    Congestion {
        port: PortId,
        counted: Congestion,
    },
    Switch {
        switch: SwitchId,
        counted: Passing,
    },
    /// With the states of its streams, for faults and for jitter; None: another worker carries it and draws from them.
    Direction {
        direction: DirectionId,
        counted: Passing,
        streams: Option<(u64, u64)>,
    },
    /// All that it has ever counted.
    Tally {
        tally: u32,
        seen: u64,
        hits: u64,
    },
}

impl Engine {
    /// Whether the link has stopped an HFI port for lack of credits.
    pub fn is_stopped(&self, port: PortId) -> bool {
        let leaving = self.ports[port as usize].leaving;
        leaving.is_some_and(|leaving| self.directions[leaving as usize].is_stopped())
    }

    /// Whether a packet is held back for later ones to overtake.
    pub fn is_holding(&self, direction: DirectionId) -> bool {
        self.directions[direction as usize].is_holding()
    }

    /// Bytes that wait for credits on the VL of a service channel; 0 on a link without credits.
    pub fn waiting_on(&self, direction: DirectionId, sc: u32) -> u64 {
        self.directions[direction as usize].waiting_on(sc)
    }

    /// Return the virtual lanes of a direction as they are now; None on a link without credits.
    pub fn lanes(&self, direction: DirectionId) -> Option<LanesStatus> {
        self.directions[direction as usize].lanes(&self.state)
    }

    /// Return what all VLs of a direction together have that its other counters lack, and the counters of each VL as of
    /// `now`: those of several workers add up.
    pub fn vl_counters(&mut self, now: u64, direction: DirectionId) -> (Uncounted, Vec<VlCounters>) {
        self.handle_timeout(now);
        self.directions[direction as usize].vl_counters(now)
    }

    /// Return what a direction counts beside packets and bytes, as of `now`: those of several workers add up.
    pub fn wire_counters(&mut self, now: u64, direction: DirectionId) -> WireCounters {
        self.handle_timeout(now);
        self.directions[direction as usize].wire_counters(now)
    }

    /// Return what an HFI port or a port of a switch has dropped, as of `now`: the numbers of several workers add up.
    ///
    /// Port 0 of a switch is the end at its own number for what it drops itself, and the end at number 0 of its switch for
    /// what the switch drops of what it sends, or has no other port for.
    pub fn port_errors(&mut self, now: u64, end: End) -> &[PortError] {
        self.handle_timeout(now);
        self.errors_of(end).all()
    }

    /// Forget the first packet that a port has dropped for each reason that is meant; the numbers stay.
    pub fn forget_errors(&mut self, now: u64, end: End, is_meant: impl Fn(Drop) -> bool) {
        self.handle_timeout(now);
        self.errors_of(end).forget(is_meant);
    }

    fn errors_of(&mut self, end: End) -> &mut PortErrors {
        match end {
            End::Hfi(port) => &mut self.ports[port as usize].errors,
            End::Switch(switch, port) => self.switches[switch as usize].errors.entry(port).or_default(),
            End::Boundary => &mut self.nobodys_errors,
        }
    }

    /// Take what has been counted since the last time, by the elements that have counted anything.
    pub fn take_counted(&mut self) -> Vec<Counted> {
        std::mem::take(&mut self.state.changed).into_iter().map(|element| self.take_of(element)).collect()
    }

    fn take_of(&mut self, element: ElementId) -> Counted {
        use std::mem::take;
        match element {
            ElementId::Port(number) => {
                let port = &mut self.ports[number as usize];
                port.mark.clear();
                Counted::Port { port: number, counted: Box::new((take(&mut port.tx), take(&mut port.rx))) }
            }
            ElementId::Congestion(port) => {
                let (counters, mark) = &mut self.state.congestion[port as usize];
                mark.clear();
                Counted::Congestion { port, counted: take(counters) }
            }
            ElementId::Switch(number) => {
                let switch = &mut self.switches[number as usize];
                switch.mark.clear();
                Counted::Switch { switch: number, counted: take(&mut switch.counters) }
            }
            ElementId::Direction(number) => {
                let direction = &mut self.directions[number as usize];
                direction.mark.clear();
                let counted = take(&mut direction.counters);
                Counted::Direction { direction: number, counted, streams: direction.streams() }
            }
            ElementId::Tally(number) => {
                let (tally, mark) = &mut self.state.tallies[number as usize];
                mark.clear();
                Counted::Tally { tally: number, seen: tally.seen(), hits: tally.hits() }
            }
        }
    }
}
