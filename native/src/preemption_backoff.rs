//! When the thread should rest: a host that sends more than anybody can take keeps it busy without end, and on a
//! machine whose processors are all busy it then takes the time that the receiving programs need. What it forwards
//! ends in full socket buffers. A short rest after each full burst moves more: what is too much is lost at the
//! sender's own queue, where it costs nothing.
//!
//! Nothing that was read waits: the burst has been written by then. A thread that has a processor to itself, or
//! that keeps up with what comes, never rests.

use std::time::Duration;

/// Some half of what a full burst of small frames takes.
const REST: Duration = Duration::from_micros(50);
/// Full bursts for which one preemption counts: while it rests, the thread is not preempted.
const HOLD: u32 = 256;

/// What is known of the other programs' need for the processor.
#[derive(Default)]
pub struct Rest {
    preemptions: i64,
    hold: u32,
}

impl Rest {
    /// Rest after a full burst if others need the processor.
    pub fn after_full_burst(&mut self) {
        if self.is_due(preemptions()) {
            std::thread::sleep(REST);
        }
    }

    /// Whether to rest, `preemptions` being how often the thread has been preempted in its life.
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

/// Let the calling thread's sleeps end when they should; the default slack of 50 us is as long as a rest.
pub fn sleep_exactly() {
    // SAFETY: no pointers; where it is refused, rests are longer
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
}

/// How often the calling thread had to give up its processor.
fn preemptions() -> i64 {
    // SAFETY: the structure is plain numbers, filled in by the call
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
