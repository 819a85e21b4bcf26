//! The thread: waits for frames, runs the core, writes what came out. Python talks to it through a lock that
//! is held for one burst at a time, so whatever Python sets or reads is never half a burst.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, yield_now};

use crate::core::{Core, Upcall};
use crate::ejfat::app;
use crate::preemption_backoff::{Rest, sleep_exactly};
use crate::tap::{Devices, Poller, Signal, read};
use crate::vnet::{SIZE, VnetHeader};

/// Frames, and bytes, read from one device before the others have their turn.
const BURST_FRAMES: usize = 64;
const BURST_BYTES: usize = 256 << 10;
/// The largest frame that a TAP can hand over, and its header.
const BUFFER: usize = SIZE + (64 << 10) + 256;
const WAKE: u64 = u64::MAX;
/// Packets that may wait for Python before the devices that they come from are left alone: the hosts' own queues
/// fill, as they do before any slow link.
const ENOUGH_UPCALLS: usize = 512;

/// The core and its devices, always locked together.
pub struct State {
    pub core: Core,
    pub devices: Devices,
    /// Devices that failed for good, with the errno, for Python to hear of.
    pub lost: Vec<(usize, i32)>,
    /// Nothing is read from any device while this stands.
    pub paused: bool,
    /// Some devices are held.
    held: bool,
}

impl State {
    /// Take what waits for Python, and read again from the devices that were held for it.
    pub fn take_upcalls(&mut self, poller: &Poller) -> std::io::Result<VecDeque<Upcall>> {
        if std::mem::take(&mut self.held) {
            self.devices.release(poller)?;
        }
        Ok(std::mem::take(&mut self.core.upcalls))
    }
}

pub struct Shared {
    state: Mutex<State>,
    /// Callers in front of the lock: the thread lets them go first.
    waiting: AtomicUsize,
    resumed: Condvar,
    stop: AtomicBool,
    wake: Signal,
    /// Readable when Python has something to take: packets, a lost device, the thread's death.
    pub notice: Signal,
    pub poller: Poller,
    failure: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(core: Core) -> std::io::Result<Arc<Self>> {
        let shared = Shared {
            state: Mutex::new(State {
                core,
                devices: Devices::default(),
                lost: Vec::new(),
                paused: false,
                held: false,
            }),
            resumed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            wake: Signal::new()?,
            notice: Signal::new()?,
            poller: Poller::new()?,
            failure: Mutex::new(None),
        };
        shared.poller.add(shared.wake.fd(), WAKE)?;
        Ok(Arc::new(shared))
    }

    /// Lock the state for a caller outside the thread.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Let the thread rest between two bursts, or go on.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.resumed.notify_all();
    }

    /// Why the thread died, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.notice.raise();
    }
}

/// The running thread.
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        shared.stop.store(false, Ordering::Release);
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("opavnic".into()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&inside)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    inside.fail(format!("the native datapath broke: it cannot wait for frames: {error}"))
                }
                Err(panic) => inside.fail(panic_text(&*panic)),
            }
        })?;
        Ok(Worker { shared, thread: Some(thread) })
    }

    /// End the thread after its burst, and wait for that.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.pause(false);
        self.shared.wake.raise();
        if let Some(thread) = self.thread.take() {
            // a panic inside was caught and reported there
            let _ = thread.join();
        }
        self.shared.wake.clear();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the native datapath broke: {}", text.unwrap_or("unknown reason"))
}

fn run(shared: &Shared) -> std::io::Result<()> {
    let mut buffer = vec![0u8; BUFFER];
    let mut rest = Rest::default();
    sleep_exactly();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    loop {
        let ready = shared.poller.wait(&mut events)?;
        if shared.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        while shared.waiting.load(Ordering::Acquire) > 0 {
            yield_now();
        }
        let mut guard = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while guard.paused && !shared.stop.load(Ordering::Acquire) {
            guard = shared.resumed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        let state = &mut *guard;
        let mut overrun = false;
        for event in &events[..ready] {
            if event.u64 != WAKE {
                overrun |= drain(shared, state, event.u64 as usize, &mut buffer);
            }
        }
        state.core.flush(&mut state.devices);
        app::run(&mut state.core, &mut state.devices);
        if !state.core.upcalls.is_empty() || !state.lost.is_empty() {
            shared.notice.raise();
        }
        drop(guard);
        if overrun {
            rest.after_full_burst();
        }
    }
}

/// Read a burst from one device; return whether it had as many frames as a burst may have.
fn drain(shared: &Shared, state: &mut State, vport: usize, buffer: &mut [u8]) -> bool {
    let Some(fd) = state.devices.fd(vport) else { return false };
    let mut bytes = 0;
    for _ in 0..BURST_FRAMES {
        match read(fd, buffer) {
            Ok(None) => return false,
            Ok(Some(count)) => {
                let (head, frame) = buffer.split_at_mut(SIZE);
                let header = VnetHeader::parse((&*head).try_into().expect("split at SIZE"));
                let len = count.saturating_sub(SIZE);
                if state.core.is_full() {
                    state.core.flush(&mut state.devices);
                }
                let waiting = state.core.upcalls.len();
                state.core.transmit(vport, &header, frame, len, None);
                if state.core.upcalls.len() > waiting.max(ENOUGH_UPCALLS) {
                    hold(shared, state, vport);
                    return false;
                }
                bytes += count;
                if bytes >= BURST_BYTES {
                    return false;
                }
            }
            Err(error) => {
                // the namespace of the device is gone, or the device itself: it will not come back
                let errno = error.raw_os_error().unwrap_or(0);
                if errno != libc::EIO {
                    let _ = state.devices.change(&shared.poller, vport, |device| device.lost = true);
                    state.lost.push((vport, errno));
                }
                return false;
            }
        }
    }
    true
}

/// Read no more from a device until Python has taken what waits for it.
fn hold(shared: &Shared, state: &mut State, vport: usize) {
    state.held = true;
    // taking a descriptor out cannot fail
    let _ = state.devices.change(&shared.poller, vport, |device| device.held = true);
}
