//! How late a thread is that waits for a time: as its timers wake it, and as it is with timers that are set earlier.
//!
//! Arguments: how many times to wait each. Printed: what share was late by less than so many microseconds, and what share
//! of the time the thread had the processor.

use std::sync::Arc;

use tap::Poller;
use tap::alarm::Alarm;
use tap::clock::now;
use tap::neighbours::Neighbours;

const TIMES: usize = 1000;
const BOUNDS_US: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 1000];

/// Nanoseconds for which the calling thread has had a processor.
fn worked() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure, borrowed for writing
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn measure(is_punctual: bool, wait_us: u64, times: usize) -> std::io::Result<()> {
    let poller = Arc::new(Poller::new()?);
    let neighbours = Neighbours::new(1)?;
    let mut alarm = Alarm::new(&poller, is_punctual)?;
    alarm.settle()?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1];
    let (begun, had) = (now(), worked());
    let mut late = Vec::new();
    for _ in 0..times {
        let until = now() + wait_us * 1000;
        while now() < until {
            alarm.wait((&neighbours, 0), until, &mut events)?;
        }
        late.push(now() - until);
    }
    let share = (worked() - had) as f64 / (now() - begun) as f64;
    late.sort_unstable();
    let below = |bound: u64| late.partition_point(|late| *late < bound * 1000) as f64 / times as f64;
    let histogram: Vec<_> =
        BOUNDS_US.iter().map(|bound| format!("<{bound} {:.0} %", 100.0 * below(*bound))).collect();
    let how = if is_punctual { "earlier" } else { "plain" };
    let median = late[times / 2] as f64 / 1000.0;
    println!(
        "{wait_us} us, {how}: median {median:.1} us late, {}; {share:.2} of a processor",
        histogram.join(", ")
    );
    Ok(())
}

fn main() -> std::io::Result<()> {
    let times = std::env::args().nth(1).map_or(TIMES, |times| times.parse().expect("a number"));
    for wait_us in [30, 100, 300, 1000] {
        measure(false, wait_us, times)?;
        measure(true, wait_us, times)?;
    }
    Ok(())
}
