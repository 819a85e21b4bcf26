//! Punctual wake-ups: the thread sleeps until shortly before its deadline and busy-waits for the rest.
//!
//! Timers wake a thread late: by a microsecond or two on most machines, by tens on a virtual one. The delay is
//! estimated from the last wake-ups, and timers are set that much earlier. No event is handled early. Busy-waiting is
//! limited to an eighth of a processor, and stops while other programs need the processor. A thread without a deadline
//! sleeps.

use std::io::Result;
use std::sync::Arc;

use engine::share::WorkerId;

use crate::Poller;
use crate::clock::{Timer, now};
use crate::neighbours::Neighbours;
use crate::preemption_backoff::{preemptions, sleep_exactly};
use crate::shared::NEVER;

/// The token of the timer among those of the poller.
pub const TIME: u64 = u64::MAX - 1;
/// Bounds on the time that is busy-waited for instead of setting a timer: see `Timer::cost`.
const SPIN_NS: (u64, u64) = (3_000, 30_000);

/// The number of wake-ups that are remembered.
const KNOWN: usize = 16;
/// A timer is set earlier by a delay that this many of them did not exceed.
const ENOUGH: usize = 12;
/// But not by more than this: a longer delay has other causes.
const MARGIN_NS: u64 = 60_000;
/// The divisor of the time that may be spent busy-waiting.
const SHARE: u64 = 8;
/// The most busy-waiting time that can accumulate.
const SAVED_NS: u64 = 500_000;
/// How long timers are set for the exact time after the thread was preempted.
const YIELD_NS: u64 = 10_000_000;

/// Estimates how much earlier a timer must be set.
#[derive(Debug, Default)]
pub struct Punctuality {
    late: [u64; KNOWN],
    next: usize,
    /// The usual delay of a timer.
    margin: u64,
    /// The time that may be spent busy-waiting, and when it was last updated.
    saved: u64,
    reckoned: u64,
    preemptions: i64,
    yields_until: u64,
}

impl Punctuality {
    /// Note how late a timer was.
    pub fn was_late(&mut self, late: u64) {
        self.late[self.next] = late;
        self.next = (self.next + 1) % KNOWN;
        let mut sorted = self.late;
        sorted.sort_unstable();
        self.margin = sorted[ENOUGH].min(MARGIN_NS);
    }

    /// Note time spent busy-waiting.
    pub fn was_awake(&mut self, time: u64) {
        self.saved = self.saved.saturating_sub(time);
    }

    /// Return how much earlier a timer is to be set now. `preemptions`: the number of preemptions of the thread so far.
    pub fn margin(&mut self, now: u64, preemptions: i64) -> u64 {
        let earned = now.saturating_sub(self.reckoned) / SHARE;
        self.saved = self.saved.saturating_add(earned).min(SAVED_NS);
        self.reckoned = now;
        if preemptions != self.preemptions {
            self.preemptions = preemptions;
            self.yields_until = now + YIELD_NS;
        }
        if now < self.yields_until || self.saved < self.margin { 0 } else { self.margin }
    }
}

/// The alarm of a worker's thread. See the module.
pub struct Alarm {
    poller: Arc<Poller>,
    timer: Timer,
    /// Times up to this long are busy-waited for.
    spin: u64,
    /// See the module; None: timers are set for the exact time.
    punctuality: Option<Punctuality>,
}

impl Alarm {
    /// Make an alarm that also waits for the descriptors of a poller. Without `is_punctual`, timers are set for the
    /// exact time, which only measurements need.
    pub fn new(poller: &Arc<Poller>, is_punctual: bool) -> Result<Self> {
        let timer = Timer::new()?;
        poller.add_edges(timer.fd(), TIME)?;
        let punctuality = is_punctual.then(Punctuality::default);
        Ok(Alarm { poller: Arc::clone(poller), timer, spin: SPIN_NS.0, punctuality })
    }

    /// Measure the cost of a timer on this machine; to be called by the thread that will wait.
    pub fn settle(&mut self) -> Result<()> {
        sleep_exactly();
        self.spin = self.timer.cost()?.clamp(SPIN_NS.0, SPIN_NS.1);
        Ok(())
    }

    /// Times up to this long, in nanoseconds, are busy-waited for.
    pub fn spin(&self) -> u64 {
        self.spin
    }

    /// Wait for descriptors and for packets of other workers, at most until `until`; return the number of ready
    /// descriptors, including the timer. It may return early; the caller then waits again.
    pub fn wait(
        &mut self,
        (neighbours, number): (&Neighbours, WorkerId),
        until: u64,
        events: &mut [libc::epoll_event],
    ) -> Result<usize> {
        let mut set = None;
        if until != NEVER {
            let begun = now();
            // asking for it is a system call
            let mut margin = None;
            set = loop {
                // before a timer is set, which is expensive
                let ready = self.poller.wait(events, false)?;
                let time = now();
                if ready > 0 || time >= until || neighbours.is_waiting(number) {
                    self.was_awake(time - begun);
                    return Ok(ready);
                }
                if until <= time + self.spin {
                    continue;
                }
                let margin = *margin.get_or_insert_with(|| {
                    self.punctuality.as_mut().map_or(0, |it| it.margin(begun, preemptions()))
                });
                if until > time + margin + self.spin {
                    break Some(until - margin);
                }
            };
        }
        set.map_or(Ok(()), |when| self.timer.set(when))?;
        let patiently = neighbours.fall_asleep(number);
        let ready = self.poller.wait(events, patiently);
        neighbours.get_up(number);
        if let (Some(when), Ok(1), Some(punctuality)) = (set, &ready, &mut self.punctuality)
            && events[0].u64 == TIME
        {
            punctuality.was_late(now().saturating_sub(when));
        }
        ready
    }

    fn was_awake(&mut self, time: u64) {
        if let Some(punctuality) = &mut self.punctuality {
            punctuality.was_awake(time);
        }
    }
}

impl std::ops::Drop for Alarm {
    fn drop(&mut self) {
        self.poller.remove(self.timer.fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make an estimate for a machine with this delay.
    fn used_to(late: u64) -> Punctuality {
        let mut punctuality = Punctuality::default();
        punctuality.margin(SAVED_NS * SHARE, 0);
        (0..KNOWN).for_each(|_| punctuality.was_late(late));
        punctuality
    }

    #[test]
    fn timer_is_set_earlier_by_what_it_is_mostly_late() {
        let now = SAVED_NS * SHARE;
        let mut punctuality = used_to(20_000);
        assert_eq!(punctuality.margin(now, 0), 20_000);
        // a few much longer delays do not change the estimate
        (0..KNOWN - ENOUGH - 1).for_each(|_| punctuality.was_late(5_000_000));
        assert_eq!(punctuality.margin(now, 0), 20_000);
        assert_eq!(used_to(5_000_000).margin(now, 0), MARGIN_NS);
        assert_eq!(Punctuality::default().margin(now, 0), 0);
    }

    #[test]
    fn no_more_than_its_share_of_a_processor_is_spent_awake() {
        const WAIT: u64 = 100_000;
        let (mut punctuality, mut now, mut awake) = (used_to(40_000), SAVED_NS * SHARE, 0);
        let start = now;
        for _ in 0..10_000 {
            let margin = punctuality.margin(now, 0);
            punctuality.was_awake(margin);
            awake += margin;
            now += WAIT;
        }
        assert!(awake <= (now - start) / SHARE + SAVED_NS);
        assert!(awake >= (now - start) / SHARE - SAVED_NS, "and it is used");
    }

    #[test]
    fn processor_is_left_to_those_who_have_taken_it() {
        let (mut punctuality, now) = (used_to(20_000), SAVED_NS * SHARE);
        assert_eq!(punctuality.margin(now, 1), 0);
        assert_eq!(punctuality.margin(now + YIELD_NS - 1, 1), 0);
        assert_eq!(punctuality.margin(now + YIELD_NS, 1), 20_000);
    }

    #[test]
    fn nobody_is_woken_before_the_time_but_to_wait_on() {
        let poller = Arc::new(Poller::new().unwrap());
        let neighbours = Neighbours::new(1).unwrap();
        let mut alarm = Alarm::new(&poller, true).unwrap();
        alarm.settle().unwrap();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        for wait in [1, 1000, 100_000, 3_000_000] {
            let until = now() + wait;
            while now() < until {
                let ready = alarm.wait((&neighbours, 0), until, &mut events).unwrap();
                assert!(ready <= 1 && events[..ready].iter().all(|event| event.u64 == TIME));
            }
        }
    }
}
