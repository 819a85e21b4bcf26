//! The threads that drive the carriers: each waits for frames, for packets of other workers and for the time of the
//! next event. It never handles an event early, and late only by the delay of its wake-up. It holds a lock for one
//! burst at a time; Python takes the same lock, so it never sees or changes state in the middle of a burst.

use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{JoinHandle, yield_now};

use engine::share::WorkerId;

use crate::alarm::{Alarm, TIME};
use crate::carrier::BUFFER;
use crate::clock::now;
use crate::preemption_backoff::{Rest, rest};
use crate::shared::{NEVER, Shared, WAKE};

/// The longest time that a thread waits before a rest for its burst to arrive and be written.
const BEFORE_REST_NS: u64 = 50_000;

/// The running threads, one for each worker.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        shared.stop.store(false, Ordering::Release);
        shared.runs.store(true, Ordering::Release);
        let mut threads = Threads { shared, handles: Vec::new() };
        for number in 0..threads.shared.workers.len() as WorkerId {
            match start(&threads.shared, number) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => {
                    threads.stop();
                    threads.shared.runs.store(false, Ordering::Release);
                    return Err(error);
                }
            }
        }
        Ok(threads)
    }

    /// The processor-time clock of each thread.
    pub fn clocks(&self) -> std::io::Result<Vec<libc::clockid_t>> {
        let clock = |handle: &JoinHandle<()>| {
            let mut clock = 0;
            // SAFETY: the thread is joined only when its handle has been taken away
            match unsafe { libc::pthread_getcpuclockid(handle.as_pthread_t(), &mut clock) } {
                0 => Ok(clock),
                error => Err(std::io::Error::from_raw_os_error(error)),
            }
        };
        self.handles.iter().map(clock).collect()
    }

    /// Stop the threads after their current bursts and wait for their end. Harmless when done twice.
    pub fn stop(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        self.shared.end();
        for handle in self.handles.drain(..) {
            // a panic has already been caught and reported by the thread itself
            let _ = handle.join();
        }
        self.shared.runs.store(false, Ordering::Release);
        (0..self.shared.workers.len() as WorkerId).for_each(|it| self.shared.neighbours.wake(it).clear());
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(shared: &Arc<Shared>, number: WorkerId) -> std::io::Result<JoinHandle<()>> {
    let alarm = Alarm::new(&shared.workers[number as usize].poller, true)?;
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name(format!("opavnic {number}")).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&shared, number, alarm)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                shared.fail(format!("the native datapath broke: it cannot wait for frames: {error}"));
            }
            Err(panic) => shared.fail(panic_text(&*panic)),
        }
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the native datapath broke: {}", text.unwrap_or("unknown reason"))
}

fn run(shared: &Shared, number: WorkerId, mut alarm: Alarm) -> std::io::Result<()> {
    let worker = &shared.workers[number as usize];
    let mut buffer = vec![0u8; BUFFER];
    let mut backoff = Rest::default();
    // the latest time to which a due rest is postponed
    let mut rests_by = None;
    alarm.settle()?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut ready = 0;
    loop {
        while worker.waiting.load(Ordering::Acquire) > 0 {
            yield_now();
        }
        let mut guard = worker.lock();
        while guard.paused && !shared.stop.load(Ordering::Acquire) {
            guard = worker.resumed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        let carrier = &mut *guard;
        let had_outputs = !carrier.outbox.is_empty();
        let had_heard = !carrier.vnics.heard.is_empty();
        let woken = now();
        carrier.pass(woken);
        let mut overrun = false;
        for event in &events[..ready] {
            match event.u64 {
                TIME => {}
                WAKE => shared.neighbours.wake(number).clear(),
                vport => overrun |= carrier.drain(vport as usize, &mut buffer, now, Some(woken)),
            }
        }
        overrun |= carrier.resume(&mut buffer, now);
        let time = now();
        carrier.pass(time);
        let until = match carrier.finish(time) {
            _ if carrier.has_restarted() => time,
            until => until.unwrap_or(NEVER),
        };
        worker.awaited.store(until, Ordering::Release);
        if !carrier.lost.is_empty()
            || (!had_outputs && !carrier.outbox.is_empty())
            || (!had_heard && !carrier.vnics.heard.is_empty())
        {
            shared.notice.raise();
        }
        let is_waiting = carrier.is_waiting();
        drop(guard);
        if overrun && backoff.after_full_burst() {
            rests_by = Some(time + BEFORE_REST_NS);
        }
        // read after the wake signal is cleared, since the signal may have announced this
        if shared.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(latest) = rests_by {
            if time < latest && (is_waiting || until <= time + alarm.spin()) {
                // the frames that were read are still in transit
                ready = 0;
                continue;
            }
            rest(until);
            rests_by = None;
        }
        ready = alarm.wait((&shared.neighbours, number), until, &mut events)?;
    }
}
