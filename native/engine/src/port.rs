//! An HFI port, or port 0 of a switch: where packets enter and leave the fabric.
//!
//! It enforces what hardware enforces: its own LID as SLID, its partition table in both directions, complete and
//! undamaged packets on receipt.

use std::collections::{HashSet, VecDeque};

use wire::{Fault, LID_PERMISSIVE, MAX_PACKET, check, is_multicast, is_whole, pkey};

use crate::burst::Burst;
use crate::config::{PortConfig, PortNum, PortState};
use crate::counters::{Drop, Passing};
use crate::forwarding::{is_management, lets_pass};
use crate::link::direction::Direction;
use crate::numbered::{Gone, Numbered};
use crate::outputs::{DirectionId, Output, PortId, SwitchId};
use crate::packet::{Packet, becn, dlid, fecn, slid};
use crate::port_errors::PortErrors;
use crate::state::{ElementId, Mark, SpaceId, State};

/// Bytes that a stalled port queues from a link without credits; more is dropped (rx_overflow).
pub const RX_BUFFER_BYTES: usize = 1 << 20;

/// Header fields of a packet that enters the fabric, given by its sender so that they are not parsed again.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub slid: u32,
    pub dlid: u32,
    pub pkey: u16,
}

#[derive(Debug)]
pub struct Port {
    pub config: PortConfig,
    /// The direction in which it sends; None: it has no cable.
    pub leaving: Option<DirectionId>,
    /// The switch that it is port 0 of.
    pub switch: Option<SwitchId>,
    pub tx: Passing,
    /// A packet that is passed to the host stays in flight here until the host has said what became of it.
    pub rx: Passing,
    pub mark: Mark,
    pub errors: PortErrors,
    /// Whether its host takes several packets in one output.
    pub host_takes_bursts: bool,
    number: PortId,
    /// The senders of packets that came with FECN; LIDs from the wire.
    becn_due: HashSet<u32>,
    is_stalled: bool,
    waiting: VecDeque<(Burst, Option<SpaceId>, PortNum)>,
    waiting_bytes: usize,
}

impl Gone for Port {
    fn gone() -> Self {
        Port::new(PortId::MAX, None)
    }
}

impl Port {
    /// Make a port without a cable, or port 0 of a switch.
    pub fn new(number: PortId, switch: Option<SwitchId>) -> Self {
        Port {
            config: PortConfig::default(),
            leaving: None,
            switch,
            tx: Passing::default(),
            rx: Passing::default(),
            mark: Mark::default(),
            errors: PortErrors::default(),
            host_takes_bursts: false,
            number,
            becn_due: HashSet::new(),
            is_stalled: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    #[inline]
    fn change(&mut self, state: &mut State) {
        self.mark.set(&mut state.changed, ElementId::Port(self.number));
    }

    // --- sending ---------------------------------------------------------------------------------------------

    /// Return why data cannot be sent as a packet, and count the drop; None: it can be sent.
    #[inline]
    pub fn refuse(&mut self, state: &mut State, data: &[u8]) -> Option<Drop> {
        let drop = if self.config.state == PortState::Down {
            Drop::TxPortDown
        } else if is_whole(data) {
            return None;
        } else if data.len() > MAX_PACKET {
            Drop::TxMtu
        } else {
            Drop::TxMalformed
        };
        self.change(state);
        self.tx.element.enter(data.len());
        self.tx.element.drop(drop);
        Some(drop)
    }

    /// Send a complete packet, or several that `may_send_together` has allowed, each at its time; return why the port
    /// refused it.
    #[inline]
    pub fn send(
        &mut self,
        directions: &mut Numbered<Direction>,
        state: &mut State,
        times: &mut [u64],
        packet: Packet,
        address: Address,
    ) -> Option<Drop> {
        let mut leaving = self.leaving.map(|leaving| &mut directions[leaving as usize]);
        match self.admit(leaving.as_deref_mut(), state, packet, address) {
            Ok(packet) => {
                let leaving = leaving?; // without a cable it has admitted nothing
                leaving.enter(state, times, Burst::of(packet, 0), None);
                None
            }
            Err(drop) => Some(drop),
        }
    }

    /// Count a packet that is to be sent; return it as it leaves, or why it does not.
    #[inline(always)] // into the way of an HFI port; port 0 of a switch is cold
    pub fn admit(
        &mut self,
        leaving: Option<&mut Direction>,
        state: &mut State,
        packet: Packet,
        address: Address,
    ) -> Result<Packet, Drop> {
        self.change(state);
        self.tx.element.enter_many(packet.count(), packet.len());
        let has_way = leaving.is_some() || self.switch.is_some();
        let drop = if has_way && lets_pass(self.config.state, &packet) {
            self.refusal_to_send(leaving, &packet, address)
        } else {
            Some(Drop::TxPortDown)
        };
        if let Some(drop) = drop {
            self.tx.element.drop(drop);
            self.errors.note(drop, &packet);
            state.packets.recycle(packet);
            return Err(drop);
        }
        self.tx.element.leave_many(packet.count(), packet.len());
        Ok(self.answer_congestion(state, packet))
    }

    #[inline]
    fn refusal_to_send(
        &self,
        leaving: Option<&mut Direction>,
        packet: &[u8],
        address: Address,
    ) -> Option<Drop> {
        // a port without a LID is managed by directed routes, from the permissive LID
        let is_own = |slid| self.config.has_lid(slid) || (slid == LID_PERMISSIVE && is_management(packet));
        if !is_own(address.slid) {
            Some(Drop::TxSlid)
        } else if address.dlid == 0 {
            Some(Drop::TxDlid)
        } else if !self.config.may_send(address.pkey) {
            Some(Drop::TxPkey)
        } else {
            let egress = &self.config.egress;
            let is_too_long =
                egress.vl_mtus.is_some() && leaving.is_some_and(|leaving| leaving.discards(egress, packet));
            is_too_long.then_some(Drop::TxMtu)
        }
    }

    /// Whether several packets may be sent together: none is refused, and none is changed.
    pub fn may_send_together(&self, address: Address) -> bool {
        let config = &self.config;
        let is_open = config.state == PortState::Active && config.egress.vl_mtus.is_none();
        is_open
            && self.becn_due.is_empty()
            && config.has_lid(address.slid)
            && address.dlid != 0
            && config.may_send(address.pkey)
    }

    /// Return a packet in its form on the link: with BECN set, if its receiver is to get one.
    fn answer_congestion(&mut self, state: &mut State, packet: Packet) -> Packet {
        if self.becn_due.is_empty() || !self.becn_due.remove(&dlid(&packet)) {
            return packet;
        }
        state.congestion(self.number).becn_sent += 1;
        state.packets.with_becn(packet)
    }

    // --- receiving -------------------------------------------------------------------------------------------

    /// Receive packets: check each, then pass them to the host. `in_port` as in `Output::Delivered`.
    #[inline(always)] // into the way of an HFI port; port 0 of a switch is cold
    pub fn receive(
        &mut self,
        state: &mut State,
        now: u64,
        burst: Burst,
        space: Option<SpaceId>,
        in_port: PortNum,
    ) {
        self.change(state);
        self.rx.element.enter_many(burst.count(), burst.packet.len());
        if self.is_stalled {
            self.wait(state, burst, space, in_port);
        } else {
            self.take(state, now, burst, space, in_port);
        }
    }

    /// Whether packets may be received in the buffer of their burst.
    pub fn may_receive_bursts(&self) -> bool {
        self.host_takes_bursts && !self.is_stalled
    }

    #[inline(always)] // into the way of an HFI port; port 0 of a switch is cold
    fn take(&mut self, state: &mut State, now: u64, burst: Burst, space: Option<SpaceId>, in_port: PortNum) {
        let packet = &burst.packet;
        if burst.is_of_several() {
            return self.take_of_several(state, now, burst, space);
        }
        if let Some(drop) = self.refusal(packet, packet.is_sealed()) {
            self.rx.element.drop(drop);
            self.errors.note(drop, packet);
            return state.packets.recycle(burst.packet);
        }
        if fecn(packet) || becn(packet) {
            self.note_congestion(state, packet, fecn(packet));
        }
        self.rx.in_flight += 1;
        let token = space.map(|space| state.lend(space));
        state.outputs.push_back(Output::Delivered { time: now, port: self.number, burst, token, in_port });
    }

    /// Take packets out of a buffer of several, for a host that takes such: it has its own memory for them, so the room
    /// that they occupy is free once everything due now has happened. They join the last output where they follow it.
    fn take_of_several(&mut self, state: &mut State, now: u64, mut burst: Burst, space: Option<SpaceId>) {
        let packet = &burst.packet;
        // all share the header; only an ICRC tells their tails apart
        let is_unknown = packet.is_sealed() && !packet.is_sound();
        let is_damaged = || is_unknown && burst.packets().any(|packet| check(packet, true).is_err());
        if self.refusal(packet, false).is_some() || is_damaged() {
            for burst in burst.one_by_one() {
                let burst = burst.alone(&mut state.packets);
                self.take(state, now, burst, space, 0);
            }
            return;
        }
        if burst.has_fecn_aside() {
            self.note_congestion(state, packet, true);
            burst.clear_fecn();
        }
        self.rx.in_flight += i64::from(burst.count());
        if let Some(space) = space {
            state.keep_until_after(now, space);
            if let Some(Output::Delivered { port, burst: last, .. }) = state.outputs.back_mut()
                && *port == self.number
                && last.is_followed_by(&burst)
            {
                last.grow(burst.count());
                return;
            }
        }
        let (port, token) = (self.number, None);
        state.outputs.push_back(Output::Delivered { time: now, port, burst, token, in_port: 0 });
    }

    /// Count the result of packets, of `len` bytes each, that were passed to the host.
    #[inline]
    pub fn account(&mut self, state: &mut State, packets: u32, len: usize, drop: Option<Drop>) {
        self.change(state);
        match drop {
            None => self.rx.leave_many(packets, len),
            Some(drop) => self.rx.lose(packets, drop),
        }
    }

    #[inline]
    fn refusal(&self, packet: &Packet, with_icrc: bool) -> Option<Drop> {
        let config = &self.config;
        if !lets_pass(config.state, packet) {
            return Some(Drop::RxPortDown);
        }
        if !packet.is_sound()
            && let Err(fault) = check(packet, with_icrc)
        {
            return Some(match fault {
                Fault::Truncated => Drop::RxTruncated,
                Fault::L2 => Drop::RxL2,
                Fault::Length => Drop::RxLength,
                Fault::Icrc => Drop::RxIcrc,
            });
        }
        let dlid = dlid(packet);
        let is_ours = if is_multicast(dlid) {
            config.has_joined(dlid)
        } else {
            config.has_lid(dlid) || dlid == LID_PERMISSIVE
        };
        if !is_ours {
            return Some(Drop::RxDlid);
        }
        (!config.admits(pkey(packet))).then_some(Drop::RxPkey)
    }

    fn note_congestion(&mut self, state: &mut State, packet: &[u8], fecn: bool) {
        let congestion = state.congestion(self.number);
        if fecn {
            congestion.fecn_received += 1;
            if !is_multicast(dlid(packet)) {
                self.becn_due.insert(slid(packet));
            }
        }
        if becn(packet) {
            congestion.becn_received += 1;
        }
    }

    // --- a busy host -----------------------------------------------------------------------------------------

    /// Pass nothing to the host until `resume`. Credits then stop the senders.
    pub fn stall(&mut self) {
        self.is_stalled = true;
    }

    /// Receive the waiting packets in order, and resume.
    pub fn resume(&mut self, state: &mut State, now: u64) {
        self.change(state);
        self.is_stalled = false;
        while let Some((burst, space, in_port)) = self.waiting.pop_front() {
            self.waiting_bytes -= burst.packet.len();
            self.rx.in_flight -= 1;
            self.take(state, now, burst, space, in_port);
            if let Some(space) = space {
                state.release(space);
            }
        }
    }

    fn wait(&mut self, state: &mut State, burst: Burst, space: Option<SpaceId>, in_port: PortNum) {
        if let Some(space) = space {
            state.keep(space);
        } else if self.waiting_bytes + burst.packet.len() > RX_BUFFER_BYTES {
            self.rx.element.drop(Drop::RxOverflow);
            self.errors.note(Drop::RxOverflow, &burst.packet);
            return state.packets.recycle(burst.packet);
        }
        self.waiting_bytes += burst.packet.len();
        self.waiting.push_back((burst, space, in_port));
        self.rx.in_flight += 1;
    }
}
