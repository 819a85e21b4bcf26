//! An HFI port, or port 0 of a switch: where packets enter and leave the fabric.
//!
//! It enforces what hardware enforces: its own LID as SLID, its partition table in both directions, complete and
//! undamaged packets on receipt.

use std::collections::{HashSet, VecDeque};

use wire::{Fault, LID_PERMISSIVE, MAX_PACKET, check, is_multicast, is_whole, pkey};

use crate::config::{PortConfig, PortNum, PortState};
use crate::counters::{Drop, Passing};
use crate::forwarding::{is_management, lets_pass};
use crate::link::direction::Direction;
use crate::outputs::{DirectionId, Output, PortId, SwitchId};
use crate::packet::{Car, Packet, Train, Travelling, becn, dlid, fecn, slid};
use crate::port_errors::PortErrors;
use crate::state::{Credit, ElementId, Mark, SpaceId, State};

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
    /// Whether its host takes packets of a train together.
    pub host_takes_trains: bool,
    number: PortId,
    /// The senders of packets that came with FECN; LIDs from the wire.
    becn_due: HashSet<u32>,
    is_stalled: bool,
    waiting: VecDeque<(Packet, Option<SpaceId>, PortNum)>,
    waiting_bytes: usize,
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
            host_takes_trains: false,
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

    /// Send a complete packet; return why the port refused it.
    #[inline]
    pub fn send(
        &mut self,
        directions: &mut [Direction],
        state: &mut State,
        now: u64,
        packet: Packet,
        address: Address,
    ) -> Option<Drop> {
        let mut leaving = self.leaving.map(|leaving| &mut directions[leaving as usize]);
        match self.admit(leaving.as_deref_mut(), state, packet, address) {
            Ok(packet) => {
                let leaving = leaving?; // without a cable it has admitted nothing
                leaving.enter(state, now, Travelling { packet, hops: 0, space: None });
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
        self.tx.element.enter(packet.len());
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
        self.tx.element.leave(packet.len());
        if !self.becn_due.is_empty() && self.becn_due.contains(&address.dlid) {
            return Ok(self.answer_congestion(state, packet));
        }
        Ok(packet)
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

    /// Whether packets of a train may be sent together: none is refused, and none is changed.
    pub fn may_send_train(&self, address: Address) -> bool {
        let config = &self.config;
        let is_open = config.state == PortState::Active && config.egress.vl_mtus.is_none();
        is_open
            && self.becn_due.is_empty()
            && config.has_lid(address.slid)
            && address.dlid != 0
            && config.may_send(address.pkey)
    }

    /// Count packets that are sent together.
    pub fn sent_train(&mut self, state: &mut State, train: &Train) {
        self.change(state);
        self.tx.element.enter_many(train.count, train.packet.len());
        self.tx.element.leave_many(train.count, train.packet.len());
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

    /// Receive a packet: check it, then pass it to the host. `in_port` as in `Output::Delivered`.
    #[inline(always)] // into the way of an HFI port; port 0 of a switch is cold
    pub fn receive(&mut self, state: &mut State, now: u64, travelling: Travelling, in_port: PortNum) {
        let Travelling { packet, space, .. } = travelling;
        self.change(state);
        self.rx.element.enter(packet.len());
        if self.is_stalled {
            self.wait(state, packet, space, in_port);
        } else {
            self.take(state, now, packet, space, in_port);
        }
    }

    #[inline(always)] // into the way of an HFI port; port 0 of a switch is cold
    fn take(
        &mut self,
        state: &mut State,
        now: u64,
        packet: Packet,
        space: Option<SpaceId>,
        in_port: PortNum,
    ) {
        if let Some(drop) = self.refusal(&packet, packet.is_sealed()) {
            self.rx.element.drop(drop);
            self.errors.note(drop, &packet);
            return state.packets.recycle(packet);
        }
        if fecn(&packet) || becn(&packet) {
            self.note_congestion(state, &packet, fecn(&packet));
        }
        self.rx.in_flight += 1;
        let token = space.map(|space| state.lend(space));
        state.outputs.push_back(Output::Delivered { time: now, port: self.number, packet, token, in_port });
    }

    /// Whether packets of a train may be received together.
    pub fn may_receive_train(&self) -> bool {
        self.host_takes_trains && !self.is_stalled
    }

    /// Receive packets of a train: check each, unless that is done, then pass them to the host. None bears a mark of congestion.
    pub fn receive_train(&mut self, state: &mut State, now: u64, train: Train) {
        self.change(state);
        self.rx.element.enter_many(train.count, train.packet.len());
        // what else is asked of a packet is in the header that all share, and in a tail that only an ICRC tells apart
        let is_unknown = train.packet.is_sealed() && !train.packet.is_sound();
        let refusal = self.refusal(&train.packet, false);
        if refusal.is_some() || (is_unknown && train.packets().any(|packet| check(packet, true).is_err())) {
            for index in train.from..train.from + train.count {
                let packet = state.packets.single(&train.packet, index);
                self.take(state, now, packet, None, 0);
            }
            return state.packets.recycle(train.packet);
        }
        self.rx.in_flight += i64::from(train.count);
        state.outputs.push_back(Output::Train { time: now, port: self.number, train });
    }

    /// Receive a packet of a train that occupies room, which is free once it is here: who takes trains has memory of its own
    /// for what is in them. It is passed to the host together with those before it.
    #[inline]
    pub fn receive_car(&mut self, state: &mut State, now: u64, car: Car, room: Credit) {
        self.change(state);
        self.rx.element.enter(car.packet.len());
        let is_unknown = car.packet.is_sealed() && !car.packet.is_sound();
        let is_damaged = || is_unknown && check(car.packet.nth(car.index), true).is_err();
        if self.refusal(&car.packet, false).is_some() || is_damaged() {
            let packet = car.single(&mut state.packets);
            self.take(state, now, packet, None, 0);
            return state.returns.push_back(room);
        }
        if car.fecn {
            self.note_congestion(state, &car.packet, true);
        }
        self.rx.in_flight += 1;
        state.release_then(now, room);
        let Car { packet, index, hops, .. } = car;
        if let Some(Output::Train { port, train, .. }) = state.outputs.back_mut()
            && *port == self.number
            && train.packet.as_ptr() == packet.as_ptr()
            && (train.from + train.count, train.hops) == (index, hops)
        {
            train.count += 1;
            return;
        }
        let train = Train { packet, from: index, count: 1, hops };
        state.outputs.push_back(Output::Train { time: now, port: self.number, train });
    }

    /// Count what became of a packet that was passed to the host.
    #[inline]
    pub fn account(&mut self, state: &mut State, len: usize, drop: Option<Drop>) {
        self.change(state);
        match drop {
            None => self.rx.leave(len),
            Some(drop) => self.rx.lose(drop),
        }
    }

    /// The same of packets of a train.
    #[inline]
    pub fn account_train(&mut self, state: &mut State, train: &Train, drop: Option<Drop>) {
        self.change(state);
        match drop {
            None => self.rx.leave_many(train.count, train.packet.len()),
            Some(drop) => (0..train.count).for_each(|_| self.rx.lose(drop)),
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
        while let Some((packet, space, in_port)) = self.waiting.pop_front() {
            self.waiting_bytes -= packet.len();
            self.rx.in_flight -= 1;
            self.take(state, now, packet, space, in_port);
            if let Some(space) = space {
                state.release(space);
            }
        }
    }

    fn wait(&mut self, state: &mut State, packet: Packet, space: Option<SpaceId>, in_port: PortNum) {
        if let Some(space) = space {
            state.keep(space);
        } else if self.waiting_bytes + packet.len() > RX_BUFFER_BYTES {
            self.rx.element.drop(Drop::RxOverflow);
            self.errors.note(Drop::RxOverflow, &packet);
            return state.packets.recycle(packet);
        }
        self.waiting_bytes += packet.len();
        self.waiting.push_back((packet, space, in_port));
        self.rx.in_flight += 1;
    }
}
