//! The thread that drives a carrier: it waits for frames and for the time of the next event, never early, and is late
//! only by what the machine takes to wake it. It holds a lock for one burst at a time; Python takes the same lock, so it
//! never sees or changes state in the middle of a burst.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, yield_now};

use engine::api::Engine;
use engine::outputs::Output;
use engine::vnics::Vnics;

use crate::carrier::{BUFFER, Carrier};
use crate::clock::{Timer, now};
use crate::preemption_backoff::{Rest, sleep_exactly};
use crate::{Poller, Signal};

const WAKE: u64 = u64::MAX;
const TIME: u64 = u64::MAX - 1;
/// What is due so soon is waited for without going to sleep, at least and at most: see `Timer::cost`.
const SPIN_NS: (u64, u64) = (3_000, 30_000);
/// The thread waits for no time.
const NEVER: u64 = u64::MAX;

pub struct Shared {
    carrier: Mutex<Carrier>,
    /// Callers waiting for the lock; the thread gives way to them.
    waiting: AtomicUsize,
    resumed: Condvar,
    stop: AtomicBool,
    /// Whether the thread drives the carrier, in real time. If not, its callers do, in theirs.
    runs: AtomicBool,
    /// The time for which the thread waits.
    awaited: AtomicU64,
    wake: Signal,
    /// Readable when there is something for Python: outputs, a lost device, the death of the thread.
    pub notice: Signal,
    poller: Arc<Poller>,
    failure: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(engine: Engine, vnics: Vnics) -> std::io::Result<Arc<Self>> {
        let poller = Arc::new(Poller::new()?);
        let shared = Shared {
            carrier: Mutex::new(Carrier::new(engine, vnics, Arc::clone(&poller))),
            resumed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            awaited: AtomicU64::new(NEVER),
            wake: Signal::new()?,
            notice: Signal::new()?,
            poller,
            failure: Mutex::new(None),
        };
        shared.poller.add(shared.wake.fd(), WAKE)?;
        Ok(Arc::new(shared))
    }

    /// Lock the carrier for a caller outside the thread.
    pub fn lock(&self) -> MutexGuard<'_, Carrier> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.carrier.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Do something at `given`, or now if the thread runs, and see to what comes of it.
    pub fn input<R>(&self, given: u64, action: impl FnOnce(&mut Carrier, u64) -> R) -> R {
        let mut carrier = self.lock();
        let runs = self.runs.load(Ordering::Acquire);
        let now = if runs { now() } else { given };
        let had_outputs = !carrier.outbox.is_empty();
        carrier.pass(now);
        let result = action(&mut carrier, now);
        carrier.sort(now);
        if !runs {
            carrier.flush(now);
        } else if carrier.deadline().is_some_and(|due| due < self.awaited.load(Ordering::Acquire)) {
            self.wake.raise();
        }
        if !had_outputs && !carrier.outbox.is_empty() {
            self.notice.raise();
        }
        result
    }

    /// Take what waits for Python.
    pub fn take_outputs(&self) -> std::io::Result<VecDeque<Output>> {
        self.notice.clear();
        self.lock().take_outputs()
    }

    /// Pause the thread between two bursts, or resume it.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.resumed.notify_all();
    }

    /// The reason why the thread died, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, reason: String) {
        self.runs.store(false, Ordering::Release);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.notice.raise();
    }
}

/// The running thread.
pub struct Thread {
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    pub fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        let timer = Timer::new()?;
        shared.poller.add_edges(timer.fd(), TIME)?;
        shared.stop.store(false, Ordering::Release);
        shared.runs.store(true, Ordering::Release);
        let inside = Arc::clone(&shared);
        let handle = std::thread::Builder::new().name("opavnic".into()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&inside, &timer)));
            inside.poller.remove(timer.fd());
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    inside.fail(format!("the native datapath broke: it cannot wait for frames: {error}"))
                }
                Err(panic) => inside.fail(panic_text(&*panic)),
            }
        })?;
        Ok(Thread { shared, handle: Some(handle) })
    }

    /// Stop the thread after its current burst and wait for its end.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.pause(false);
        self.shared.wake.raise();
        if let Some(handle) = self.handle.take() {
            // a panic has already been caught and reported by the thread itself
            let _ = handle.join();
        }
        self.shared.runs.store(false, Ordering::Release);
        self.shared.wake.clear();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the native datapath broke: {}", text.unwrap_or("unknown reason"))
}

fn run(shared: &Shared, timer: &Timer) -> std::io::Result<()> {
    let mut buffer = vec![0u8; BUFFER];
    let mut rest = Rest::default();
    sleep_exactly();
    let spin = timer.cost()?.clamp(SPIN_NS.0, SPIN_NS.1);
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut ready = 0;
    loop {
        if shared.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        while shared.waiting.load(Ordering::Acquire) > 0 {
            yield_now();
        }
        let mut guard = shared.carrier.lock().unwrap_or_else(PoisonError::into_inner);
        while guard.paused && !shared.stop.load(Ordering::Acquire) {
            guard = shared.resumed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        let carrier = &mut *guard;
        let had_outputs = !carrier.outbox.is_empty();
        carrier.pass(now());
        let mut overrun = false;
        for event in &events[..ready] {
            match event.u64 {
                TIME => {}
                WAKE => shared.wake.clear(),
                vport => overrun |= carrier.drain(vport as usize, &mut buffer, now),
            }
        }
        overrun |= carrier.resume(&mut buffer, now);
        let time = now();
        carrier.pass(time);
        let until = match carrier.finish(time) {
            _ if carrier.has_restarted() => time,
            until => until.unwrap_or(NEVER),
        };
        shared.awaited.store(until, Ordering::Release);
        if !carrier.lost.is_empty() || (!had_outputs && !carrier.outbox.is_empty()) {
            shared.notice.raise();
        }
        drop(guard);
        if overrun {
            rest.after_full_burst(until);
        }
        ready = wait(shared, timer, until, spin, &mut events)?;
    }
}

/// Wait for frames, at most until then, and awake where that is within `spin` nanoseconds.
fn wait(
    shared: &Shared,
    timer: &Timer,
    until: u64,
    spin: u64,
    events: &mut [libc::epoll_event],
) -> std::io::Result<usize> {
    if until == NEVER {
        return shared.poller.wait(events, true);
    }
    loop {
        // before a timer is set, which is dear
        let ready = shared.poller.wait(events, false)?;
        let time = now();
        if ready > 0 || time >= until {
            return Ok(ready);
        }
        if until > time + spin {
            timer.set(until)?;
            return shared.poller.wait(events, true);
        }
    }
}
