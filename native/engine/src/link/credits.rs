//! Virtual lanes with credits: a link direction that loses nothing, because a full receiver stops its sender.
//!
//! Each VL of a direction has a buffer at the receiving end. A packet goes on the wire only when that buffer has room
//! (credit). The room is free again when the packet has left the receiver: a switch has put every copy of it on the
//! next wire, or an HFI has passed it to its host. So a host that reads nothing fills its port's buffer, then the
//! switch's, and so on back to the sender, on that VL alone.
//!
//! If a link has several VLs, packets wait for the wire at its near end, and the arbiter selects the next one.

use std::collections::VecDeque;

use super::arbiter::Arbiter;
use super::config::{FlowControl, ScToVl};
use super::wire::Wire;
use crate::counters::Drop;
use crate::events::Event;
use crate::outputs::{DirectionId, PortId};
use crate::packet::{Packet, Travelling, sc};
use crate::state::{Credit, SpaceId, State};

/// The virtual lanes of one direction, as they are now; index: VL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesStatus {
    /// Bytes of room at the receiving end.
    pub credits: Vec<u64>,
    /// Bytes that wait for credits, or for the wire.
    pub waiting: Vec<u64>,
    /// Packets that this direction has marked.
    pub fecn_marked: u64,
}

#[derive(Debug)]
struct Waiting {
    packet: Packet,
    hops: u32,
    delay_ns: u64,
    /// The room that it occupies meanwhile, in the switch that it came to.
    space: Option<SpaceId>,
}

#[derive(Debug)]
struct Lane {
    credits: u64,
    queue: VecDeque<Waiting>,
    queued: u64,
    /// Nanoseconds, but for what waits now.
    waited: u64,
    /// When the first packet that waits began to, unless a packet of this VL was being sent then.
    since: u64,
}

impl Lane {
    fn can_send(&self) -> bool {
        self.queue.front().is_some_and(|first| self.credits >= first.packet.len() as u64)
    }
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
    lanes: Vec<Lane>,
    /// The VL that sent last.
    last_vl: usize,
    /// None: there is only one VL.
    arbiter: Option<Arbiter>,
    /// The sequence number of the event at which the wire is free; 0: none is set.
    wire_event: u64,
    fecn_marked: u64,
}

impl Lanes {
    /// Begin with nothing waiting and all credits.
    pub fn new(direction: DirectionId, source: Option<PortId>, flow: &FlowControl, limit: u64) -> Self {
        let lane = |_: &u32| Lane {
            credits: flow.buffer_bytes,
            queue: VecDeque::new(),
            queued: 0,
            waited: 0,
            since: 0,
        };
        Lanes {
            limit,
            stopped: false,
            direction,
            source,
            sc_to_vl: flow.sc_to_vl,
            vls_on_wire: VecDeque::new(),
            buffer_bytes: flow.buffer_bytes,
            fecn_bytes: flow.fecn_bytes,
            lanes: flow.weights.iter().map(lane).collect(),
            last_vl: 0,
            arbiter: (flow.weights.len() > 1).then(|| Arbiter::new(flow)),
            wire_event: 0,
            fecn_marked: 0,
        }
    }

    /// How many there are.
    pub fn vls(&self) -> usize {
        self.lanes.len()
    }

    /// The VL of the first packet on the wire.
    pub fn first_vl(&self) -> u8 {
        self.vls_on_wire.front().copied().unwrap_or_default()
    }

    /// Let packets that enter from now on take these VLs, modulo the number of those that there are.
    pub fn map(&mut self, sc_to_vl: &ScToVl) {
        self.sc_to_vl = sc_to_vl.map(|vl| vl % self.lanes.len() as u8);
    }

    pub fn status(&self) -> LanesStatus {
        LanesStatus {
            credits: self.lanes.iter().map(|lane| lane.credits).collect(),
            waiting: self.lanes.iter().map(|lane| lane.queued).collect(),
            fecn_marked: self.fecn_marked,
        }
    }

    /// Refuse a packet beyond the limit; one that waits in the room it has at the port it came to, never.
    pub fn refusal(&self, size: u64, space: Option<SpaceId>) -> Option<Drop> {
        let queued = || self.lanes.iter().map(|lane| lane.queued).sum::<u64>();
        (space.is_none() && queued() + size > self.limit).then_some(Drop::LinkOverflow)
    }

    fn vl(&self, packet: &[u8]) -> usize {
        self.sc_to_vl[sc(packet) as usize].into()
    }

    /// Send a packet, now or once there is room for it at the far end.
    pub fn enter(
        &mut self,
        wire: &mut Wire,
        state: &mut State,
        now: u64,
        travelling: Travelling,
        delay_ns: u64,
    ) {
        let Travelling { mut packet, hops, space } = travelling;
        let vl = self.vl(&packet);
        let size = packet.len() as u64;
        if self.source.is_none() && self.ahead(vl) >= self.fecn_bytes {
            packet = state.packets.with_fecn(packet);
            self.fecn_marked += 1;
        }
        let lane = &self.lanes[vl];
        if lane.queue.is_empty() && lane.credits >= size && self.wire_is_for(wire, now, vl, size) {
            self.lanes[vl].credits -= size;
            self.vls_on_wire.push_back(vl as u8);
            wire.enter(&mut state.events, now, packet, hops, delay_ns);
            return;
        }
        if let Some(space) = space {
            state.keep(space);
        }
        let lane = &mut self.lanes[vl];
        if lane.queue.is_empty() {
            lane.since = now;
        }
        lane.queue.push_back(Waiting { packet, hops, delay_ns, space });
        lane.queued += size;
        if self.arbiter.is_some() {
            self.wake_for_wire(wire, state, now);
        }
        if !self.stopped && self.lanes[vl].queued >= self.buffer_bytes {
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
        arbiter.sent(vl, size);
        self.take_wire(wire, vl);
        true
    }

    /// Note that a VL sends now: the one that sent before has waited since its last packet had left, if it has more.
    fn take_wire(&mut self, wire: &Wire, vl: usize) {
        let last = std::mem::replace(&mut self.last_vl, vl);
        if last != vl {
            self.lanes[last].since = self.lanes[last].since.max(wire.free_from());
        }
    }

    /// Return how long a VL has been waiting that has something to send, in nanoseconds.
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
        lane.queued + self.buffer_bytes - lane.credits
    }

    /// Return what the first packet on the wire is to give back, and take it off.
    fn credit(&mut self, packet: &[u8]) -> Credit {
        let vl = self.vls_on_wire.pop_front().unwrap_or_default();
        Credit { direction: self.direction, vl, size: packet.len() as u64 }
    }

    /// Return the room that the first packet on the wire occupies now that it has arrived.
    pub fn arrived(&mut self, state: &mut State, packet: &[u8]) -> SpaceId {
        let credit = self.credit(packet);
        state.occupy(credit)
    }

    /// Free the room of the first packet on the wire, which was lost there, once the current event is over.
    pub fn lose(&mut self, state: &mut State, packet: &[u8]) {
        let credit = self.credit(packet);
        state.returns.push_back(credit);
    }

    /// Take a credit that has come back, and send what waited for it.
    pub fn give_back(&mut self, wire: &mut Wire, state: &mut State, now: u64, credit: Credit) {
        let vl = usize::from(credit.vl);
        let lane = &mut self.lanes[vl];
        let before = lane.credits;
        lane.credits += credit.size;
        if let Some(arbiter) = &mut self.arbiter {
            if lane.queue.front().is_some_and(|first| before < first.packet.len() as u64) {
                arbiter.woke(vl);
            }
            self.wake_for_wire(wire, state, now);
            return;
        }
        while self.lanes[vl].can_send() {
            self.send_next(wire, state, now, vl);
        }
        self.wake(state, now);
    }

    fn send_next(&mut self, wire: &mut Wire, state: &mut State, now: u64, vl: usize) {
        self.lanes[vl].waited += self.waiting(wire, now, vl);
        self.take_wire(wire, vl);
        let lane = &mut self.lanes[vl];
        lane.since = now;
        let Some(next) = lane.queue.pop_front() else { return };
        let size = next.packet.len() as u64;
        lane.credits -= size;
        lane.queued -= size;
        self.vls_on_wire.push_back(vl as u8);
        wire.enter(&mut state.events, now, next.packet, next.hops, next.delay_ns);
        if let Some(space) = next.space {
            state.release(space);
        }
    }

    /// The VLs that can send now, as bits.
    fn ready(&self) -> u16 {
        let bit = |(vl, lane): (usize, &Lane)| u16::from(lane.can_send()) << vl;
        self.lanes.iter().enumerate().map(bit).sum()
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

    /// Go on where the wire has become free.
    pub fn wire_free(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        self.wire_event = 0;
        self.arbitrate(wire, state, now);
    }

    /// Wait for the wire anew: it may be free sooner or later than it was to be.
    pub fn wire_changed(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        if self.cancel_wire_event(state) {
            self.wake_for_wire(wire, state, now);
        }
    }

    /// Send what can go now, and the rest when the wire is free again.
    fn arbitrate(&mut self, wire: &mut Wire, state: &mut State, now: u64) {
        loop {
            let ready = self.ready();
            let Some(arbiter) = self.arbiter.as_mut().filter(|_| ready != 0) else { break };
            let vl = arbiter.choose(ready);
            let size = self.lanes[vl].queue.front().map_or(0, |first| first.packet.len());
            arbiter.sent(vl, size as u64);
            self.send_next(wire, state, now, vl);
            if wire.free_from() > now {
                if self.ready() != 0 {
                    self.schedule_wire(wire, state);
                }
                break;
            }
        }
        self.wake(state, now);
    }

    fn wake(&mut self, state: &mut State, now: u64) {
        if self.stopped && self.lanes.iter().all(|lane| lane.queued <= self.buffer_bytes / 2) {
            self.stop(state, now, false);
        }
    }

    /// Tell the sender to stop offering packets, or to go on; a switch needs no telling.
    fn stop(&mut self, state: &mut State, now: u64, stopped: bool) {
        self.stopped = stopped;
        if let Some(port) = self.source {
            state.stop(now, port, stopped);
        }
    }

    /// Forget everything that waits, and return its packets: the link went down.
    pub fn flush(&mut self, wire: &Wire, state: &mut State, now: u64) -> Vec<Packet> {
        let mut packets = Vec::new();
        let waits = self.waits(wire, now);
        for (lane, waited) in self.lanes.iter_mut().zip(waits) {
            lane.waited = waited;
            lane.queued = 0;
            for waiting in lane.queue.drain(..) {
                packets.push(waiting.packet);
                if let Some(space) = waiting.space {
                    state.release(space);
                }
            }
        }
        self.cancel_wire_event(state);
        self.wake(state, now);
        packets
    }
}
