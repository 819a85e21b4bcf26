//! Real time in nanoseconds: the kernel's monotonic clock, which is also that of Python's event loops.

use std::io::Result;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::checked;

/// The number of attempts of `Timer::cost`: other programs may disturb some of them.
const TRIES: u32 = 16;
/// A time that is probably earlier than all other timers: only then does the kernel program its clock event device.
const SOON_NS: u64 = 100_000;

/// Return the time in nanoseconds.
#[inline]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure, borrowed for writing; the clock exists everywhere
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A timer that becomes readable at its time (timerfd).
pub struct Timer(OwnedFd);

impl Timer {
    pub fn new() -> Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes no pointers; the new descriptor has no other owner
        unsafe {
            let fd = checked(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?;
            Ok(Timer(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Return the time in nanoseconds that setting the timer takes: less than 1000 on most machines, up to 20,000 on a
    /// virtual one, which traps into its host. Shorter sleeps save no processor time.
    pub fn cost(&self) -> Result<u64> {
        let mut least = u64::MAX;
        for _ in 0..TRIES {
            let before = now();
            self.set(before + SOON_NS)?;
            least = least.min(now() - before);
        }
        Ok(least)
    }

    /// Set the timer to become readable at this time, and not before.
    pub fn set(&self, when: u64) -> Result<()> {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // a time of zero would switch it off; one beyond all clocks is not taken
        let seconds = (when / 1_000_000_000).min(1 << 33) as libc::time_t;
        let time = libc::timespec { tv_sec: seconds, tv_nsec: (when % 1_000_000_000).max(1) as libc::c_long };
        let spec = libc::itimerspec { it_interval: none, it_value: time };
        // SAFETY: a live structure; the old value is not asked for
        unsafe {
            checked(libc::timerfd_settime(
                self.fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            ))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Poller;

    #[test]
    fn timer_wakes_who_waits_and_never_early() {
        let (timer, poller) = (Timer::new().unwrap(), Poller::new().unwrap());
        poller.add(timer.fd(), 7).unwrap();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        for wait in [1, 1000, 100_000, 3_000_000] {
            let when = now() + wait;
            timer.set(when).unwrap();
            assert_eq!(poller.wait(&mut events, true).unwrap(), 1);
            assert!(now() >= when);
        }
        timer.set(u64::MAX >> 1).unwrap();
        assert_eq!(poller.wait(&mut events, false).unwrap(), 0, "the end of all time has not come");
    }
}
