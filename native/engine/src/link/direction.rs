//! One direction of a link: it admits packets, counts them, and passes arrivals to the far end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::capture::CaptureRing;
use super::config::MAX_RATE_BPS;
use super::config::{Egress, FlowControl, LinkConfig, MAX_VLS, SERVICE_CHANNELS, ScToVl};
use super::credits::{Lanes, LanesStatus};
use super::faults::{Faults, Held};
use super::observe::Observer;
use super::queue::Queue;
use super::rule::FaultRule;
use super::vl_counters::{Uncounted, VlCounters, VlTally};
use super::wire::{Next, Shows, Wire};
use super::wire_counters::{WireCounters, WireTally, is_marked};
use crate::config::End;
use crate::counters::{Drop, Passing};
use crate::forwarding::SC_MANAGEMENT;
use crate::outputs::{DirectionId, PortId};
use crate::packet::{Car, Packet, Train, Travelling, sc};
use crate::random::Stream;
use crate::share::{Handover, Together, WorkerId};
use crate::state::{Credit, ElementId, Mark, SpaceId, State};

/// Where packets wait for the wire.
#[derive(Debug)]
enum Room {
    Queue(Queue),
    Lanes(Box<Lanes>),
}

#[derive(Debug)]
pub struct Direction {
    pub target: End,
    pub counters: Passing,
    pub mark: Mark,
    number: DirectionId,
    /// The worker that carries it, if it is not this one: entering packets are handed over to it.
    elsewhere: Option<WorkerId>,
    /// When a packet last entered, kept where there are several workers.
    latest: u64,
    is_up: bool,
    /// Whether there are faults, or packets that they hold back.
    is_disturbed: bool,
    wire: Wire,
    room: Room,
    faults: Faults,
    observer: Observer,
    carried: WireTally,
    /// Whether `vls` has a tally.
    tallies_vls: bool,
    /// Whether packets come from the engine where it begins, in which its wire and its faults are.
    arrives: bool,
    vls: Box<Vls>,
}

/// Fields that few packets need.
#[derive(Debug)]
struct Vls {
    /// How its credits are set up; None: it has none, and one queue.
    flow: Option<FlowControl>,
    /// As the port says.
    egress: Egress,
    /// The VL of each service channel.
    sc_to_vl: ScToVl,
    /// What each VL has carried; None: there has always been one only.
    tally: Option<VlTally>,
    /// Packets that were longer than the MTU of their VL.
    too_long: u64,
}

impl Vls {
    fn of(&self, packet: &[u8]) -> u8 {
        self.sc_to_vl[sc(packet) as usize]
    }
}

/// Return the part of a configuration that applies here: at the receiving engine, the wire has already been passed.
fn here(arrives: bool, config: &LinkConfig) -> LinkConfig {
    if arrives {
        LinkConfig {
            up: config.up,
            rate_bps: MAX_RATE_BPS,
            latency_ns: 0,
            queue_bytes: config.queue_bytes,
            ..LinkConfig::PLAIN
        }
    } else {
        *config
    }
}

impl Direction {
    /// Make an empty direction, whose faults and jitter draw from `streams`.
    pub fn new(
        number: DirectionId,
        ends: (End, End),
        config: &LinkConfig,
        flow: Option<&FlowControl>,
        streams: (Stream, Stream),
    ) -> Self {
        let (source, target) = ends;
        let arrives = source == End::Boundary;
        let config = &here(arrives, config);
        let source: Option<PortId> = if let End::Hfi(port) = source { Some(port) } else { None };
        let mut direction = Direction {
            target,
            counters: Passing::default(),
            mark: Mark::default(),
            number,
            elsewhere: None,
            latest: 0,
            is_up: config.up,
            is_disturbed: false,
            wire: Wire::new(number, Shows::Everything, config, streams.1),
            room: match flow {
                None => Room::Queue(Queue { limit: config.queue_bytes }),
                Some(flow) => Room::Lanes(Box::new(Lanes::new(number, source, flow, config.queue_bytes))),
            },
            faults: Faults::new(number, streams.0),
            observer: Observer::new(number),
            carried: WireTally::default(),
            tallies_vls: false,
            arrives,
            vls: Box::new(Vls {
                flow: flow.cloned(),
                egress: Egress::default(),
                sc_to_vl: [0; SERVICE_CHANNELS],
                tally: None,
                too_long: 0,
            }),
        };
        direction.map();
        direction
    }

    #[inline]
    fn change(&mut self, state: &mut State) {
        self.mark.set(&mut state.changed, ElementId::Direction(self.number));
    }

    // --- the path of a packet --------------------------------------------------------------------------------

    /// Admit a packet that has visited `hops` switches, or count why not.
    #[inline]
    pub fn enter(&mut self, state: &mut State, now: u64, travelling: Travelling) {
        if let Some(worker) = self.elsewhere {
            return self.hand_over(worker, state, now, travelling);
        }
        let now = if state.share.is_alone() { now } else { self.not_before_the_last(now) };
        self.change(state);
        let size = travelling.packet.len() as u64;
        self.counters.enter(travelling.packet.len());
        state.pool -= size as i64;
        let drop =
            if !self.is_up { Some(Drop::LinkDown) } else { self.refusal(state, now, size, travelling.space) };
        if let Some(drop) = drop {
            self.end(state, now, travelling.packet, drop);
        } else if self.is_disturbed {
            self.disturb(state, now, travelling);
        } else {
            self.pass(state, now, travelling, 0);
        }
    }

    /// Take a packet that has come by the wire of the engine where this direction begins; return it if it is to be
    /// received at once.
    pub fn cross(&mut self, state: &mut State, now: u64, travelling: Travelling) -> Option<Travelling> {
        if self.elsewhere.is_some() || !self.is_up || matches!(self.room, Room::Lanes(_)) {
            self.enter(state, now, travelling);
            return None;
        }
        self.change(state);
        let Travelling { packet, .. } = &travelling;
        self.counters.enter(packet.len());
        if !self.observer.is_idle() {
            self.observer.show(&mut state.outputs, now, packet, None);
        }
        self.counters.leave(packet.len());
        self.carried.carried(packet);
        if self.tallies_vls {
            self.tally_arrival(packet);
        }
        Some(travelling)
    }

    /// What another worker hands over comes as of its own time, which may have passed here; but a queue knows only how
    /// long it is now.
    fn not_before_the_last(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Hand a packet to the worker that carries this direction.
    fn hand_over(&mut self, worker: WorkerId, state: &mut State, time: u64, travelling: Travelling) {
        // room that it occupies was released when this event is over: no direction with credits is elsewhere
        let Travelling { mut packet, hops, .. } = travelling;
        packet.vouch();
        let handover = Handover { time, packet, direction: self.number, hops, train: None };
        if let Err(refused) = state.share.outboxes[worker as usize].push(handover) {
            self.overflow(state, time, refused.packet);
        }
    }

    /// Hand packets of a train to the worker that carries this direction; there is room for all.
    fn hand_train_over(
        &self,
        worker: WorkerId,
        state: &mut State,
        times: impl Iterator<Item = u64>,
        train: Train,
    ) {
        let Train { packet, from, hops, .. } = train;
        let times: VecDeque<u64> = times.collect();
        let time = times[0];
        let train = Some(Box::new(Together { from, times }));
        let handover = Handover { time, packet, direction: self.number, hops, train };
        state.share.outboxes[worker as usize].push(handover).expect("there is room for all");
    }

    /// Count a packet that could not be handed to the worker that carries this direction.
    pub fn overflow(&mut self, state: &mut State, now: u64, packet: Packet) {
        self.change(state);
        self.counters.enter(packet.len());
        state.pool -= packet.len() as i64;
        self.end(state, now, packet, Drop::LinkOverflow);
    }

    /// Leave this direction to another worker.
    pub fn leave_to(&mut self, worker: WorkerId) {
        self.elsewhere = Some(worker);
    }

    /// Whether this worker carries it.
    pub fn is_here(&self) -> bool {
        self.elsewhere.is_none()
    }

    /// Return why a packet that is in flight finds no room.
    #[inline]
    fn refusal(&self, state: &State, now: u64, size: u64, space: Option<SpaceId>) -> Option<Drop> {
        if state.pool < 0 {
            return Some(Drop::LinkOverflow);
        }
        match &self.room {
            Room::Queue(queue) => queue.refusal(&self.wire, now, size),
            Room::Lanes(lanes) => lanes.refusal(size, space),
        }
    }

    /// Take a further packet in flight: a copy made here.
    fn take_up(&mut self, state: &mut State, packet: &[u8]) {
        self.counters.element.copies += 1;
        self.counters.in_flight += 1;
        state.pool -= packet.len() as i64;
    }

    /// Let the faults act on a packet, and pass on what they leave.
    fn disturb(&mut self, state: &mut State, now: u64, travelling: Travelling) {
        let Travelling { packet, hops, space } = travelling;
        let mut passages = match self.faults.judge(state, now, &packet, &mut self.carried) {
            Ok(passages) => passages,
            Err(drop) => return self.end(state, now, packet, drop),
        };
        for (copy, passage) in passages.drain(..).enumerate() {
            if copy > 0 {
                self.take_up(state, &passage.packet);
            }
            if passage.behind != 0 {
                self.faults.hold(state, now, passage, hops);
            } else {
                let travelling = Travelling { packet: passage.packet, hops, space };
                if self.go_on(state, now, travelling, passage.delay_ns) {
                    self.overtaken(state, now);
                }
            }
        }
        self.faults.recycle(passages);
        state.packets.recycle(packet);
    }

    /// Pass a packet on if there is room for it; a copy may find none, or a packet that was held back.
    fn go_on(&mut self, state: &mut State, now: u64, travelling: Travelling, delay_ns: u64) -> bool {
        let size = travelling.packet.len() as u64;
        if let Some(drop) = self.refusal(state, now, size, travelling.space) {
            self.end(state, now, travelling.packet, drop);
            return false;
        }
        self.pass(state, now, travelling, delay_ns);
        true
    }

    /// Count one more packet that has overtaken those held back.
    fn overtaken(&mut self, state: &mut State, now: u64) {
        let mut index = 0;
        while index < self.faults.held() {
            match self.faults.overtaken(state, index) {
                Some(held) => self.let_go(state, now, held),
                None => index += 1,
            }
        }
    }

    /// Release the packet that was held back until the event of this number.
    pub fn held_long_enough(&mut self, state: &mut State, now: u64, number: u64) {
        if let Some(held) = self.faults.held_until(number) {
            self.change(state);
            self.let_go(state, now, held);
        }
    }

    fn let_go(&mut self, state: &mut State, now: u64, held: Held) {
        let travelling = Travelling { packet: held.packet, hops: held.hops, space: None };
        self.go_on(state, now, travelling, held.delay_ns);
        self.is_disturbed = !self.faults.is_idle();
    }

    /// Send a packet that has passed the faults.
    #[inline]
    fn pass(&mut self, state: &mut State, now: u64, travelling: Travelling, delay_ns: u64) {
        if !self.observer.is_idle() {
            self.observer.show(&mut state.outputs, now, &travelling.packet, None);
        }
        match &mut self.room {
            Room::Queue(_) => {
                self.wire.enter(&mut state.events, now, travelling.packet, travelling.hops, delay_ns);
            }
            Room::Lanes(lanes) => lanes.enter(&mut self.wire, state, now, travelling, delay_ns),
        }
    }

    /// End a packet before it is on its way.
    fn end(&mut self, state: &mut State, now: u64, packet: Packet, drop: Drop) {
        self.observer.show(&mut state.outputs, now, &packet, Some(drop));
        self.lose(state, packet, drop);
    }

    /// Return whether a packet is longer than the MTU of its VL, and count that; the packet goes no further.
    pub fn discards(&mut self, egress: &Egress, packet: &[u8]) -> bool {
        if !egress.is_too_long(packet.len() as u64, self.vls.of(packet)) {
            return false;
        }
        self.vls.too_long += 1;
        self.tally_discard(packet, None);
        true
    }

    fn tally_arrival(&mut self, packet: &[u8]) {
        let vl = match &self.room {
            Room::Queue(_) => self.vls.of(packet),
            Room::Lanes(lanes) => lanes.first_vl(),
        };
        if let Some(tally) = &mut self.vls.tally {
            tally.carried(vl, packet.len());
            if is_marked(packet) {
                tally.marked(vl, packet);
            }
        }
    }

    fn tally_discard(&mut self, packet: &[u8], drop: Option<Drop>) {
        let vl = self.vls.of(packet);
        if let Some(tally) = &mut self.vls.tally {
            tally.discarded(vl, drop);
        }
    }

    fn lose(&mut self, state: &mut State, packet: Packet, drop: Drop) {
        self.counters.lose(drop);
        state.pool += packet.len() as i64;
        if matches!(drop, Drop::LinkOverflow | Drop::LinkDown) {
            self.tally_discard(&packet, Some(drop));
        }
        state.packets.recycle(packet);
    }

    /// Return the packet whose arrival is due, and the next arrival, which the caller schedules.
    #[inline]
    pub fn arrive(&mut self, state: &mut State) -> Option<(Travelling, Option<Next>)> {
        let (packet, hops, next) = self.wire.take_due(&mut state.packets)?;
        self.change(state);
        self.counters.leave(packet.len());
        self.carried.carried(&packet);
        state.pool += packet.len() as i64;
        if self.tallies_vls {
            self.tally_arrival(&packet);
        }
        let space = match &mut self.room {
            Room::Queue(_) => None,
            Room::Lanes(lanes) => Some(lanes.arrived(state, &packet)),
        };
        Some((Travelling { packet, hops, space }, next))
    }

    // --- packets of a train ----------------------------------------------------------------------------------

    /// Whether packets may enter and arrive together, because nothing here needs to handle them one by one. For a
    /// direction of another worker, as far as is known here.
    pub fn takes_trains(&self) -> bool {
        let is_open = (!self.is_disturbed || self.faults.take_trains()) && self.observer.takes_trains();
        is_open && !self.tallies_vls && matches!(self.room, Room::Queue(_))
    }

    /// Whether the direction has neither observers nor faults.
    pub fn is_quiet(&self) -> bool {
        !self.is_disturbed && self.observer.is_idle()
    }

    /// Whether packets that come from another engine are received at once here, and nothing asks for a single one.
    pub fn takes_what_crosses(&self) -> bool {
        self.is_up && self.is_here() && self.takes_trains()
    }

    /// Take packets of a train that have come by the wire of the engine where this direction begins.
    pub fn cross_train(&mut self, state: &mut State, now: u64, train: &Train) {
        self.change(state);
        if !self.observer.is_idle() {
            train.indices().for_each(|index| self.observer.show_one_of(now, &train.packet, index, None));
        }
        self.counters.enter_many(train.count, train.packet.len());
        self.counters.leave_many(train.count, train.packet.len());
    }

    /// Whether it has room for so many bytes of a train now, without a look at each packet; or there is, on their way to
    /// the worker that carries it.
    pub fn has_room_for(&self, state: &State, now: u64, bytes: u64) -> bool {
        if let Some(worker) = self.elsewhere {
            return state.share.outboxes[worker as usize].has_room_for(bytes);
        }
        self.is_up
            && match &self.room {
                Room::Queue(queue) => queue.has_room_for(&self.wire, now, bytes),
                Room::Lanes(lanes) => lanes.has_room_for(bytes),
            }
    }

    /// Let packets of a train enter, each at its time; there is room for all.
    #[inline]
    pub fn enter_train(&mut self, state: &mut State, times: impl Iterator<Item = u64>, train: Train) {
        if let Some(worker) = self.elsewhere {
            return self.hand_train_over(worker, state, times, train);
        }
        self.change(state);
        self.counters.enter_many(train.count, train.packet.len());
        state.pool -= train.bytes() as i64;
        let is_quiet = self.is_quiet();
        let (is_alone, latest) = (state.share.is_alone(), &mut self.latest);
        let times = times.map(|now| {
            if is_alone {
                return now;
            }
            *latest = now.max(*latest);
            *latest
        });
        if is_quiet {
            return self.wire.enter_train(&mut state.events, times, train);
        }
        let Train { packet, hops, .. } = &train;
        for (now, from) in times.zip(train.indices()) {
            let is_lost = self.is_disturbed && self.faults.loses(state, now, packet, &mut self.carried);
            let drop = is_lost.then_some(Drop::LinkFault);
            self.observer.show_one_of(now, packet, from, drop);
            if let Some(drop) = drop {
                self.counters.lose(drop);
                state.pool += packet.len() as i64;
                continue;
            }
            let one = Train { packet: packet.clone(), from, count: 1, hops: *hops };
            self.wire.enter_train(&mut state.events, std::iter::once(now), one);
        }
        state.packets.recycle(train.packet);
    }

    /// Take the first packets of the train whose arrival is due, and say which one is the next.
    #[inline]
    pub fn arrive_train(&mut self, state: &mut State, count: u32) -> Option<(Train, Option<Next>)> {
        let train = self.wire.take_train(count)?;
        self.change(state);
        self.counters.leave_many(count, train.packet.len());
        state.pool += train.bytes() as i64;
        Some((train, self.wire.next()))
    }

    /// Whether the direction has credits, and packets may pass without leaving the buffer of their train: it has no
    /// observers, and one lane.
    #[inline]
    pub fn takes_cars(&self) -> bool {
        matches!(&self.room, Room::Lanes(lanes) if lanes.takes_cars())
            && self.is_up
            && self.is_here()
            && self.is_quiet()
            && !self.tallies_vls
    }

    /// Let a packet of a train enter from a switch, in which it occupies room, where `takes_cars` has said that it may.
    #[inline]
    pub fn enter_car(&mut self, state: &mut State, now: u64, car: Car, room: Credit) {
        let now = if state.share.is_alone() { now } else { self.not_before_the_last(now) };
        self.change(state);
        self.counters.enter(car.packet.len());
        state.pool -= car.packet.len() as i64;
        if let Room::Lanes(lanes) = &mut self.room {
            lanes.enter_car(&mut self.wire, state, now, car, Some(room));
        }
    }

    /// Let the packets of a train enter one by one from an HFI port; there is room for all.
    pub fn enter_cars(&mut self, state: &mut State, now: u64, train: Train) {
        let now = if state.share.is_alone() { now } else { self.not_before_the_last(now) };
        self.change(state);
        self.counters.enter_many(train.count, train.packet.len());
        state.pool -= train.bytes() as i64;
        let Room::Lanes(lanes) = &mut self.room else { return };
        for index in train.indices() {
            let car = Car { packet: train.packet.clone(), index, hops: train.hops, fecn: false };
            lanes.enter_car(&mut self.wire, state, now, car, None);
        }
    }

    /// Take the packet whose arrival is due, of a train, with the room that it occupies, and say which one is the next.
    #[inline]
    pub fn arrive_car(&mut self, state: &mut State) -> Option<(Car, Credit, Option<Next>)> {
        let Room::Lanes(lanes) = &mut self.room else { return None };
        let car = self.wire.take_car()?;
        let room = lanes.credit(&car.packet);
        self.change(state);
        self.counters.leave(car.packet.len());
        self.carried.fecn += u64::from(car.fecn);
        state.pool += car.packet.len() as i64;
        Some((car, room, self.wire.next()))
    }

    /// What is on its way.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Go on where the wire has become free.
    pub fn wire_free(&mut self, state: &mut State, now: u64) {
        self.change(state);
        if let Room::Lanes(lanes) = &mut self.room {
            lanes.wire_free(&mut self.wire, state, now);
        }
    }

    /// Take a credit that has come back.
    pub fn give_back(&mut self, state: &mut State, now: u64, credit: Credit) {
        self.change(state);
        if let Room::Lanes(lanes) = &mut self.room {
            lanes.give_back(&mut self.wire, state, now, credit);
        }
    }

    // --- changes ---------------------------------------------------------------------------------------------

    /// Take a new configuration; what is on its way stays, except where the link goes down.
    pub fn configure(&mut self, state: &mut State, now: u64, config: &LinkConfig) {
        self.change(state);
        let config = &here(self.arrives, config);
        let was_up = std::mem::replace(&mut self.is_up, config.up);
        self.wire.split_trains(&mut state.packets);
        self.wire.configure(&mut state.events, now, config);
        match &mut self.room {
            Room::Queue(queue) => queue.limit = config.queue_bytes,
            Room::Lanes(lanes) => {
                lanes.limit = config.queue_bytes;
                lanes.wire_changed(&mut self.wire, state, now);
            }
        }
        if was_up && !config.up {
            self.cut(state, now);
        }
    }

    /// Drop all packets in transit: those that wait, then those held back, then those on the wire.
    fn cut(&mut self, state: &mut State, now: u64) {
        if let Room::Lanes(lanes) = &mut self.room {
            for packet in lanes.flush(&self.wire, state, now) {
                self.lose(state, packet, Drop::LinkDown);
            }
        }
        for packet in self.faults.cut(state) {
            self.end(state, now, packet, Drop::LinkDown);
        }
        for packet in self.wire.cut(&mut state.events) {
            if let Room::Lanes(lanes) = &mut self.room {
                lanes.lose(state, &packet);
            }
            self.lose(state, packet, Drop::LinkDown);
        }
        self.is_disturbed = !self.faults.is_idle();
    }

    /// Take new faults; what the old ones hold back stays held.
    pub fn set_rules(&mut self, rules: Vec<FaultRule>) {
        self.faults.rules = if self.arrives { Vec::new() } else { rules };
        self.is_disturbed = !self.faults.is_idle();
    }

    /// Report packets from now on, or no more.
    pub fn observe(&mut self, on: bool) {
        self.observer.reports = on;
    }

    /// Copy packets into a ring from now on.
    pub fn attach(&mut self, ring: Arc<CaptureRing>, interface: u32) {
        self.observer.attach(ring, interface);
    }

    /// Copy no more into a ring.
    pub fn detach(&mut self, ring: &Arc<CaptureRing>) {
        self.observer.detach(ring);
    }

    /// Take other credits, of a link that has some; what waits and what is on its way stays, on the VL that it is on.
    pub fn set_flow(&mut self, state: &mut State, now: u64, flow: &FlowControl) {
        if self.vls.flow.as_ref().is_some_and(|before| before != flow) {
            self.vls.flow = Some(flow.clone());
            self.set_up(state, now);
        }
    }

    /// Let packets leave as a port says. Those that wait or are on the wire stay on the VL that they are on.
    pub fn set_egress(&mut self, state: &mut State, now: u64, egress: &Egress) {
        if *egress != self.vls.egress {
            self.vls.egress = egress.clone();
            self.set_up(state, now);
        }
    }

    fn set_up(&mut self, state: &mut State, now: u64) {
        self.change(state);
        self.map();
        let Vls { flow, egress, .. } = &*self.vls;
        if let (Room::Lanes(lanes), Some(flow)) = (&mut self.room, flow) {
            lanes.set_up(&mut self.wire, state, now, flow, egress);
        }
    }

    /// Note on which VL of the port each service channel is, and count VLs where there may be several.
    fn map(&mut self) {
        let Vls { flow, egress, .. } = &*self.vls;
        let mut of_link = flow.as_ref().map_or([0; SERVICE_CHANNELS], |flow| flow.sc_to_vl);
        // or an MTU that a fabric manager sets for data could shut it out
        of_link[SC_MANAGEMENT as usize] = MAX_VLS as u8 - 1;
        let alone = if egress.sc_to_vl.is_some() { MAX_VLS } else { 1 };
        let vls = flow.as_ref().map_or(alone, FlowControl::vls);
        self.vls.sc_to_vl = egress.sc_to_vl.unwrap_or(of_link);
        if let Some(tally) = &mut self.vls.tally {
            tally.grow(vls);
        } else if vls > 1 {
            self.tallies_vls = true;
            self.vls.tally = Some(VlTally::new(vls));
        }
    }

    /// Note what may be an output as it arrives, also for what is on its way.
    pub fn set_shows(&mut self, state: &mut State, shows: Shows) {
        self.wire.set_shows(&mut state.events, shows);
    }

    // --- looking ---------------------------------------------------------------------------------------------

    /// After how long at the earliest a packet that enters shows outside: at once where something reports it, else when
    /// it arrives at an HFI port; None: never here. Not looked at: that a sender is stopped, which only an input does, and
    /// that one goes on.
    pub fn shows_after(&self) -> Option<u64> {
        if self.observer.reports || self.faults.show_at_once() {
            return Some(0);
        }
        if self.arrives {
            return None; // what enters is an input
        }
        self.wire.outward_latency()
    }

    /// Whether what arrives occupies room until a host, or another engine, has released it.
    pub fn lends_to_host(&self) -> bool {
        matches!(self.room, Room::Lanes(_)) && !matches!(self.target, End::Switch(..))
    }

    /// Whether the sender is to stop for lack of credits.
    pub fn is_stopped(&self) -> bool {
        matches!(&self.room, Room::Lanes(lanes) if lanes.stopped)
    }

    /// Whether a packet is held back for later ones to overtake.
    pub fn is_holding(&self) -> bool {
        self.faults.is_holding()
    }

    /// Return the virtual lanes as they are now; None on a link without credits.
    pub fn lanes(&self) -> Option<LanesStatus> {
        match &self.room {
            Room::Queue(_) => None,
            Room::Lanes(lanes) => Some(lanes.status()),
        }
    }

    /// Return what all VLs together have that `counters` lack, and the counters of each VL as of `now`.
    pub fn vl_counters(&self, now: u64) -> (Uncounted, Vec<VlCounters>) {
        let waits = match &self.room {
            Room::Queue(_) => Vec::new(),
            Room::Lanes(lanes) => lanes.waits(&self.wire, now),
        };
        let rows = match &self.vls.tally {
            Some(tally) => tally.rows(&waits),
            None => vec![VlCounters { wait_ns: waits.iter().sum(), ..VlCounters::default() }],
        };
        let WireTally { fecn, becn, .. } = self.carried;
        (Uncounted { too_long: self.vls.too_long, fecn, becn }, rows)
    }

    /// Return what it has counted beside packets and bytes.
    pub fn wire_counters(&mut self, now: u64) -> WireCounters {
        self.carried.counters(now)
    }

    /// Where the streams of its faults and of its jitter stand; None: another worker draws from them.
    pub fn streams(&self) -> Option<(u64, u64)> {
        self.is_here().then(|| (self.faults.stream.state(), self.wire.jitter.state()))
    }
}
