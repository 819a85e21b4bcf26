//! The engine: it carries every packet of a fabric from HFI port to HFI port. Sans-IO: inputs and the time in, outputs
//! and a deadline out.
//!
//! The readable reference is hfi_sim/engine, module for module; docs/explanation/engine.md lists the rules of both. Times are whole
//! nanoseconds. All events of an engine are ordered: by time, then by sequence number. An input comes after all events
//! that are due by its time.
//!
//! Elements are numbered from 0, and numbers are not reused: what still names an element that is gone reaches no other
//! one, and is lost.

mod bursts;
mod changes;
mod looking;

use std::collections::VecDeque;

use crate::burst::Burst;
use crate::config::{End, PortNum};
use crate::counters::Drop;
use crate::events::{Due, Event, Place};
use crate::link::config::{FlowControl, LinkConfig};
use crate::link::direction::Direction;
use crate::numbered::Numbered;
use crate::outputs::{BufferToken, DirectionId, Output, PortId, SwitchId};
use crate::packet::{Packet, Packets};
use crate::port::{Address, Port};
use crate::port_errors::PortErrors;
use crate::random::Stream;
use crate::share::{Handover, Outbox, Share, WorkerId};
use crate::state::{POOL_BYTES, SpaceId, State};
use crate::switch::Switch;
use wire::LID_PERMISSIVE;

pub use looking::Counted;

/// See the module.
#[derive(Debug, Default)]
pub struct Engine {
    state: State,
    ports: Numbered<Port>,
    switches: Vec<Switch>,
    directions: Numbered<Direction>,
    /// The shortest time in which an inner event can cause a visible one; None: unknown.
    lookahead: Option<u64>,
    /// Whether no host returns credits; None: unknown.
    no_host_lends: Option<bool>,
    /// Whether several packets may leave for another engine in one output.
    bursts_depart: bool,
    /// Outputs that wait for earlier events, with time and number of their events; only used within `handle_timeout`.
    early: VecDeque<((u64, u64), Output)>,
    /// The congestion counters of remote ports: always empty.
    nobodys_errors: PortErrors,
    /// Reused buffer, empty between calls: the times of the packets of a burst.
    times: Vec<u64>,
}

/// If no more than this is left in the pool, events are handled strictly in order: packets may soon be dropped.
const LOW_POOL: i64 = 16 << 20;

impl Engine {
    // --- one of several --------------------------------------------------------------------------------------

    /// Make the engine of one worker of several, which all get the same elements and changes in the same order. Packets
    /// are injected into the engine of the worker that owns their port.
    pub fn of_worker(worker: WorkerId, workers: u32) -> Self {
        Engine::with_share(Share::new(worker, workers))
    }

    /// Make the engine of the worker that carries this share.
    pub fn with_share(share: Share) -> Self {
        let workers = share.workers();
        let mut engine = Engine::default();
        engine.state.packets = Packets::of_worker(share.worker, workers);
        engine.state.share = share;
        engine.state.pool = POOL_BYTES / i64::from(workers);
        engine
    }

    /// Return the worker that owns a port, once it has its cable: packets are injected, and room is released, there.
    pub fn owner(&self, port: PortId) -> WorkerId {
        self.state.share.owner(port)
    }

    /// Whether this worker carries a direction; of a link, one worker carries both.
    pub fn carries(&self, direction: DirectionId) -> bool {
        self.directions[direction as usize].is_here()
    }

    /// The packets that wait to be handed over to another worker.
    pub fn outbox(&mut self, worker: WorkerId) -> &mut Outbox {
        &mut self.state.share.outboxes[worker as usize]
    }

    /// Whether anything waits for other workers.
    #[inline]
    pub fn hands_over(&self) -> bool {
        self.state.share.outboxes.iter().any(|outbox| !outbox.packets.is_empty())
    }

    /// Accept packets that another worker has handed over: each enters at its own time, with the next `handle_timeout`.
    pub fn take_in(&mut self, from: WorkerId, handover: Handover) {
        self.state.share.take_in(&mut self.state.events, from, handover);
    }

    /// Count packets that could not be handed over because the lane was full.
    pub fn overflow(&mut self, handover: Handover) {
        self.directions[handover.direction as usize].overflow(&mut self.state, handover);
    }

    // --- elements, once each ---------------------------------------------------------------------------------

    /// Add an HFI port, without a cable and DOWN.
    pub fn add_port(&mut self) -> PortId {
        self.state.share.add_port();
        self.push_port(None)
    }

    fn push_port(&mut self, switch: Option<SwitchId>) -> PortId {
        let number = self.ports.len() as PortId;
        self.ports.push(Port::new(number, switch));
        self.state.congestion.push(Default::default());
        number
    }

    /// Add a switch, with empty tables and all ports DOWN.
    pub fn add_switch(&mut self) -> SwitchId {
        let number = self.switches.len() as SwitchId;
        self.switches.push(Switch::new(number));
        self.state.switches += 1;
        number
    }

    /// Give a switch its port 0, where packets for the switch itself end, DOWN.
    ///
    /// What is addressed to its LID is passed to its host unless the table leads elsewhere, and so is what its table of
    /// groups sends to port 0, and management packets (SC15) to the permissive LID. What it sends, the switch forwards.
    /// While it is DOWN, the switch drops such packets. Of all arrivals at a switch, only MADs can set a deadline: others
    /// for port 0 have no receiver there and may wait for the next call.
    pub fn add_port0(&mut self, switch: SwitchId) -> PortId {
        self.state.share.add_port0();
        self.push_port(Some(switch))
    }

    /// Add a cable and return its first direction; the second is the next number. Each direction has its configuration,
    /// its credits, and random streams for its faults and its jitter.
    pub fn add_link(
        &mut self,
        ends: [End; 2],
        ways: [(&LinkConfig, Option<&FlowControl>); 2],
        streams: [(Stream, Stream); 2],
    ) -> DirectionId {
        let first = self.directions.len() as DirectionId;
        self.forget_links();
        let owners = self.state.share.lay(ends, first, ways.iter().any(|(_, flow)| flow.is_some()));
        for side in 0..2 {
            let (source, target) = (ends[side], ends[1 - side]);
            let number = first + side as DirectionId;
            let (config, flow) = ways[side];
            let mut direction = Direction::new(number, (source, target), config, flow, streams[side]);
            if owners[side] != self.state.share.worker {
                direction.leave_to(owners[side]);
            }
            if let End::Switch(switch, port) = target {
                let switch = &mut self.switches[switch as usize];
                switch.port(port).arriving = Some(number);
                direction.set_visibility(&mut self.state, switch.visibility());
            }
            let near = match source {
                End::Hfi(port) => {
                    let port = &mut self.ports[port as usize];
                    Some((&mut port.leaving, &port.config.egress))
                }
                End::Switch(switch, port) => {
                    let port = self.switches[switch as usize].port(port);
                    Some((&mut port.leaving, &port.config.egress))
                }
                End::Boundary => None,
            };
            if let Some((leaving, egress)) = near {
                *leaving = Some(number);
                direction.set_egress(&mut self.state, 0, egress);
            }
            self.directions.push(direction);
        }
        first
    }

    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Whether a port is port 0 of a switch.
    pub fn is_port0(&self, port: PortId) -> bool {
        self.ports[port as usize].switch.is_some()
    }

    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    pub fn directions(&self) -> usize {
        self.directions.len()
    }

    pub fn tallies(&self) -> usize {
        self.state.tallies.len()
    }

    // --- packets ---------------------------------------------------------------------------------------------

    /// The pool for packets to inject; delivered and observed packets are recycled to it.
    pub fn packets(&mut self) -> &mut Packets {
        &mut self.state.packets
    }

    /// Send data from an HFI port if it is a valid packet, with the fields in it; return why the port refused it.
    pub fn send(&mut self, now: u64, port: PortId, data: &[u8]) -> Option<Drop> {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        if let Some(drop) = self.ports[port as usize].refuse(&mut self.state, data) {
            return Some(drop);
        }
        let address = Address { slid: wire::slid(data), dlid: wire::dlid(data), pkey: wire::pkey(data) };
        let packet = self.state.packets.copy(data);
        self.inject(now, port, packet, address)
    }

    /// Send a complete packet from an HFI port, or several that `may_inject_together` has just allowed; return why the port
    /// refused it.
    pub fn inject(&mut self, now: u64, port: PortId, packet: Packet, address: Address) -> Option<Drop> {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        let sender = &mut self.ports[port as usize];
        let drop = match sender.switch {
            None => {
                let mut alone = [now];
                let times = if packet.count() == 1 {
                    &mut alone[..]
                } else {
                    self.times.resize(packet.count() as usize, now);
                    &mut self.times
                };
                sender.send(&mut self.directions, &mut self.state, times, packet, address)
            }
            Some(switch) => self.inject_into(switch, now, port, packet, address),
        };
        self.times.clear();
        self.settle(now);
        drop
    }

    /// Let port 0 of a switch send.
    #[cold]
    fn inject_into(
        &mut self,
        switch: SwitchId,
        now: u64,
        port: PortId,
        packet: Packet,
        address: Address,
    ) -> Option<Drop> {
        let packet = match self.ports[port as usize].admit(None, &mut self.state, packet, address) {
            Ok(packet) => packet,
            Err(drop) => return Some(drop),
        };
        let switch = &mut self.switches[switch as usize];
        let burst = Burst::of(packet, 0);
        switch.forward(&mut self.ports, &mut self.directions, &mut self.state, (now, 0), burst, None);
        None
    }

    /// Send data from port 0 of a switch out of one of its other ports, without the tables.
    ///
    /// Directed routes work this way, hop by hop. Return why port 0 refused it; else as `send`.
    pub fn direct(&mut self, now: u64, port: PortId, out_port: PortNum, data: &[u8]) -> Option<Drop> {
        self.handle_timeout(now);
        let port0 = &mut self.ports[port as usize];
        let switch = port0.switch.expect("the port is port 0 of a switch");
        if let Some(drop) = port0.refuse(&mut self.state, data) {
            return Some(drop);
        }
        let address = Address { slid: wire::slid(data), dlid: LID_PERMISSIVE, pkey: wire::pkey(data) };
        let packet = self.state.packets.copy(data);
        let packet = match port0.admit(None, &mut self.state, packet, address) {
            Ok(packet) => packet,
            Err(drop) => return Some(drop),
        };
        let switch = &mut self.switches[switch as usize];
        let burst = Burst::of(packet, 0);
        switch.directed(&mut self.directions, &mut self.state, now, out_port, burst, None);
        self.settle(now);
        None
    }

    /// Report the result of delivered packets of `len` bytes each: accepted by their host, or why not.
    #[inline]
    pub fn account(&mut self, port: PortId, packets: u32, len: usize, drop: Option<Drop>) {
        self.ports[port as usize].account(&mut self.state, packets, len, drop);
    }

    /// Keep the room of a delivered packet for one more holder; return whether there is such a token.
    pub fn keep(&mut self, token: BufferToken) -> bool {
        self.state.keep_lent(token)
    }

    /// Release it for one holder; after the last, its credit goes back to the sender. Return whether there is such a
    /// token.
    pub fn release(&mut self, now: u64, token: BufferToken) -> bool {
        self.advance::<false>(now, token);
        let found = self.state.release_lent(token);
        self.settle(now);
        found
    }

    // --- time and results ------------------------------------------------------------------------------------

    /// Handle all events that are due at `now` or earlier.
    pub fn handle_timeout(&mut self, now: u64) {
        self.advance::<false>(now, BufferToken::MAX);
    }

    /// Handle events that are due at `now` or earlier, up to the first packet that is passed to a host with the room
    /// that it occupies; return whether more may be due.
    ///
    /// So a caller that is late can still release the room as of the time of the packet, before later events.
    pub fn handle_until_lent(&mut self, now: u64) -> bool {
        self.advance::<true>(now, BufferToken::MAX)
    }

    /// Whether any event is due by `now`.
    #[inline]
    fn has_due(&self, now: u64) -> bool {
        self.state.events.has_due(now) || self.state.has_unused()
    }

    /// Handle due events. Room released at `now` under this token or a later one is handled after them.
    #[inline]
    fn advance<const UNTIL_LENT: bool>(&mut self, now: u64, before: BufferToken) -> bool {
        let lent = self.state.lent_so_far();
        let mut in_rows = self.goes_in_rows();
        loop {
            let unused = self.state.next_unused(now, before);
            let Some(due) = self.state.events.pop_due(unused.unwrap_or(now), in_rows) else {
                let Some(when) = unused else { break };
                self.state.release_unused();
                self.settle(when);
                continue;
            };
            let Due { when, number, event, is_ahead } = due;
            if !is_ahead && !self.early.is_empty() {
                self.hand_out_early((when, number));
            }
            let outputs = self.state.outputs.len();
            match event {
                // these two handle the outputs of each packet themselves
                Event::Arrival(direction) => self.arrive(due, direction, now, in_rows),
                Event::HandedOver(worker) => self.enter_next(due, now, worker, in_rows),
                Event::WireFree(direction) => {
                    self.directions[direction as usize].wire_free(&mut self.state, when);
                }
                Event::HeadsExpire(direction) => {
                    self.directions[direction as usize].heads_expire(&mut self.state, when);
                }
                Event::HeldLongEnough(direction) => {
                    self.directions[direction as usize].held_long_enough(&mut self.state, when, number);
                }
            }
            self.settle(when);
            if is_ahead && self.state.outputs.len() != outputs {
                self.keep_early(outputs, (when, number));
            }
            if UNTIL_LENT && self.state.lent_so_far() != lent {
                return true;
            }
            in_rows = in_rows && self.has_room();
        }
        if !self.early.is_empty() {
            self.hand_out_early((u64::MAX, u64::MAX));
        }
        false
    }

    /// Keep the outputs of an event that may have been handled early, until all earlier events have been handled.
    #[cold]
    fn keep_early(&mut self, outputs: usize, place: (u64, u64)) {
        self.early.extend(self.state.outputs.drain(outputs..).map(|output| (place, output)));
    }

    /// Report the kept outputs of events before this one.
    #[cold]
    fn hand_out_early(&mut self, place: (u64, u64)) {
        let due = self.early.partition_point(|(early, _)| *early < place);
        self.state.outputs.extend(self.early.drain(..due).map(|(_, output)| output));
    }

    /// Whether due events inside the fabric may be handled before those at the ports without a visible difference. An
    /// arrival at a port changes nothing inside the fabric except the buffer pool and the credits that its host returns;
    /// an inner event changes nothing at a port. Outputs stay in the order of their times.
    ///
    /// Packets that follow each other over a link are then handled in a row, however many links they cross.
    #[inline]
    fn goes_in_rows(&mut self) -> bool {
        let directions = &self.directions;
        let no_host_lends = || !directions.iter().any(Direction::lends_to_host);
        *self.no_host_lends.get_or_insert_with(no_host_lends) && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.state.pool > LOW_POOL
    }

    /// Handle the arrival of the packet that is due, and of those behind it as long as they are the next events of all.
    #[inline]
    fn arrive(&mut self, due: Due, number: DirectionId, until: u64, in_rows: bool) {
        let Due { mut when, number: mut order, mut is_ahead, .. } = due;
        loop {
            let outputs = self.state.outputs.len();
            let next = self.arrive_first(when, number, until, in_rows);
            self.settle(when);
            if is_ahead && self.state.outputs.len() != outputs {
                self.keep_early(outputs, (when, order));
            }
            let Some(next) = next else { return };
            let goes_on = in_rows && next.arrival <= until && self.has_room() && self.early.is_empty();
            let events = &mut self.state.events;
            if !goes_on || !events.is_next(next.arrival, next.number, next.place, true) {
                return events.push(next.arrival, next.number, Event::Arrival(number), next.place);
            }
            (when, order) = (next.arrival, next.number);
            is_ahead = events.goes_ahead(next.place, in_rows);
        }
    }

    /// Pass a burst to the element at the far end of a direction; to a switch, only of one packet.
    #[inline]
    fn receive(&mut self, now: u64, number: DirectionId, burst: Burst, space: Option<SpaceId>) {
        match self.directions[number as usize].target {
            End::Hfi(port) => self.ports[port as usize].receive(&mut self.state, now, burst, space, 0),
            End::Switch(switch, port) => {
                let switch = &mut self.switches[switch as usize];
                switch.forward(
                    &mut self.ports,
                    &mut self.directions,
                    &mut self.state,
                    (now, port),
                    burst,
                    space,
                );
            }
            End::Boundary => {
                let token = space.map(|space| self.state.lend(space));
                let burst = burst.sealed(&mut self.state.packets);
                let departed = Output::Departed { time: now, direction: number, burst, token };
                self.state.outputs.push_back(departed);
            }
        }
        if let Some(space) = space {
            self.state.release(space);
        }
    }

    /// Take a packet that has left the engine at the other end of a link, after `hops` switches.
    ///
    /// `direction` begins at a boundary. Its rate, latency, queue and faults acted where it begins; here are its state
    /// and its credits: they are what the receiver behind it has room for.
    pub fn cross(&mut self, now: u64, direction: DirectionId, packet: Packet, hops: u32) {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        let burst = Burst::of(packet, hops);
        if let Some(burst) = self.directions[direction as usize].cross(&mut self.state, now, burst) {
            self.receive(now, direction, burst, None);
        }
        self.settle(now);
    }

    /// Let the next packet enter that a worker has handed over, and those behind it that are next of all.
    fn enter_next(&mut self, due: Due, until: u64, worker: WorkerId, in_rows: bool) {
        let Due { mut when, number: mut order, mut is_ahead, .. } = due;
        loop {
            let outputs = self.state.outputs.len();
            let next = self.enter_first(worker, until, in_rows);
            if is_ahead && self.state.outputs.len() != outputs {
                self.keep_early(outputs, (when, order));
            }
            let Some((time, number)) = next else { return };
            let goes_on = !in_rows || (self.has_room() && self.early.is_empty());
            let events = &mut self.state.events;
            if !goes_on || time > until || !events.is_next(time, number, Place::Inside, in_rows) {
                return events.push(time, number, Event::HandedOver(worker), Place::Inside);
            }
            (when, order) = (time, number);
            is_ahead = events.goes_ahead(Place::Inside, in_rows);
        }
    }

    /// Process returned credits in order, and the credits that this returns in turn.
    #[inline]
    fn settle(&mut self, now: u64) {
        while let Some(credit) = self.state.returns.pop_front() {
            self.directions[credit.direction as usize].give_back(&mut self.state, now, credit);
        }
    }

    /// The time when `handle_timeout` is due; None: nothing will happen without an input.
    ///
    /// There is no output before that time. Earlier events inside the fabric, such as an arrival at a switch, are
    /// handled with the next timeout or input: in order, each at its own time.
    pub fn deadline(&mut self) -> Option<u64> {
        let outward = self.state.events.next_outward();
        let Some(inner) = self.state.events.next_inner() else { return outward };
        let lookahead = if self.state.stopped > 0 { 0 } else { self.lookahead() };
        let visible = inner.saturating_add(lookahead);
        Some(outward.map_or(visible, |outward| outward.min(visible)))
    }

    /// Drop cached facts about all links, because one changes.
    fn forget_links(&mut self) {
        self.lookahead = None;
        self.no_host_lends = None;
    }

    fn lookahead(&mut self) -> u64 {
        let directions = &self.directions;
        // packets for another worker must reach it in time
        let parts = if self.state.share.is_alone() { 1 } else { 2 };
        let shortest = || directions.iter().filter_map(Direction::visible_from).min().unwrap_or(0) / parts;
        *self.lookahead.get_or_insert_with(shortest)
    }

    /// The time of the next event, visible or not.
    pub fn next_event(&self) -> Option<u64> {
        let events = &self.state.events;
        events.next_outward().into_iter().chain(events.next_inner()).min()
    }

    /// Whether `poll_output` would return an output.
    pub fn has_output(&self) -> bool {
        !self.state.outputs.is_empty()
    }

    /// Take the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.state.outputs.pop_front()
    }
}
