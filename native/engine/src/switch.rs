//! A switch: it forwards by DLID, on the tables that it was given.
//!
//! Port 0 is where the switch itself sends and receives. It is a port like that of an HFI; only its cable is the switch.

use std::sync::Arc;

use wire::{HEADER, LID_PERMISSIVE, is_multicast, l2, lrh16b, pkey};

use crate::burst::Burst;
use crate::config::{PortConfig, PortNum, PortState, SwitchPortConfig};
use crate::counters::{Drop, Passing};
use crate::forwarding::{is_astray, is_management, lets_pass, path_of, sc_leaving};
use crate::hash::FastMap;
use crate::link::direction::Direction;
use crate::link::wire::Visibility;
use crate::numbered::Numbered;
use crate::outputs::{DirectionId, PortId, SwitchId};
use crate::packet::{Packet, dlid, entropy, sc};
use crate::port::Port;
use crate::port_errors::PortErrors;
use crate::state::{ElementId, Mark, SpaceId, State};

/// The P_Key of a full member of the management partition: what a fabric manager's packets bear.
const FULL_MANAGEMENT: u16 = 0xffff;

/// Entries of a forwarding table from here on name a group of ports.
pub const GROUP_BASE: u16 = 0x4000;

/// The unicast table: DLID -> 0 (no route), a port number, or `GROUP_BASE` + the number of a group.
#[derive(Clone, Debug, Default)]
pub struct LinearTable {
    /// The engines of several workers share them.
    pub entries: Arc<[u16]>,
    /// Equivalent ports, at least one in each group.
    pub groups: Vec<Box<[PortNum]>>,
}

/// Multicast DLID -> port numbers of its spanning tree, in ascending order.
pub type MulticastTable = FastMap<u32, Arc<[PortNum]>>;

/// One external port of a switch.
#[derive(Clone, Debug, Default)]
pub struct SwitchPort {
    /// Kept apart from the fields that every packet needs.
    pub config: Box<SwitchPortConfig>,
    /// Whether every packet may come in.
    is_open_in: bool,
    /// Whether every packet may leave.
    is_open_out: bool,
    /// Whether what comes in may leave on another service channel.
    changes_sc: bool,
    /// The direction in which it sends; None: it has no cable.
    pub leaving: Option<DirectionId>,
    /// The direction that ends at it.
    pub arriving: Option<DirectionId>,
}

impl SwitchPort {
    /// Take a new configuration.
    pub fn configure(&mut self, config: SwitchPortConfig) {
        let is_active = config.state == PortState::Active;
        self.is_open_in = is_active && config.pkeys_in.is_none();
        self.is_open_out = is_active && config.pkeys_out.is_none() && config.egress.vl_mtus.is_none();
        self.changes_sc = !config.sc_to_sc.is_empty();
        *self.config = config;
    }

    /// Return why a packet may not come in.
    #[cold]
    fn refusal_in(&self, packet: &[u8]) -> Option<Drop> {
        if !lets_pass(self.config.state, packet) {
            return Some(Drop::SwPortDown);
        }
        if packet.len() < HEADER || holds(&self.config.pkeys_in, pkey(packet)) {
            return None;
        }
        let may_come = is_management(packet) && pkey(packet) != FULL_MANAGEMENT;
        (!may_come).then_some(Drop::SwPkeyIn)
    }

    /// Return why a packet may not leave by this direction.
    #[cold]
    fn refusal_out(&self, leaving: &mut Direction, packet: &[u8]) -> Option<Drop> {
        if !lets_pass(self.config.state, packet) {
            return Some(Drop::SwPortDown);
        }
        if !is_management(packet) && !holds(&self.config.pkeys_out, pkey(packet)) {
            return Some(Drop::SwPkeyOut);
        }
        leaving.discards(&self.config.egress, packet).then_some(Drop::SwMtu)
    }
}

#[derive(Debug)]
pub struct Switch {
    pub up: bool,
    pub lft: LinearTable,
    pub mft: MulticastTable,
    pub counters: Passing,
    pub mark: Mark,
    /// Port 0, which receives packets for the switch itself; None: there is none, or it is DOWN.
    pub port0: Option<PortId>,
    /// The drops of its ports, which `counters` have too. Not those of packets that came while a port was not ACTIVE.
    pub errors: FastMap<PortNum, PortErrors>,
    number: SwitchId,
    ports: Vec<SwitchPort>,
}

impl Switch {
    /// Make a switch with empty tables and all ports DOWN.
    pub fn new(number: SwitchId) -> Self {
        Switch {
            up: true,
            lft: LinearTable::default(),
            mft: MulticastTable::default(),
            counters: Passing::default(),
            mark: Mark::default(),
            port0: None,
            errors: FastMap::default(),
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

    /// Which arrivals here may be outputs of the engine.
    pub fn visibility(&self) -> Visibility {
        if self.port0.is_some() { Visibility::Mads } else { Visibility::Nothing }
    }

    /// The directions that end at it.
    pub fn arriving(&self) -> impl Iterator<Item = DirectionId> {
        self.ports.iter().filter_map(|port| port.arriving)
    }

    fn drop(&mut self, state: &mut State, packet: Packet, reason: Drop) {
        self.counters.element.drop(reason);
        state.packets.recycle(packet);
    }

    /// Drop a packet at a port.
    #[cold]
    fn drop_at(&mut self, state: &mut State, port: PortNum, packet: Packet, reason: Drop) {
        self.errors.entry(port).or_default().note(reason, &packet);
        self.drop(state, packet, reason);
    }

    /// Forward a packet to the ports given by the tables, or count its drop. What port 0 sends comes by port 0.
    #[inline(always)] // into the loop over arrivals; what port 0 sends comes seldom
    pub fn forward(
        &mut self,
        ports: &mut Numbered<Port>,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        (now, in_port): (u64, PortNum),
        mut burst: Burst,
        space: Option<SpaceId>,
    ) {
        burst.visit_switch();
        let packet = &burst.packet;
        self.mark.set(&mut state.changed, ElementId::Switch(self.number));
        self.counters.element.enter(packet.len());
        if !self.up {
            return self.drop(state, burst.packet, Drop::SwDown);
        }
        let refusal = match self.ports.get(usize::from(in_port)) {
            Some(port) if port.is_open_in => None,
            _ if in_port == 0 => None,
            Some(port) => port.refusal_in(packet),
            None => Some(Drop::SwPortDown),
        };
        if let Some(drop) = refusal {
            if drop == Drop::SwPortDown {
                return self.drop(state, burst.packet, drop);
            }
            return self.drop_at(state, in_port, burst.packet, drop);
        }
        if packet.len() < HEADER || u32::from(l2(packet)) < lrh16b::L2_16B {
            return self.drop_at(state, in_port, burst.packet, Drop::SwMalformed);
        }
        let dlid = dlid(packet);
        if is_multicast(dlid) {
            return self.replicate(ports, directions, state, (now, in_port), burst, space);
        }
        let mut port = self.lft.entries.get(dlid as usize).copied().unwrap_or(0);
        if is_astray(burst.hops(), state.switches) {
            return self.drop_at(state, in_port, burst.packet, Drop::SwNoRoute);
        }
        if port == 0 {
            return self.take(ports, state, now, in_port, burst, space);
        }
        if port >= GROUP_BASE {
            let group = &self.lft.groups[usize::from(port - GROUP_BASE)];
            port = group[path_of(entropy(packet), group.len(), burst.hops())];
        }
        self.pass_on(directions, state, (now, in_port), port, burst, space);
    }

    /// Where all packets of a burst go that arrive by a port, after so many switches, this one included; None: they are
    /// forwarded one by one.
    #[inline]
    pub fn way_of(&self, switches: u32, in_port: PortNum, packet: &[u8], hops: u32) -> Option<DirectionId> {
        let arriver = self.ports.get(usize::from(in_port))?;
        if !self.up || !arriver.is_open_in || arriver.changes_sc || is_astray(hops, switches) {
            return None;
        }
        // a burst has a whole header, and one receiver; nothing leaves by port 0
        let mut port = *self.lft.entries.get(dlid(packet) as usize)?;
        if port >= GROUP_BASE {
            let group = &self.lft.groups[usize::from(port - GROUP_BASE)];
            port = group[path_of(entropy(packet), group.len(), hops)];
        }
        self.ports.get(usize::from(port)).filter(|leaver| leaver.is_open_out)?.leaving
    }

    /// Pass packets on by the direction that `way_of` has named, each at its time.
    #[inline]
    pub fn pass_along(
        &mut self,
        leaving: &mut Direction,
        state: &mut State,
        times: &mut [u64],
        mut burst: Burst,
        space: Option<SpaceId>,
    ) {
        burst.visit_switch();
        self.mark.set(&mut state.changed, ElementId::Switch(self.number));
        self.counters.element.enter_many(burst.count(), burst.packet.len());
        self.counters.element.leave_many(burst.count(), burst.packet.len());
        leaving.enter(state, times, burst, space);
    }

    fn replicate(
        &mut self,
        ports: &mut Numbered<Port>,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        (now, in_port): (u64, PortNum),
        burst: Burst,
        space: Option<SpaceId>,
    ) {
        let group = self.mft.get(&dlid(&burst.packet)).filter(|group| group.contains(&in_port));
        let is_member = group.is_some();
        let group = group.filter(|group| group.len() > 1 && !is_astray(burst.hops(), state.switches));
        let Some(group) = group.map(Arc::clone) else {
            if is_member {
                // the sender is the only member of the group, which is no error
                return self.drop(state, burst.packet, Drop::SwNoGroup);
            }
            // a port outside the tree may not inject into it: its copy would reach members twice on a loop
            return self.drop_at(state, in_port, burst.packet, Drop::SwNoGroup);
        };
        self.counters.element.copies += group.len() as u64 - 2;
        let (hops, packet) = (burst.hops(), burst.packet);
        for port in group.iter().copied().filter(|port| *port != in_port) {
            let copy = Burst::of(packet.clone(), hops);
            match self.port0 {
                Some(port0) if port == 0 => {
                    self.leave_to(&mut ports[port0 as usize], state, now, in_port, copy, space)
                }
                _ => self.pass_on(directions, state, (now, in_port), port, copy, space),
            }
        }
        state.packets.recycle(packet);
    }

    /// Let a packet that port 0 sends out of one port, past the tables.
    #[cold]
    pub fn directed(
        &mut self,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        now: u64,
        port: PortNum,
        mut burst: Burst,
        space: Option<SpaceId>,
    ) {
        burst.visit_switch();
        self.mark.set(&mut state.changed, ElementId::Switch(self.number));
        self.counters.element.enter(burst.packet.len());
        if self.up {
            self.send(directions, state, now, port, burst, space);
        } else {
            self.drop(state, burst.packet, Drop::SwDown);
        }
    }

    /// Pass a packet to port 0 if it is addressed to it; the table has no other port for it.
    #[cold]
    fn take(
        &mut self,
        ports: &mut Numbered<Port>,
        state: &mut State,
        now: u64,
        in_port: PortNum,
        burst: Burst,
        space: Option<SpaceId>,
    ) {
        let port0 = self.port0.map(|port0| &mut ports[port0 as usize]);
        match port0.filter(|port0| is_for(&port0.config, &burst.packet)) {
            Some(port0) => self.leave_to(port0, state, now, in_port, burst, space),
            None => self.drop_at(state, in_port, burst.packet, Drop::SwNoRoute),
        }
    }

    #[cold]
    fn leave_to(
        &mut self,
        port0: &mut Port,
        state: &mut State,
        now: u64,
        in_port: PortNum,
        burst: Burst,
        space: Option<SpaceId>,
    ) {
        self.counters.element.leave(burst.packet.len());
        port0.receive(state, now, burst, space, in_port);
    }

    /// Send a packet that came by another port, on the service channel that the two ports have for it.
    #[inline]
    fn pass_on(
        &mut self,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        (now, in_port): (u64, PortNum),
        port: PortNum,
        mut burst: Burst,
        space: Option<SpaceId>,
    ) {
        if self.ports.get(usize::from(in_port)).is_some_and(|port| port.changes_sc) {
            match self.on_its_channel(state, in_port, port, burst.packet) {
                Ok(packet) => burst.packet = packet,
                Err(packet) => return self.drop_at(state, in_port, packet, Drop::SwSc),
            }
        }
        self.send(directions, state, now, port, burst, space);
    }

    /// Return a packet on the service channel on which it leaves, or as it is, where there is none.
    #[cold]
    fn on_its_channel(
        &self,
        state: &mut State,
        in_port: PortNum,
        port: PortNum,
        packet: Packet,
    ) -> Result<Packet, Packet> {
        let tables = &self.ports[usize::from(in_port)].config.sc_to_sc;
        match tables.iter().find(|(out, _)| *out == port) {
            None => Ok(packet),
            Some((_, table)) => match sc_leaving(sc(&packet), table) {
                Some(sc) => Ok(state.packets.with_sc(packet, sc)),
                None => Err(packet),
            },
        }
    }

    #[inline]
    fn send(
        &mut self,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        now: u64,
        port: PortNum,
        burst: Burst,
        space: Option<SpaceId>,
    ) {
        let Some(leaver @ SwitchPort { leaving: Some(leaving), .. }) = self.ports.get(usize::from(port))
        else {
            return self.drop_at(state, port, burst.packet, Drop::SwPortDown);
        };
        let leaving = &mut directions[*leaving as usize];
        if !leaver.is_open_out
            && let Some(drop) = leaver.refusal_out(leaving, &burst.packet)
        {
            return self.drop_at(state, port, burst.packet, drop);
        }
        self.counters.element.leave(burst.packet.len());
        leaving.enter(state, &mut [now], burst, space);
    }
}

/// Whether a P_Key is in a list, if there is one.
fn holds(pkeys: &Option<Box<[u16]>>, pkey: u16) -> bool {
    pkeys.as_ref().is_none_or(|pkeys| pkeys.binary_search(&pkey).is_ok())
}

fn is_for(port0: &PortConfig, packet: &[u8]) -> bool {
    match dlid(packet) {
        LID_PERMISSIVE => is_management(packet),
        0 => false,
        dlid => port0.has_lid(dlid),
    }
}
