//! Virtual lanes with credits: a link direction that loses nothing, because a full receiver stops its sender.
//!
//! Each VL of a direction has a buffer at the receiving end, and perhaps a part of a shared buffer. A packet goes on
//! the wire only when there is room for it (credit), or when its VL is empty there: hardware forwards a packet that is
//! longer than a buffer while it arrives. The room is free again when the packet has left the receiver: a switch has put
//! every copy of it on the next wire, or an HFI has passed it to its host. So a host that does not read fills its port's
//! buffer, then the switch's, and so on back to the sender, on that VL alone.
//!
//! If a link has several VLs, packets wait for the wire at its near end, and the arbiter selects the next one.
//!
//! A switch may limit how long a packet is the first of its VL: it drops one that is so for longer than the head-of-queue
//! lifetime. So lanes that wait for each other in a circle move again.
//!
//! All settings can change while packets wait or are in transit. These packets stay on their lane: waiting ones follow
//! the new rules, those in transit return their room to that lane. Until then a lane may occupy more than its new
//! limit. Lanes that are no longer used stay until they are empty, with a weight of 1 and no room of their own, so they
//! send packet by packet.

use std::collections::{BTreeMap, VecDeque};

use super::arbiter::Arbiter;
use super::config::{Buffers, Egress, FlowControl, MAX_VLS, ScToVl};
use super::wire::Wire;
use crate::burst::Burst;
use crate::counters::Drop;
use crate::events::Event;
use crate::outputs::{DirectionId, PortId};
use crate::packet::sc;
use crate::state::{Credit, SpaceId, State};

/// The virtual lanes of one direction, as they are now; index: VL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesStatus {
    /// Bytes of room at the receiving end.
    pub credits: Vec<u64>,
    /// Bytes that wait for credits, or for the wire.
    pub waiting: Vec<u64>,
    /// Bytes on the wire and at the receiving end.
    pub occupied: Vec<u64>,
    /// Packets that this direction has marked.
    pub fecn_marked: u64,
    /// Whether the first packet that waits has no room.
    pub blocked: Vec<bool>,
    /// What waits here and holds room elsewhere meanwhile: own VL, direction and VL of that room, packet, bytes; in order.
    /// The packet is how many had arrived there with it, where copies of it hold its room as well; 0: all others together.
    pub held: Vec<(u8, DirectionId, u8, u32, u64)>,
}

#[derive(Debug)]
struct Waiting {
    /// One packet.
    burst: Burst,
    delay_ns: u64,
    /// The room that it occupies meanwhile in the switch where it arrived.
    space: Option<SpaceId>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Bytes on the wire and at the receiving end.
    occupied: u64,
    queue: VecDeque<Waiting>,
    queued: u64,
    /// Nanoseconds, without the current wait.
    waited: u64,
    /// When the first packet that waits began to, unless a packet of this VL was being sent then.
    since: u64,
}

/// The VLs of one direction of a link: credits, and the packets that wait for them.
#[derive(Debug)]
pub struct Lanes {
    /// Bytes that may wait where no room is kept for them: of a sender that ignores being stopped, or of a switch that
    /// got them from a link without credits.
    pub limit: u64,
    pub stopped: bool,
    direction: DirectionId,
    /// The HFI port that sends. None: a switch, which marks FECN.
    source: Option<PortId>,
    sc_to_vl: ScToVl,
    /// Of the packets on the wire, in order: the table that said so may have changed since.
    vls_on_wire: VecDeque<u8>,
    buffer_bytes: u64,
    fecn_bytes: u64,
    /// Those included that are no longer used.
    lanes: Vec<Lane>,
    /// The limits of each lane; index: lane.
    rooms: Buffers,
    /// The VL that sent last.
    last_vl: usize,
    /// None: there is only one VL.
    arbiter: Option<Arbiter>,
    /// The sequence number of the event at which the wire is free; 0: no event.
    wire_event: u64,
    fecn_marked: u64,
    /// How many packets have arrived, never 0 after the first.
    arrivals: u32,
    /// The head-of-queue lifetime of each VL in nanoseconds, 0: none; None: no VL has one.
    hoq_lives: Option<Box<[u64; MAX_VLS]>>,
    /// The sequence number of the event at which a first packet may have been waiting for too long; 0: no event.
    hoq_event: u64,
    hoq_due: u64,
}

impl Lanes {
    /// Start with empty lanes and all credits.
    pub fn new(direction: DirectionId, source: Option<PortId>, flow: &FlowControl, limit: u64) -> Self {
        let mut lanes = Lanes {
            limit,
            stopped: false,
            direction,
            source,
            sc_to_vl: flow.sc_to_vl,
            vls_on_wire: VecDeque::new(),
            buffer_bytes: flow.buffer_bytes,
            fecn_bytes: flow.fecn_bytes,
            lanes: flow.weights.iter().map(|_| Lane::default()).collect(),
            rooms: flow.rooms(None),
            last_vl: 0,
            arbiter: (flow.vls() > 1).then(|| Arbiter::new(flow.shares(None))),
            wire_event: 0,
            fecn_marked: 0,
            arrivals: 0,
            hoq_lives: None,
            hoq_event: 0,
            hoq_due: 0,
        };
        lanes.limit_heads(flow, &Egress::default());
        lanes
    }

    /// Bytes that wait on the VL of a service channel.
    pub fn waiting_on(&self, sc: u32) -> u64 {
        self.lanes[self.sc_to_vl[sc as usize] as usize].queued
    }

    /// The VL of the first packet on the wire.
    pub fn first_vl(&self) -> u8 {
        self.vls_on_wire.front().copied().unwrap_or_default()
    }

    /// Take new settings; see the module. Packets that enter from now on take the VLs that their service channels have,
    /// modulo the number of VLs.
    pub fn set_up(
        &mut self,
        wire: &mut Wire,
        state: &mut State,
        now: u64,
        flow: &FlowControl,
        egress: &Egress,
    ) {
        let before = self.lanes.len();
        let lanes = before.max(flow.vls());
        self.lanes.resize_with(lanes, Lane::default);
        self.buffer_bytes = flow.buffer_bytes;
        self.fecn_bytes = flow.fecn_bytes;
        self.sc_to_vl = egress.sc_to_vl.unwrap_or(flow.sc_to_vl).map(|vl| vl % flow.vls() as u8);
        self.rooms = flow.rooms(egress.buffers.as_deref());
        let shares = flow.shares(egress.arbitration.as_deref());
        let is_new = |arbiter: &Arbiter| lanes > before || *arbiter.shares() != shares;
        if lanes > 1 && self.arbiter.as_ref().is_none_or(is_new) {
            self.arbiter = Some(Arbiter::new(shares));
        }
        self.limit_heads(flow, egress);
        self.go_on(wire, state, now);
        self.watch_heads(state, now);
        self.wake(state, now);
        if let Some(most) = self.lanes.iter().map(|lane| lane.queued).max() {
            self.stop_at(state, now, most);
        }
    }

    /// Return how many bytes of the shared room are occupied.
    fn shared_used(&self) -> u64 {
        let over = |(lane, own): (&Lane, &u64)| lane.occupied.saturating_sub(*own);
        self.lanes.iter().zip(&self.rooms.dedicated).map(over).sum()
    }

    /// Return how many bytes of a VL the receiving end has room for now.
    fn free(&self, vl: usize) -> u64 {
        let (occupied, own) = (self.lanes[vl].occupied, self.rooms.dedicated[vl]);
        let left = own.saturating_sub(occupied);
        let shared = self.rooms.shared[vl].saturating_sub(occupied.saturating_sub(own));
        if shared == 0 {
            return left;
        }
        left + shared.min(self.rooms.overall_shared.saturating_sub(self.shared_used()))
    }

    /// Return whether a packet may be sent now: there is room for it, or nothing of its VL is under way.
    fn has_room(&self, vl: usize, size: u64) -> bool {
        self.lanes[vl].occupied == 0 || size <= self.free(vl)
    }

    fn can_send(&self, vl: usize) -> bool {
        self.lanes[vl].queue.front().is_some_and(|first| self.has_room(vl, first.burst.packet.len() as u64))
    }

    pub fn status(&self, state: &State) -> LanesStatus {
        let mut held = BTreeMap::<(u8, DirectionId, u8, u32), u64>::new();
        for (vl, lane) in self.lanes.iter().enumerate() {
            for space in lane.queue.iter().filter_map(|waiting| waiting.space) {
                let (credit, packet) = state.room_of(space);
                *held.entry((vl as u8, credit.direction, credit.vl, packet)).or_default() += credit.size;
            }
        }
        let vls = 0..self.lanes.len();
        LanesStatus {
            credits: vls.clone().map(|vl| self.free(vl)).collect(),
            waiting: self.lanes.iter().map(|lane| lane.queued).collect(),
            occupied: self.lanes.iter().map(|lane| lane.occupied).collect(),
            fecn_marked: self.fecn_marked,
            blocked: vls.map(|vl| !self.lanes[vl].queue.is_empty() && !self.can_send(vl)).collect(),
            held: held
                .into_iter()
                .map(|((vl, direction, of_vl, packet), bytes)| (vl, direction, of_vl, packet, bytes))
                .collect(),
        }
    }

    /// Refuse a packet beyond the limit, unless it has room at the port where it arrived and can wait there.
    #[inline]
    pub fn refusal(&self, size: u64, space: Option<SpaceId>) -> Option<Drop> {
        let queued = || self.lanes.iter().map(|lane| lane.queued).sum::<u64>();
        (space.is_none() && queued() + size > self.limit).then_some(Drop::LinkOverflow)
    }

    /// Whether so many bytes in several packets of an HFI port can enter now.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.refusal(bytes, None).is_none()
    }

    fn vl(&self, packet: &[u8]) -> usize {
        self.sc_to_vl[sc(packet) as usize].into()
    }

    /// Send a packet, now or once there is room for it at the far end.
    #[inline]
    pub fn enter(
        &mut self,
        wire: &mut Wire,
        state: &mut State,
        now: u64,
        mut burst: Burst,
        space: Option<SpaceId>,
        delay_ns: u64,
    ) {
        let vl = self.vl(&burst.packet);
        if self.marks(vl) {
            burst = burst.with_fecn(&mut state.packets);
        }
        if self.sends_at_once(wire, now, vl, burst.packet.len() as u64) {
            return wire.enter(&mut state.events, &[now], burst, delay_ns);
        }
        if let Some(space) = space {
            state.keep(space);
        }
        self.wait(wire, state, now, vl, Waiting { burst, delay_ns, space });
    }

    /// Return whether a packet that enters is to be marked, and count that.
    #[inline]
    fn marks(&mut self, vl: usize) -> bool {
        let marks = self.source.is_none() && self.ahead(vl) >= self.fecn_bytes;
        self.fecn_marked += u64::from(marks);
        marks
    }

    /// Return whether a packet that enters need not wait; then it has its room, and the wire.
    #[inline]
    fn sends_at_once(&mut self, wire: &Wire, now: u64, vl: usize, size: u64) -> bool {
        let goes = self.lanes[vl].queue.is_empty()
            && self.has_room(vl, size)
            && self.wire_is_for(wire, now, vl, size);
        if goes {
            self.lanes[vl].occupied += size;
            self.vls_on_wire.push_back(vl as u8);
        }
        goes
    }

    /// Let a packet wait behind the others of its VL.
    fn wait(&mut self, wire: &mut Wire, state: &mut State, now: u64, vl: usize, waiting: Waiting) {
        let lane = &mut self.lanes[vl];
        let is_first = lane.queue.is_empty();
        if is_first {
            lane.since = now;
        }
        lane.queued += waiting.burst.packet.len() as u64;
        lane.queue.push_back(waiting);
        if is_first {
            self.watch_heads(state, now);
        }
        if self.arbiter.is_some() {
            self.wake_for_wire(wire, state, now);
        }
        self.stop_at(state, now, self.lanes[vl].queued);
    }

    /// Stop the sender if as much as this, too much, waits on a VL.
    fn stop_at(&mut self, state: &mut State, now: u64, queued: u64) {
        if !self.stopped && queued >= self.buffer_bytes {
            self.stop(state, now, true);
        }
    }

    /// Claim the wire for a packet; return whether it was free, with no packet ahead.
    fn wire_is_for(&mut self, wire: &Wire, now: u64, vl: usize, size: u64) -> bool {
        let Some(arbiter) = &mut self.arbiter else { return true };
        arbiter.woke(vl);
        if self.wire_event != 0 || wire.free_from() > now {
            return false;
        }
        arbiter.sent(arbiter.alone(vl), size);
        self.take_wire(wire, vl);
        true
    }

    /// Note the head-of-queue lifetimes; only switches have them.
    fn limit_heads(&mut self, flow: &FlowControl, egress: &Egress) {
        let lives = egress.hoq_lives_ns(flow);
        let is_limited = self.source.is_none() && lives != [0; MAX_VLS];
        self.hoq_lives = is_limited.then(|| Box::new(lives));
    }

    /// Schedule the end of the first lifetime, unless an event is due by then.
    #[cold]
    fn watch_heads(&mut self, state: &mut State, now: u64) {
        let Some(lives) = &self.hoq_lives else { return };
        let waits = |(lane, life): (&Lane, &u64)| {
            (*life > 0 && !lane.queue.is_empty()).then(|| lane.since.saturating_add(*life))
        };
        let Some(due) = self.lanes.iter().zip(&**lives).filter_map(waits).min() else { return };
        let due = due.max(now);
        if self.hoq_event != 0 {
            if self.hoq_due <= due {
                return;
            }
            state.events.cancel(self.hoq_event);
        }
        self.hoq_due = due;
        self.hoq_event = state.events.schedule(due, Event::HeadsExpire(self.direction));
    }

    /// Remove and return the first packets that have been waiting for their lifetime, one of each VL.
    pub fn heads_expire(&mut self, wire: &mut Wire, state: &mut State, now: u64) -> Vec<Burst> {
        self.hoq_event = 0;
        let lives = self.hoq_lives.as_deref().copied().unwrap_or_default();
        let mut expired = Vec::new();
        for (vl, life) in lives.into_iter().enumerate().take(self.lanes.len()).filter(|(_, life)| *life > 0) {
            let lane = &self.lanes[vl];
            if lane.queue.is_empty() || lane.since.saturating_add(life) > now {
                continue;
            }
            let waited = self.waiting(wire, now, vl);
            let lane = &mut self.lanes[vl];
            lane.waited += waited;
            lane.since = now;
            let Some(Waiting { burst, space, .. }) = lane.queue.pop_front() else { continue };
            lane.queued -= burst.packet.len() as u64;
            if let Some(space) = space {
                state.release(space);
            }
            expired.push(burst);
        }
        self.go_on(wire, state, now);
        self.watch_heads(state, now);
        expired
    }

    /// Note that a VL sends now. If the VL that sent before has more packets, it waits since its last one left.
    fn take_wire(&mut self, wire: &Wire, vl: usize) {
        let last = std::mem::replace(&mut self.last_vl, vl);
        self.lanes[last].since = self.lanes[last].since.max(wire.free_from());
    }

    /// Return how long a VL with packets to send has been waiting, in nanoseconds.
    fn waiting(&self, wire: &Wire, now: u64, vl: usize) -> u64 {
        let since = self.lanes[vl].since;
        now.saturating_sub(if vl == self.last_vl { since.max(wire.free_from()) } else { since })
    }

    /// Return how long each VL has waited in all, in nanoseconds.
    pub fn waits(&self, wire: &Wire, now: u64) -> Vec<u64> {
        let waited = |(vl, lane): (usize, &Lane)| {
            lane.waited + if lane.queue.is_empty() { 0 } else { self.waiting(wire, now, vl) }
        };
        self.lanes.iter().enumerate().map(waited).collect()
    }

    fn ahead(&self, vl: usize) -> u64 {
        let lane = &self.lanes[vl];
        lane.queued + lane.occupied
    }

    /// Return the credit of the first packet on the wire, of `len` bytes, which leaves it.
    #[inline]
    fn credit(&mut self, len: usize) -> Credit {
        let vl = self.vls_on_wire.pop_front().unwrap_or_default();
        Credit { direction: self.direction, vl, size: len as u64 }
    }

    /// Return the room that the first packet on the wire occupies now that it has arrived.
    #[inline]
    pub fn arrived(&mut self, state: &mut State, len: usize) -> SpaceId {
        let credit = self.credit(len);
        self.arrivals = self.arrivals.wrapping_add(1).max(1);
        state.occupy(credit, self.arrivals)
    }

    /// Free the room of the first packet on the wire, which was lost there, once the current event is over.
    pub fn lose(&mut self, state: &mut State, len: usize) {
        let credit = self.credit(len);
        state.returns.push_back(credit);
    }

    /// Take a returned credit, and send the packets that waited for it.
    pub fn give_back(&mut self, wire: &mut Wire, state: &mut State, now: u64, credit: Credit) {
        self.lanes[usize::from(credit.vl)].occupied -= credit.size;
        self.go_on(wire, state, now);
    }

    /// Send packets for which there may be room now.
    fn go_on(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        if let Some(arbiter) = &mut self.arbiter {
            // those that could send before have had no less than the one that was served last
            (0..self.lanes.len()).for_each(|vl| arbiter.woke(vl));
            self.wake_for_wire(wire, state, now);
            return;
        }
        while self.can_send(0) {
            self.send_next(wire, state, now, 0);
        }
        self.wake(state, now);
    }

    fn send_next(&mut self, wire: &mut Wire, state: &mut State, now: u64, vl: usize) {
        self.lanes[vl].waited += self.waiting(wire, now, vl);
        self.take_wire(wire, vl);
        let lane = &mut self.lanes[vl];
        lane.since = now;
        let Some(next) = lane.queue.pop_front() else { return };
        let size = next.burst.packet.len() as u64;
        lane.occupied += size;
        lane.queued -= size;
        self.vls_on_wire.push_back(vl as u8);
        let Waiting { burst, delay_ns, space } = next;
        wire.enter(&mut state.events, &[now], burst, delay_ns);
        if let Some(space) = space {
            state.release(space);
        }
    }

    /// The VLs that can send now, as bits.
    fn ready(&self) -> u16 {
        (0..self.lanes.len()).map(|vl| u16::from(self.can_send(vl)) << vl).sum()
    }

    /// Send now, or as soon as the wire is free.
    fn wake_for_wire(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        if self.wire_event != 0 || self.ready() == 0 {
            return;
        }
        if wire.free_from() <= now {
            self.arbitrate(wire, state, now);
        } else {
            self.schedule_wire(wire, state);
        }
    }

    /// Cancel the event at which the wire is free; return whether one was set.
    fn cancel_wire_event(&mut self, state: &mut State) -> bool {
        let number = std::mem::take(&mut self.wire_event);
        if number != 0 {
            state.events.cancel(number);
        }
        number != 0
    }

    fn schedule_wire(&mut self, wire: &Wire, state: &mut State) {
        self.wire_event = state.events.schedule(wire.free_from(), Event::WireFree(self.direction));
    }

    /// Continue after the wire has become free.
    pub fn wire_free(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        self.wire_event = 0;
        self.arbitrate(wire, state, now);
    }

    /// Schedule the wait for the wire again, after its rate has changed.
    pub fn wire_changed(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        if self.cancel_wire_event(state) {
            self.wake_for_wire(wire, state, now);
        }
    }

    /// Send a packet that can be sent now, and the rest when the wire is free again.
    fn arbitrate(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        let ready = self.ready();
        if let Some(arbiter) = self.arbiter.as_mut().filter(|_| ready != 0) {
            let turn = arbiter.choose(ready);
            let size = self.lanes[turn.vl].queue.front().map_or(0, |first| first.burst.packet.len());
            arbiter.sent(turn, size as u64);
            self.send_next(wire, state, now, turn.vl);
            if self.ready() != 0 {
                self.schedule_wire(wire, state);
            }
        }
        self.wake(state, now);
    }

    fn wake(&mut self, state: &mut State, now: u64) {
        if self.stopped && self.lanes.iter().all(|lane| lane.queued <= self.buffer_bytes / 2) {
            self.stop(state, now, false);
        }
    }

    /// Stop or restart an HFI port that sends; a switch needs no notice.
    fn stop(&mut self, state: &mut State, now: u64, stopped: bool) {
        self.stopped = stopped;
        if let Some(port) = self.source {
            state.stop(now, port, stopped);
        }
    }

    /// Remove and return all waiting packets, because the link went down.
    pub fn flush(&mut self, wire: &Wire, state: &mut State, now: u64) -> Vec<Burst> {
        let mut flushed = Vec::new();
        let waits = self.waits(wire, now);
        for (lane, waited) in self.lanes.iter_mut().zip(waits) {
            lane.waited = waited;
            lane.queued = 0;
            for Waiting { burst, space, .. } in lane.queue.drain(..) {
                if let Some(space) = space {
                    state.release(space);
                }
                flushed.push(burst);
            }
        }
        self.cancel_wire_event(state);
        let number = std::mem::take(&mut self.hoq_event);
        if number != 0 {
            state.events.cancel(number);
        }
        self.wake(state, now);
        flushed
    }
}
