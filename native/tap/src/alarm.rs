//! To be there on time: the thread sleeps until shortly before the time for which it waits, and waits awake for the rest.
//!
//! A sleeper is woken late: by a microsecond or two on most machines, by tens on a virtual one, whose timers are its
//! host's. How late this machine is, is learnt from the last times, and timers are set as much earlier. Nothing is done
//! early by it: the rest is waited for awake. That costs a processor, so it may take an eighth of one at most, and none
//! that other programs want. A thread without a deadline sleeps.

use std::io::Result;
use std::sync::Arc;

use engine::share::WorkerId;

use crate::Poller;
use crate::clock::{Timer, now};
use crate::neighbours::Neighbours;
use crate::preemption_backoff::{preemptions, sleep_exactly};
use crate::shared::NEVER;

/// What a timer reports as.
pub const TIME: u64 = u64::MAX - 1;
/// What is due so soon is waited for without going to sleep, at least and at most: see `Timer::cost`.
const SPIN_NS: (u64, u64) = (3_000, 30_000);

/// How many times are remembered.
const KNOWN: usize = 16;
/// A timer is set earlier by as much as this many of them were late at most.
const ENOUGH: usize = 12;
/// But not by more than this: a longer delay has other causes.
const MARGIN_NS: u64 = 60_000;
/// One part of the time in so many may be spent awake.
const SHARE: u64 = 8;
/// What may have been saved up.
const SAVED_NS: u64 = 500_000;
/// After another program has taken the processor, it has it for so long.
const YIELD_NS: u64 = 10_000_000;

/// How much earlier than wanted a timer is to be set.
#[derive(Debug, Default)]
pub struct Punctuality {
    late: [u64; KNOWN],
    next: usize,
    /// By how much a timer is late, mostly.
    margin: u64,
    /// What may be spent awake, and up to when that has been reckoned.
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

    /// Note that the thread has waited awake.
    pub fn was_awake(&mut self, time: u64) {
        self.saved = self.saved.saturating_sub(time);
    }

    /// How much earlier than wanted a timer is to be set now. `preemptions`: how often the thread lost the processor so far.
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

/// What the thread of a worker waits with. See the module.
pub struct Alarm {
    poller: Arc<Poller>,
    timer: Timer,
    /// What takes no longer than this is waited for awake.
    spin: u64,
    /// See the module; None: timers are set for the very time.
    punctuality: Option<Punctuality>,
}

impl Alarm {
    /// Make one that waits for the descriptors of a poller, too; `is_punctual` unless it is to be measured what that wins.
    pub fn new(poller: &Arc<Poller>, is_punctual: bool) -> Result<Self> {
        let timer = Timer::new()?;
        poller.add_edges(timer.fd(), TIME)?;
        let punctuality = is_punctual.then(Punctuality::default);
        Ok(Alarm { poller: Arc::clone(poller), timer, spin: SPIN_NS.0, punctuality })
    }

    /// Find out what is dear here; the calling thread is the one that will wait.
    pub fn settle(&mut self) -> Result<()> {
        sleep_exactly();
        self.spin = self.timer.cost()?.clamp(SPIN_NS.0, SPIN_NS.1);
        Ok(())
    }

    /// What takes no longer than this is waited for awake, in nanoseconds.
    pub fn spin(&self) -> u64 {
        self.spin
    }

    /// Wait for descriptors, and for packets of other workers, until then at most; return how many are ready, the timer
    /// among them. A caller that returns early has to wait again.
    pub fn wait(
        &mut self,
        (neighbours, number): (&Neighbours, WorkerId),
        until: u64,
        events: &mut [libc::epoll_event],
    ) -> Result<usize> {
        let mut set = None;
        if until != NEVER {
            let begun = now();
            let margin = self.punctuality.as_mut().map_or(0, |it| it.margin(begun, preemptions()));
            set = loop {
                // before a timer is set, which is dear
                let ready = self.poller.wait(events, false)?;
                let time = now();
                if ready > 0 || time >= until || neighbours.is_waiting(number) {
                    self.was_awake(time - begun);
                    return Ok(ready);
                }
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

    /// One that has seen a machine that is so late.
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
        // a few that were much later change nothing
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
