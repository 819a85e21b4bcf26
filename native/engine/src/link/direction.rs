//! One direction of a link: it admits packets, counts them, and passes arrivals to the far end.

use std::sync::Arc;

use super::capture::CaptureRing;
use super::config::MAX_RATE_BPS;
use super::config::{Egress, FlowControl, LinkConfig, MAX_VLS, SERVICE_CHANNELS, ScToVl};
use super::credits::{Lanes, LanesStatus};
use super::faults::{Faults, Held};
use super::observe::Observer;
use super::queue::Queue;
use super::rule::{FaultRule, Passage};
use super::vl_counters::{Uncounted, VlCounters, VlTally};
use super::wire::{Next, Visibility, Wire};
use super::wire_counters::{WireCounters, WireTally, is_marked};
use crate::burst::Burst;
use crate::config::End;
use crate::counters::{Drop, Passing};
use crate::forwarding::SC_MANAGEMENT;
use crate::numbered::Gone;
use crate::outputs::{DirectionId, PortId};
use crate::packet::sc;
use crate::random::Stream;
use crate::share::{Handover, WorkerId};
use crate::state::{Credit, ElementId, Mark, SpaceId, State};

/// Where packets wait for the wire.
#[derive(Debug)]
enum Room {
    Queue(Queue),
    Lanes(Box<Lanes>),
}

/// Packets that have arrived.
pub struct Arrived {
    pub burst: Burst,
    /// The room that a packet occupies in the receive buffer, on a link with credits.
    pub space: Option<SpaceId>,
    /// The next arrival, which the caller schedules.
    pub next: Option<Next>,
}

#[derive(Debug)]
pub struct Direction {
    pub target: End,
    pub counters: Passing,
    pub mark: Mark,
    number: DirectionId,
    /// The worker that carries this direction, if it is another one: entering packets are handed over to it.
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
    /// Whether `vls` has a tally: always where there are several lanes.
    tallies_vls: bool,
    /// Whether packets come from the engine where it begins, in which its wire and its faults are.
    arrives: bool,
    vls: Box<Vls>,
}

/// Fields that few packets need.
#[derive(Debug)]
struct Vls {
    /// The setup of its credits; None: a direction without credits, with one queue.
    flow: Option<FlowControl>,
    /// As the port says.
    egress: Egress,
    /// The VL of each service channel.
    sc_to_vl: ScToVl,
    /// Counters of each VL; None: there has never been more than one.
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

impl Gone for Direction {
    fn gone() -> Self {
        let down = LinkConfig { up: false, ..LinkConfig::PLAIN };
        Direction::new(DirectionId::MAX, (End::Boundary, End::Boundary), &down, None, Default::default())
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
            wire: Wire::new(number, Visibility::Everything, config, streams.1),
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

    /// Admit packets, each at its time, or count why not. Several are admitted together where `takes_bursts` and
    /// `has_room_for` allow it. `space`: the room that a packet occupies in the switch where it arrived.
    #[inline]
    pub fn enter(&mut self, state: &mut State, times: &mut [u64], burst: Burst, space: Option<SpaceId>) {
        if let Some(worker) = self.elsewhere {
            return self.hand_over(worker, state, times, burst);
        }
        if !state.share.is_alone() {
            self.not_before_the_last(times);
        }
        self.change(state);
        self.counters.enter_many(burst.count(), burst.packet.len());
        state.pool -= burst.bytes() as i64;
        let drop = if self.is_up {
            self.refusal(state, times[0], burst.packet.len() as u64, space)
        } else {
            Some(Drop::LinkDown)
        };
        if let Some(drop) = drop {
            self.end(state, times[0], burst, drop);
        } else if self.is_quiet() {
            self.send(state, times, burst, space, 0);
        } else if self.faults.take_bursts() {
            self.show_or_lose(state, times, burst, space);
        } else {
            self.disturb(state, times[0], burst, space);
        }
    }

    /// Take packets that have passed the wire in the engine where this direction begins; return them if they are to be
    /// received at once. Several may only come where `takes_what_crosses` allows it.
    pub fn cross(&mut self, state: &mut State, now: u64, burst: Burst) -> Option<Burst> {
        if self.elsewhere.is_some() || !self.is_up || self.has_credits() {
            self.enter(state, &mut [now], burst, None);
            return None;
        }
        self.change(state);
        self.counters.enter_many(burst.count(), burst.packet.len());
        self.observer.show(&mut state.outputs, std::iter::repeat(now), &burst, None);
        self.count_arrival(&burst);
        Some(burst)
    }

    /// Move times that have passed here up to that of the last packet: another worker may hand packets over late, and a
    /// queue knows only its current length.
    #[inline(never)]
    fn not_before_the_last(&mut self, times: &mut [u64]) {
        for time in times {
            self.latest = self.latest.max(*time);
            *time = self.latest;
        }
    }

    /// Hand packets to the worker that carries this direction.
    #[inline(never)]
    fn hand_over(&mut self, worker: WorkerId, state: &mut State, times: &[u64], mut burst: Burst) {
        // room that a packet occupies is released after this event: no direction with credits is elsewhere
        burst.packet.vouch();
        let (time, later) = (times[0], times[1..].into());
        let handover = Handover { direction: self.number, burst, time, later };
        if let Err(refused) = state.share.outboxes[worker as usize].push(handover) {
            self.overflow(state, refused);
        }
    }

    /// Count packets that could not be handed to the worker that carries this direction.
    pub fn overflow(&mut self, state: &mut State, handover: Handover) {
        self.change(state);
        let Handover { burst, time, later, .. } = handover;
        self.counters.enter_many(burst.count(), burst.packet.len());
        state.pool -= burst.bytes() as i64;
        let times = std::iter::once(time).chain(later);
        for (burst, time) in burst.one_by_one().zip(times) {
            let burst = burst.alone(&mut state.packets);
            self.end(state, time, burst, Drop::LinkOverflow);
        }
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

    /// Pass on packets that faults may lose, but do nothing else to; those between two that are lost stay together.
    #[inline(never)]
    fn show_or_lose(
        &mut self,
        state: &mut State,
        mut times: &[u64],
        mut burst: Burst,
        space: Option<SpaceId>,
    ) {
        while self.is_disturbed {
            let Direction { faults, carried, .. } = self;
            let mut each = times.iter();
            let is_lost = |now: &u64| faults.loses(state, *now, &burst.packet, carried);
            let Some(passing) = each.position(is_lost) else { break };
            let passes = burst.take_first(passing as u32);
            self.pass(state, &times[..passing], passes, space, 0);
            let now = times[passing];
            times = &times[passing + 1..];
            if times.is_empty() {
                return self.end(state, now, burst, Drop::LinkFault);
            }
            let lost = burst.take_first(1);
            self.end(state, now, lost, Drop::LinkFault);
        }
        self.pass(state, times, burst, space, 0);
    }

    /// Apply the faults to a packet, and pass on the results.
    #[inline(never)]
    fn disturb(&mut self, state: &mut State, now: u64, burst: Burst, space: Option<SpaceId>) {
        let mut passages = match self.faults.judge(state, now, &burst.packet, &mut self.carried) {
            Ok(passages) => passages,
            Err(drop) => return self.end(state, now, burst, drop),
        };
        for (copy, Passage { packet, delay_ns, behind, hold_ns }) in passages.drain(..).enumerate() {
            if copy > 0 {
                self.counters.element.copies += 1;
                self.counters.in_flight += 1;
                state.pool -= packet.len() as i64;
            }
            let passing = Burst::of(packet, burst.hops());
            if behind != 0 {
                self.faults.hold(state, now, passing, delay_ns, (behind, hold_ns));
            } else if self.go_on(state, now, passing, space, delay_ns) {
                self.overtaken(state, now);
            }
        }
        self.faults.recycle(passages);
        state.packets.recycle(burst.packet);
    }

    /// Pass a packet on if there is room for it: a copy, or a packet that was held back, may find none.
    fn go_on(
        &mut self,
        state: &mut State,
        now: u64,
        burst: Burst,
        space: Option<SpaceId>,
        delay_ns: u64,
    ) -> bool {
        if let Some(drop) = self.refusal(state, now, burst.packet.len() as u64, space) {
            self.end(state, now, burst, drop);
            return false;
        }
        self.pass(state, &[now], burst, space, delay_ns);
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
        self.go_on(state, now, held.burst, None, held.delay_ns);
        self.is_disturbed = !self.faults.is_idle();
    }

    /// Show packets that have passed the faults, and send them, each at its time.
    #[inline]
    fn pass(
        &mut self,
        state: &mut State,
        times: &[u64],
        burst: Burst,
        space: Option<SpaceId>,
        delay_ns: u64,
    ) {
        self.observer.show(&mut state.outputs, times.iter().copied(), &burst, None);
        self.send(state, times, burst, space, delay_ns);
    }

    /// Send packets that have passed faults and observers, each at its time.
    #[inline(always)] // of two callers one is cold
    fn send(
        &mut self,
        state: &mut State,
        times: &[u64],
        burst: Burst,
        space: Option<SpaceId>,
        delay_ns: u64,
    ) {
        match &mut self.room {
            Room::Queue(_) => self.wire.enter(&mut state.events, times, burst, delay_ns),
            Room::Lanes(lanes) => {
                for (burst, now) in burst.one_by_one().zip(times) {
                    lanes.enter(&mut self.wire, state, *now, burst, space, delay_ns);
                }
            }
        }
    }

    /// End packets before they are on their way.
    #[inline(never)]
    fn end(&mut self, state: &mut State, now: u64, burst: Burst, drop: Drop) {
        self.observer.show(&mut state.outputs, std::iter::repeat(now), &burst, Some(drop));
        self.lose(state, burst, drop);
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

    fn lose(&mut self, state: &mut State, burst: Burst, drop: Drop) {
        self.counters.lose(burst.count(), drop);
        state.pool += burst.bytes() as i64;
        if matches!(drop, Drop::LinkOverflow | Drop::LinkDown | Drop::LinkHoq) {
            self.tally_discard(&burst.packet, Some(drop));
        }
        state.packets.recycle(burst.packet);
    }

    /// Take packets that arrive: so many of the first burst, or the first one alone (None).
    #[inline(always)] // into the loop over arrivals
    pub fn arrive(&mut self, state: &mut State, together: Option<u32>) -> Option<Arrived> {
        let mut burst = self.wire.take(together.unwrap_or(1))?;
        if together.is_none() {
            burst = burst.alone(&mut state.packets);
        }
        self.change(state);
        state.pool += burst.bytes() as i64;
        self.count_arrival(&burst);
        let space = match &mut self.room {
            Room::Queue(_) => None,
            Room::Lanes(lanes) => Some(lanes.arrived(state, burst.packet.len())),
        };
        Some(Arrived { burst, space, next: self.wire.next() })
    }

    #[inline]
    fn count_arrival(&mut self, burst: &Burst) {
        self.counters.leave_many(burst.count(), burst.packet.len());
        self.carried.carried(burst);
        if self.tallies_vls {
            self.tally_arrival(&burst.packet);
        }
    }

    // --- bursts ----------------------------------------------------------------------------------------------

    /// Whether packets may enter and arrive without leaving the buffer of their burst, because nothing here handles single
    /// ones in a way that needs their own. On a link with credits they still enter and arrive one at a time.
    ///
    /// For a direction of another worker, as far as is known here.
    #[inline]
    pub fn takes_bursts(&self) -> bool {
        !self.tallies_vls
            && match &self.room {
                Room::Queue(_) => {
                    (!self.is_disturbed || self.faults.take_bursts()) && self.observer.takes_bursts()
                }
                Room::Lanes(_) => self.is_quiet(),
            }
    }

    /// Whether it has credits.
    #[inline]
    pub fn has_credits(&self) -> bool {
        matches!(self.room, Room::Lanes(_))
    }

    /// Whether the direction has neither observers nor faults.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        !self.is_disturbed && self.observer.is_idle()
    }

    /// Whether packets that come from another engine may enter together: they are received at once, or lost.
    pub fn takes_what_crosses(&self) -> bool {
        self.is_here() && !self.has_credits() && self.takes_bursts()
    }

    /// Whether it surely has room for so many bytes of a burst from now on, or there is room on their way to the worker
    /// that carries it.
    pub fn has_room_for(&self, state: &State, now: u64, bytes: u64) -> bool {
        if let Some(worker) = self.elsewhere {
            return state.share.outboxes[worker as usize].has_room_for(bytes);
        }
        match &self.room {
            Room::Queue(queue) => queue.has_room_for(&self.wire, now, bytes),
            Room::Lanes(lanes) => lanes.has_room_for(bytes),
        }
    }

    /// The wire, with the packets on it.
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

    /// Drop the packets that have been the first of their VL for too long.
    pub fn heads_expire(&mut self, state: &mut State, now: u64) {
        self.change(state);
        if let Room::Lanes(lanes) = &mut self.room {
            for burst in lanes.heads_expire(&mut self.wire, state, now) {
                self.lose(state, burst, Drop::LinkHoq);
            }
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

    /// Take a new configuration. Packets in transit stay, unless the link goes down.
    pub fn configure(&mut self, state: &mut State, now: u64, config: &LinkConfig) {
        self.change(state);
        let config = &here(self.arrives, config);
        self.is_up = config.up;
        self.wire.configure(&mut state.events, now, config);
        match &mut self.room {
            Room::Queue(queue) => queue.limit = config.queue_bytes,
            Room::Lanes(lanes) => {
                lanes.limit = config.queue_bytes;
                lanes.wire_changed(&mut self.wire, state, now);
            }
        }
        if !self.is_up {
            self.cut(state, now);
        }
    }

    /// Drop all packets in transit: those that wait, then those held back, then those on the wire.
    fn cut(&mut self, state: &mut State, now: u64) {
        if let Room::Lanes(lanes) = &mut self.room {
            for burst in lanes.flush(&self.wire, state, now) {
                self.lose(state, burst, Drop::LinkDown);
            }
        }
        for burst in self.faults.cut(state) {
            self.end(state, now, burst, Drop::LinkDown);
        }
        for burst in self.wire.cut(&mut state.events) {
            if let Room::Lanes(lanes) = &mut self.room {
                burst.indices().for_each(|_| lanes.lose(state, burst.packet.len()));
            }
            self.lose(state, burst, Drop::LinkDown);
        }
        self.is_disturbed = !self.faults.is_idle();
    }

    /// Replace the faults. Packets that the old ones hold back stay held.
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

    /// Change the credits of a link that has credits. Packets that wait or are in transit stay on their VL.
    pub fn set_flow(&mut self, state: &mut State, now: u64, flow: &FlowControl) {
        if self.vls.flow.as_ref().is_some_and(|before| before != flow) {
            self.vls.flow = Some(flow.clone());
            self.set_up(state, now);
        }
    }

    /// Take the egress settings of the port. Packets that wait or are on the wire stay on their VL.
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

    /// Set which arrivals may be outputs, also for packets in transit.
    pub fn set_visibility(&mut self, state: &mut State, visibility: Visibility) {
        self.wire.set_visibility(&mut state.events, visibility);
    }

    // --- looking ---------------------------------------------------------------------------------------------

    /// After how long at the earliest a packet that enters is visible outside: at once where something reports it, else when
    /// it arrives at an HFI port; None: never here. Not looked at: that a sender is stopped, which only an input does, and
    /// that one goes on.
    pub fn visible_from(&self) -> Option<u64> {
        if self.observer.reports || self.faults.show_at_once() {
            return Some(0);
        }
        if self.arrives {
            return None; // what enters is an input
        }
        self.wire.outward_latency()
    }

    /// Whether an arriving packet occupies room until a host, or another engine, has released it.
    pub fn lends_to_host(&self) -> bool {
        self.has_credits() && !matches!(self.target, End::Switch(..))
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
    pub fn lanes(&self, state: &State) -> Option<LanesStatus> {
        match &self.room {
            Room::Queue(_) => None,
            Room::Lanes(lanes) => Some(lanes.status(state)),
        }
    }

    /// Bytes that wait for credits on the VL of a service channel; 0 on a link without credits.
    pub fn waiting_on(&self, sc: u32) -> u64 {
        match &self.room {
            Room::Queue(_) => 0,
            Room::Lanes(lanes) => lanes.waiting_on(sc),
        }
    }

    /// Return the counters of all VLs together that `counters` lack, and those of each VL as of `now`.
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

    /// Return the counters other than packets and bytes.
    pub fn wire_counters(&mut self, now: u64) -> WireCounters {
        self.carried.counters(now)
    }

    /// Where the streams of its faults and of its jitter stand; None: another worker draws from them.
    pub fn streams(&self) -> Option<(u64, u64)> {
        self.is_here().then(|| (self.faults.stream.state(), self.wire.jitter.state()))
    }
}
