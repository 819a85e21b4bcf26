//! When the thread should rest.
//!
//! A host that sends faster than its receivers can read keeps the thread busy all the time. On a machine without an
//! idle processor the thread then takes the processor time that the receiving programs need, and most of what it
//! forwards is lost in full socket buffers. A short rest after each full burst increases the throughput: the excess
//! is lost in the queue of the sender, where it costs nothing.
//!
//! A rest delays no frame that has been read: the burst has been written by then. A thread that has a processor to
//! itself, or that keeps up with its senders, never rests.

use std::time::Duration;

use crate::clock::now;

/// About half the time that a full burst of small frames takes.
const REST: Duration = Duration::from_micros(50);
/// The number of full bursts to rest after one preemption: a thread that rests is not preempted again.
const HOLD: u32 = 256;

/// What is known about other programs' need for the processor.
#[derive(Default)]
pub struct Rest {
    preemptions: i64,
    hold: u32,
}

impl Rest {
    /// Whether to rest after a full burst: others need the processor.
    pub fn after_full_burst(&mut self) -> bool {
        self.is_due(preemptions())
    }

    /// Whether to rest. `preemptions` is the number of times that the thread has been preempted since it started.
    fn is_due(&mut self, preemptions: i64) -> bool {
        if preemptions != self.preemptions {
            self.preemptions = preemptions;
            self.hold = HOLD;
        }
        let due = self.hold > 0;
        self.hold = self.hold.saturating_sub(1);
        due
    }
}

/// Rest, at most until then: nanoseconds on the clock.
pub fn rest(until: u64) {
    std::thread::sleep(REST.min(Duration::from_nanos(until.saturating_sub(now()))));
}

/// Make the sleeps of the calling thread precise; the default slack of 50 us is as long as a rest.
pub fn sleep_exactly() {
    // SAFETY: the call takes no pointers; if it is refused, rests just take longer
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
}

/// The number of times that the calling thread has been preempted.
pub fn preemptions() -> i64 {
    // SAFETY: all zero bytes are a valid value of this structure of integers, which is live during the call
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_only_while_others_have_lately_taken_the_processor() {
        let mut rest = Rest::default();
        assert!(!rest.is_due(0));
        for _ in 0..HOLD {
            assert!(rest.is_due(1));
        }
        assert!(!rest.is_due(1));
        assert!(rest.is_due(2));
    }
}
