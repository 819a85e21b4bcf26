//! A switch: it forwards by DLID, on the tables that it was given.

use std::sync::Arc;

use wire::{HEADER, is_multicast, l2, lrh16b};

use crate::config::PortNum;
use crate::counters::{Drop, Passing};
use crate::hash::FastMap;
use crate::link::direction::Direction;
use crate::outputs::{DirectionId, SwitchId};
use crate::packet::{Packet, Travelling, dlid, entropy};
use crate::state::{ElementId, Mark, State};

/// Entries of a forwarding table from here on name a group of ports.
pub const GROUP_BASE: u16 = 0x4000;

/// The unicast table: DLID -> 0 (no route), a port number, or `GROUP_BASE` + the number of a group.
#[derive(Clone, Debug, Default)]
pub struct LinearTable {
    pub entries: Box<[u16]>,
    /// Equivalent ports, at least one in each group.
    pub groups: Vec<Box<[PortNum]>>,
}

/// Multicast DLID -> port numbers of its spanning tree, in ascending order.
pub type MulticastTable = FastMap<u32, Arc<[PortNum]>>;

/// One external port of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchPort {
    pub active: bool,
    /// The direction in which it sends; None: it has no cable.
    pub leaving: Option<DirectionId>,
}

#[derive(Debug)]
pub struct Switch {
    pub up: bool,
    pub lft: LinearTable,
    pub mft: MulticastTable,
    pub counters: Passing,
    pub mark: Mark,
    number: SwitchId,
    ports: Vec<SwitchPort>,
}

/// Whether a packet goes in a circle, and would for ever: it has come to more switches than the fabric has.
#[inline]
fn is_astray(hops: u32, switches: u32) -> bool {
    hops > switches
}

impl Switch {
    /// Make a switch with empty tables and no active port.
    pub fn new(number: SwitchId) -> Self {
        Switch {
            up: true,
            lft: LinearTable::default(),
            mft: MulticastTable::default(),
            counters: Passing::default(),
            mark: Mark::default(),
            number,
            ports: Vec::new(),
        }
    }

    /// Return a port, made where it is first named.
    pub fn port(&mut self, number: PortNum) -> &mut SwitchPort {
        let index = usize::from(number);
        if index >= self.ports.len() {
            self.ports.resize(index + 1, SwitchPort::default());
        }
        &mut self.ports[index]
    }

    fn drop(&mut self, state: &mut State, packet: Packet, reason: Drop) {
        self.counters.element.drop(reason);
        state.packets.recycle(packet);
    }

    /// Forward a packet to the ports given by the tables, or count its drop.
    #[inline]
    pub fn forward(
        &mut self,
        directions: &mut [Direction],
        state: &mut State,
        now: u64,
        in_port: PortNum,
        mut travelling: Travelling,
    ) {
        let packet = &travelling.packet;
        travelling.hops = travelling.hops.saturating_add(1);
        self.mark.set(&mut state.changed, ElementId::Switch(self.number));
        self.counters.element.enter(packet.len());
        if !self.up {
            return self.drop(state, travelling.packet, Drop::SwDown);
        }
        if !self.port(in_port).active {
            return self.drop(state, travelling.packet, Drop::SwPortDown);
        }
        if packet.len() < HEADER || u32::from(l2(packet)) != lrh16b::L2_16B {
            return self.drop(state, travelling.packet, Drop::SwMalformed);
        }
        let dlid = dlid(packet);
        if is_multicast(dlid) {
            return self.replicate(directions, state, now, in_port, dlid, travelling);
        }
        let mut port = self.lft.entries.get(dlid as usize).copied().unwrap_or(0);
        if port == 0 || is_astray(travelling.hops, state.switches) {
            return self.drop(state, travelling.packet, Drop::SwNoRoute);
        }
        if port >= GROUP_BASE {
            let group = &self.lft.groups[usize::from(port - GROUP_BASE)];
            port = group[entropy(packet) as usize % group.len()];
        }
        self.send(directions, state, now, port, travelling);
    }

    fn replicate(
        &mut self,
        directions: &mut [Direction],
        state: &mut State,
        now: u64,
        in_port: PortNum,
        dlid: u32,
        travelling: Travelling,
    ) {
        let group = self.mft.get(&dlid).filter(|group| group.len() > 1 && group.contains(&in_port));
        let Some(group) = group.filter(|_| !is_astray(travelling.hops, state.switches)).map(Arc::clone)
        else {
            // a port outside the tree may not inject into it: its copy would reach members twice on a loop
            return self.drop(state, travelling.packet, Drop::SwNoGroup);
        };
        self.counters.element.copies += group.len() as u64 - 2;
        let Travelling { packet, hops, space } = travelling;
        for port in group.iter().copied().filter(|port| *port != in_port) {
            let copy = Travelling { packet: packet.clone(), hops, space };
            self.send(directions, state, now, port, copy);
        }
        state.packets.recycle(packet);
    }

    #[inline]
    fn send(
        &mut self,
        directions: &mut [Direction],
        state: &mut State,
        now: u64,
        port: PortNum,
        travelling: Travelling,
    ) {
        match self.ports.get(usize::from(port)) {
            Some(SwitchPort { active: true, leaving: Some(leaving) }) => {
                self.counters.element.leave(travelling.packet.len());
                directions[*leaving as usize].enter(state, now, travelling);
            }
            _ => self.drop(state, travelling.packet, Drop::SwPortDown),
        }
    }
}
