//! The wire of one direction: packets leave one after the other at a rate, and arrive in order one latency later.

use wire::{HEADER, L4_FM, l4};

use super::config::{LinkConfig, MAX_RATE_BPS};
use crate::burst::{Burst, BurstQueue, Queued};
use crate::events::{Event, Events, Place};
use crate::outputs::DirectionId;
use crate::random::{CHANCE_BITS, Stream};

/// Later than any scheduled event.
pub const FOREVER: u64 = i64::MAX as u64;
/// Bits of a byte times nanoseconds of a second: divided by the rate in bit/s, the nanoseconds that a byte takes.
const BIT_NS: u64 = 8_000_000_000;

/// The time that a packet of `len` bytes takes, in nanoseconds times the rate. The pool takes no packet of 256 MiB, and rates
/// are at most 2^62, so this stays within 64 bits, the remainder of the last packet included.
#[inline]
fn work(len: usize) -> u64 {
    len as u64 * BIT_NS
}

/// Which arrivals at the far end may be outputs of the engine at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Nothing,
    /// It ends at a switch whose port 0 is not DOWN. Other packets for port 0 have no receiver there.
    Mads,
    /// It ends at an HFI port.
    Everything,
}

impl Visibility {
    /// Where the arrival of a packet happens.
    #[inline]
    fn place(self, packet: &[u8]) -> Place {
        match self {
            Visibility::Everything => Place::Port,
            Visibility::Mads if packet.len() >= HEADER && l4(packet) == L4_FM => Place::Switch,
            _ => Place::Inside,
        }
    }
}

/// The first packet on a wire, while its arrival is not in the queue of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub arrival: u64,
    pub number: u64,
    pub place: Place,
}

/// Serialization, latency and jitter. The wire has no limit of its own: its queue or lanes have one.
#[derive(Debug)]
pub struct Wire {
    direction: DirectionId,
    visibility: Visibility,
    rate_bps: u64,
    latency_ns: u64,
    jitter_ns: u64,
    free_at: u64,
    /// The time that the last packet takes beyond `free_at`, in nanoseconds times the rate.
    remainder: u64,
    last_arrival: u64,
    /// The last packet's length and the time it takes: whole nanoseconds, and the rest times the rate.
    measured: (usize, u64, u64),
    /// The packets on the wire, with the arrival of each and its latency, jitter and delays of faults included.
    on_wire: BurstQueue<u64>,
    pub jitter: Stream,
}

impl Wire {
    pub fn new(direction: DirectionId, visibility: Visibility, config: &LinkConfig, jitter: Stream) -> Self {
        Wire {
            direction,
            visibility,
            rate_bps: config.rate_bps.clamp(1, MAX_RATE_BPS),
            latency_ns: config.latency_ns,
            jitter_ns: config.jitter_ns,
            free_at: 0,
            remainder: 0,
            last_arrival: 0,
            measured: (0, 0, 0),
            on_wire: BurstQueue::default(),
            jitter,
        }
    }

    /// Take a new rate, latency and jitter.
    ///
    /// Bits that have left the near end arrive as scheduled; the rest, including that of the packet being sent,
    /// continues at the new rate. Otherwise a link that was slow for a second would stay slow until its old queue had
    /// drained.
    pub fn configure(&mut self, events: &mut Events, now: u64, config: &LinkConfig) {
        self.latency_ns = config.latency_ns;
        self.jitter_ns = config.jitter_ns;
        let rate_bps = config.rate_bps.clamp(1, MAX_RATE_BPS);
        if rate_bps != self.rate_bps {
            self.change_rate(events, now, rate_bps);
        }
    }

    fn change_rate(&mut self, events: &mut Events, now: u64, rate_bps: u64) {
        let busy = i128::from(self.free_at) - i128::from(now);
        let mut left = busy * i128::from(self.rate_bps) + i128::from(self.remainder);
        self.rate_bps = rate_bps;
        self.measured = (0, 0, 0);
        if left <= 0 {
            return;
        }
        let mut gone = self.on_wire.take_one_by_one();
        let first = gone.front().map(|first| first.number);
        // the last packet of which something has left
        let sent = gone.iter().rposition(|queued| {
            left -= i128::from(work(queued.burst.packet.len()));
            left <= 0
        });
        let leaving = gone.split_off(sent.unwrap_or(0));
        if let Some(first) = first.filter(|_| gone.is_empty()) {
            events.cancel(first);
        }
        self.last_arrival = gone.back().map_or(now, |last| last.time);
        self.on_wire.put_back(gone);
        // more is left only of packets that were handed on before their time, because a timer is coarse
        let more = left.max(0);
        let taken = u64::try_from(more / i128::from(rate_bps)).unwrap_or(u64::MAX);
        self.free_at = now.saturating_add(taken);
        self.remainder = (more % i128::from(rate_bps)) as u64;
        let mut done = (-left).max(0) as u64;
        for Queued { fact: after_ns, burst, .. } in leaving {
            let work = work(burst.packet.len()) - std::mem::take(&mut done);
            self.put(events, now, burst, after_ns, (work / rate_bps, work % rate_bps));
        }
    }

    /// Set which arrivals may be outputs, also for packets on the wire.
    pub fn set_visibility(&mut self, events: &mut Events, visibility: Visibility) {
        self.visibility = visibility;
        if let Some(first) = self.on_wire.first().filter(|_| visibility != Visibility::Nothing) {
            events.make_outward(first.number);
        }
    }

    /// After how long at the earliest a packet that enters is an output; None: not by its arrival.
    pub fn outward_latency(&self) -> Option<u64> {
        (self.visibility != Visibility::Nothing).then_some(self.latency_ns)
    }

    /// The first whole nanosecond at which everything sent so far has left the near end.
    #[inline]
    pub fn free_from(&self) -> u64 {
        self.free_at.saturating_add(u64::from(self.remainder > 0))
    }

    /// Return the bytes that have not left the near end, rounded up.
    #[inline]
    pub fn backlog(&self, now: u64) -> u64 {
        let busy = self.free_at.saturating_sub(now);
        if busy == 0 {
            return 0;
        }
        match busy.checked_mul(self.rate_bps).and_then(|work| work.checked_add(self.remainder)) {
            Some(work) => work.div_ceil(BIT_NS),
            None => {
                let work = u128::from(busy) * u128::from(self.rate_bps) + u128::from(self.remainder);
                u64::try_from(work.div_ceil(u128::from(BIT_NS))).unwrap_or(u64::MAX)
            }
        }
    }

    /// Send a burst behind the packets on the wire, each packet at its time. `delay_ns` comes on top; later packets do not
    /// overtake it.
    #[inline]
    pub fn enter(&mut self, events: &mut Events, times: &[u64], burst: Burst, delay_ns: u64) {
        let [now, later @ ..] = times else { return };
        let len = burst.packet.len();
        let after_ns = self.after_ns(delay_ns);
        let work = self.taken(len);
        self.put(events, *now, burst, after_ns, work);
        if !later.is_empty() {
            self.enter_later(later, len, delay_ns);
        }
    }

    /// Send the further packets of the burst that was sent last.
    fn enter_later(&mut self, times: &[u64], len: usize, delay_ns: u64) {
        let work = self.taken(len);
        // taken out meanwhile, so that the list grows once and the state of the wire stays in registers
        let mut on_wire = std::mem::take(&mut self.on_wire);
        on_wire.extend(times.iter().map(|now| {
            let after_ns = self.after_ns(delay_ns);
            (self.occupy(*now, work, after_ns), after_ns)
        }));
        self.on_wire = on_wire;
    }

    /// Draw how long the next packet takes after its last bit.
    #[inline]
    fn after_ns(&mut self, delay_ns: u64) -> u64 {
        let after_ns = self.latency_ns.saturating_add(delay_ns);
        if self.jitter_ns == 0 {
            return after_ns;
        }
        let share = u128::from(self.jitter.word() >> (64 - CHANCE_BITS));
        let extra = (share * u128::from(self.jitter_ns)) >> CHANCE_BITS;
        after_ns.saturating_add(extra as u64)
    }

    /// Return the time of a packet of `len` bytes: whole nanoseconds, and the rest times the rate.
    #[inline]
    fn taken(&mut self, len: usize) -> (u64, u64) {
        let (last, mut whole, mut rest) = self.measured;
        // most have the length of the one before, and a division takes longer than all else here
        if len != last {
            (whole, rest) = (work(len) / self.rate_bps, work(len) % self.rate_bps);
            self.measured = (len, whole, rest);
        }
        (whole, rest)
    }

    /// Put a burst behind the packets on the wire; its first packet takes that much, as `taken` says, and arrives `after_ns`
    /// after its last bit.
    #[inline(always)] // of two callers one is cold
    fn put(&mut self, events: &mut Events, now: u64, burst: Burst, after_ns: u64, work: (u64, u64)) {
        let time = self.occupy(now, work, after_ns);
        let number = events.numbers(u64::from(burst.count()));
        if self.on_wire.is_empty() {
            events.push(time, number, Event::Arrival(self.direction), self.visibility.place(&burst.packet));
        }
        self.on_wire.join(Queued { time, number, fact: after_ns, burst });
    }

    /// Occupy the wire for whole nanoseconds and the rest times the rate; return the time of arrival.
    #[inline]
    fn occupy(&mut self, now: u64, (mut taken, rest): (u64, u64), after_ns: u64) -> u64 {
        if self.free_at < now {
            self.free_at = now;
            self.remainder = rest;
        } else {
            self.remainder += rest;
            if self.remainder >= self.rate_bps {
                self.remainder -= self.rate_bps;
                taken += 1;
            }
        }
        self.free_at = self.free_at.saturating_add(taken);
        self.last_arrival = self.free_from().saturating_add(after_ns).min(FOREVER).max(self.last_arrival);
        self.last_arrival
    }

    /// The shortest time that a packet takes after its last bit.
    pub fn latency_ns(&self) -> u64 {
        self.latency_ns
    }

    /// The packets on the wire.
    #[inline]
    pub fn queue(&self) -> &BurstQueue<u64> {
        &self.on_wire
    }

    /// Take the first packets of the first burst, whose arrival is due.
    #[inline]
    pub fn take(&mut self, count: u32) -> Option<Burst> {
        self.on_wire.take(count)
    }

    /// The next arrival, which is no event yet.
    #[inline]
    pub fn next(&self) -> Option<Next> {
        self.on_wire.first().map(|next| Next {
            arrival: next.time,
            number: next.number,
            place: self.visibility.place(&next.burst.packet),
        })
    }

    /// Forget everything on the wire, and return it in order.
    pub fn cut(&mut self, events: &mut Events) -> impl Iterator<Item = Burst> + use<> {
        if let Some(first) = self.on_wire.first() {
            events.cancel(first.number);
        }
        self.free_at = 0;
        self.last_arrival = 0;
        self.remainder = 0;
        self.on_wire.take_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(rate_bps: u64, latency_ns: u64) -> LinkConfig {
        LinkConfig { rate_bps, latency_ns, ..LinkConfig::PLAIN }
    }

    fn wire(rate_bps: u64, latency_ns: u64) -> (Wire, Events) {
        (Wire::new(0, Visibility::Nothing, &config(rate_bps, latency_ns), Stream::new(1)), Events::default())
    }

    /// A packet that has visited so many switches.
    fn packet(len: usize, hops: u32) -> Burst {
        Burst::of(vec![0; len][..].into(), hops)
    }

    /// Take the first packet as an engine does, and return its hops.
    fn take_due(wire: &mut Wire, events: &mut Events) -> Option<u32> {
        let burst = wire.take(1)?;
        if let Some(Next { arrival, number, place }) = wire.next() {
            events.push(arrival, number, Event::Arrival(0), place);
        }
        Some(burst.hops())
    }

    fn pop(events: &mut Events) -> Option<(u64, u64)> {
        events.pop_due(u64::MAX, false).map(|due| (due.when, due.number))
    }

    fn arrivals(wire: &Wire) -> Vec<u64> {
        wire.on_wire.iter().map(|queued| queued.time).collect()
    }

    #[test]
    fn fast_wire_keeps_its_rate_in_the_long_run_and_is_never_early() {
        let (mut wire, mut events) = wire(1_000_000_000_000, 7); // 64 bytes take 0.512 ns
        for _ in 0..1000 {
            wire.enter(&mut events, &[5], packet(64, 0), 0);
        }
        let arrivals = arrivals(&wire);
        for (sent, arrival) in arrivals.iter().enumerate() {
            assert_eq!(*arrival, 5 + 7 + (512 * (sent as u64 + 1)).div_ceil(1000));
        }
        assert_eq!(wire.free_from(), 5 + 512);
        assert_eq!(wire.backlog(5), 64_000);
    }

    #[test]
    fn slowest_wire_holds_a_queue_of_16_mib() {
        let (mut wire, mut events) = wire(1, 3_600_000_000_000);
        for _ in 0..1024 {
            wire.enter(&mut events, &[0], packet(16_384, 0), 0);
        }
        assert_eq!(wire.backlog(0), 16 << 20);
        assert_eq!(wire.free_from(), (16 << 20) * 8 * 1_000_000_000);
        assert_eq!(*arrivals(&wire).last().unwrap(), (16 << 20) * 8 * 1_000_000_000 + 3_600_000_000_000);
    }

    #[test]
    fn clock_that_goes_back_overflows_no_backlog_and_no_change_of_rate() {
        let (mut wire, mut events) = wire(1_000_000_000_000_000, 0);
        wire.enter(&mut events, &[FOREVER], packet(16_384, 0), 0);
        assert_eq!(wire.backlog(0), u64::MAX);
        wire.configure(&mut events, 0, &config(1, 0));
        assert_eq!((wire.free_from(), wire.backlog(0)), (u64::MAX, u64::MAX / BIT_NS + 1));
        wire.configure(&mut events, 0, &config(u64::MAX, 0));
        wire.enter(&mut events, &[0], packet(256 << 20, 0), 0);
        assert_eq!(arrivals(&wire).len(), 2);
    }

    #[test]
    fn what_has_not_left_goes_on_at_the_new_rate() {
        let (mut wire, mut events) = wire(8_000_000_000, 10); // a byte per nanosecond
        for _ in 0..3 {
            wire.enter(&mut events, &[0], packet(100, 0), 5);
        }
        wire.configure(&mut events, 150, &config(4_000_000_000, 1000));
        assert_eq!(arrivals(&wire), [115, 150 + 100 + 15, 150 + 300 + 15]);
        assert_eq!((wire.backlog(150), wire.free_from()), (150, 450));
        assert_eq!(pop(&mut events), Some((115, 1)));
        assert!(take_due(&mut wire, &mut events).is_some());
        wire.configure(&mut events, 200, &config(16_000_000_000, 0));
        assert_eq!(arrivals(&wire), [200 + 13 + 15, 200 + 63 + 15]);
        assert_eq!(pop(&mut events), Some((228, 6)));
        assert_eq!(pop(&mut events), None, "the event of the old rate is cancelled");
    }

    #[test]
    fn parts_of_a_nanosecond_and_of_a_packet_count_at_the_new_rate() {
        // 100 bytes take 266 ns and two thirds, of which 166 ns and two thirds are left: 500e9 bits and ns
        let (mut wire, mut events) = wire(3_000_000_000, 0);
        wire.enter(&mut events, &[0], packet(100, 0), 0);
        wire.configure(&mut events, 100, &config(500_000_000, 0));
        assert_eq!((arrivals(&wire), wire.backlog(100)), (vec![1100], 63));

        // packets that were handed on before their time occupy the wire as long
        let (mut wire, mut events) = super::tests::wire(8_000_000_000, 0);
        for _ in 0..2 {
            wire.enter(&mut events, &[0], packet(100, 0), 0);
        }
        assert!(wire.take(1).is_some());
        wire.configure(&mut events, 39, &config(3_000_000_000, 0));
        // 61 bytes and 100 bytes
        assert_eq!((arrivals(&wire), wire.backlog(39)), (vec![39 + 430], 161));
        assert!(wire.take(1).is_some());
        wire.configure(&mut events, 39, &config(8_000_000_000, 0));
        assert_eq!((wire.free_from(), wire.backlog(39)), (200, 161));
        wire.configure(&mut events, 39, &config(3_000_000_000, 0));
        wire.enter(&mut events, &[39], packet(1, 0), 0);
        assert_eq!(arrivals(&wire), [39 + 432], "162 bytes in all");
    }

    #[test]
    fn backlog_beyond_64_bits_is_exact() {
        let (mut wire, mut events) = wire(100_000_000_000, 0);
        wire.enter(&mut events, &[1 << 40], packet(101, 0), 0);
        assert_eq!(wire.backlog(0), (25 << 39) + 101, "the clock was set back");
    }

    #[test]
    fn wire_of_an_hour_that_flaps_fills_no_memory() {
        let (mut wire, mut events) = wire(1, 3_600_000_000_000);
        wire.enter(&mut events, &[0], packet(100, 0), 0);
        for count in 0..10_000 {
            wire.configure(&mut events, count, &config(1 + count % 2, 0));
        }
        assert!(events.memory() <= 4);
        for _ in 0..10_000 {
            wire.enter(&mut events, &[10_000], packet(100, 0), 0);
            assert!(wire.cut(&mut events).count() > 0);
        }
        assert!(events.memory() <= 4);
        assert_eq!(pop(&mut events), None);
    }

    #[test]
    fn delays_beyond_all_time_arrive_at_its_end_in_order() {
        let (mut wire, mut events) = wire(1000, FOREVER);
        wire.enter(&mut events, &[FOREVER], packet(1000, 0), u64::MAX);
        wire.enter(&mut events, &[FOREVER], packet(1000, 0), 0);
        assert_eq!(arrivals(&wire), [FOREVER, FOREVER]);
    }

    #[test]
    fn jitter_comes_on_top_of_the_latency_and_keeps_the_order() {
        let (mut wire, mut events) = wire(MAX_RATE_BPS, 1000);
        wire.enter(&mut events, &[0], packet(100, 0), 0);
        assert_eq!((arrivals(&wire), wire.jitter.state()), (vec![1001], Stream::new(1).state()));
        wire.configure(&mut events, 0, &LinkConfig { jitter_ns: 500, ..config(MAX_RATE_BPS, 1000) });
        for number in 1..100 {
            wire.enter(&mut events, &[number * 1000], packet(100, 0), 0);
        }
        let late: Vec<u64> =
            arrivals(&wire)[1..].iter().zip(1..).map(|(time, number)| time - number * 1000 - 1001).collect();
        assert!(late.iter().all(|late| *late < 500), "{late:?}");
        assert!(late.iter().min() < Some(&50) && late.iter().max() > Some(&450), "{late:?}");
    }

    #[test]
    fn what_was_delayed_is_not_overtaken() {
        let (mut wire, mut events) = wire(8_000_000_000, 0); // a byte per nanosecond
        wire.enter(&mut events, &[0], packet(100, 0), 1000);
        wire.enter(&mut events, &[0], packet(100, 0), 0);
        wire.enter(&mut events, &[2000], packet(100, 0), 0);
        assert_eq!(arrivals(&wire), [1100, 1100, 2100]);
    }

    #[test]
    fn one_event_per_wire_and_none_for_what_was_cut() {
        let (mut wire, mut events) = wire(8_000_000_000, 10);
        for _ in 0..3 {
            wire.enter(&mut events, &[0], packet(100, 4), 0);
        }
        assert_eq!(pop(&mut events), Some((110, 1)));
        assert_eq!(events.next_inner(), None);
        assert_eq!(take_due(&mut wire, &mut events), Some(4));
        assert_eq!(events.next_inner(), Some(210));
        assert_eq!(wire.cut(&mut events).count(), 2);
        wire.enter(&mut events, &[20], packet(50, 0), 0);
        assert_eq!(pop(&mut events), Some((80, 4)));
        assert!(take_due(&mut wire, &mut events).is_some());
        assert_eq!(pop(&mut events), None);
    }
}
