//! The thread: it waits for frames, runs the core and writes the results. It holds a lock for one burst at a time;
//! Python takes the same lock, so it never sees or changes state in the middle of a burst.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, yield_now};

use engine::app::NativeApp;
use engine::core::{Core, Upcall};
use offload::vnet::{SIZE, VnetHeader};

use crate::devices::Devices;
use crate::preemption_backoff::{Rest, sleep_exactly};
use crate::{Poller, Signal, read};

/// The most frames and bytes that are read from one device before the others get their turn.
const BURST_FRAMES: usize = 64;
const BURST_BYTES: usize = 256 << 10;
/// The largest frame that a TAP can deliver, with its header.
const BUFFER: usize = SIZE + (64 << 10) + 256;
const WAKE: u64 = u64::MAX;
/// While this many packets wait for Python, the devices that they come from are not read. The queues of the hosts
/// fill up, as they do in front of any slow link.
const ENOUGH_UPCALLS: usize = 512;

/// The core and its devices, which share one lock.
pub struct State {
    pub core: Core,
    pub devices: Devices,
    /// Devices that failed permanently, with the errno, to be reported to Python.
    pub lost: Vec<(usize, i32)>,
    /// While set, no device is read.
    pub paused: bool,
    /// Whether any device is held.
    held: bool,
}

impl State {
    /// Take the packets that wait for Python, and resume reading from devices that were held because of them.
    pub fn take_upcalls(&mut self, poller: &Poller) -> std::io::Result<VecDeque<Upcall>> {
        if std::mem::take(&mut self.held) {
            self.devices.release(poller)?;
        }
        Ok(std::mem::take(&mut self.core.upcalls))
    }

    /// Write the frames that the burst delivered, and run the apps.
    pub fn end_burst(&mut self) {
        self.core.flush(&mut self.devices);
        self.devices.run_apps(&mut self.core);
    }

    /// Set or clear the app of a vport; return false if there is no such vport. While a vport has an app, its frames
    /// are not merged.
    pub fn set_app(&mut self, vport: usize, app: Option<Arc<dyn NativeApp>>) -> bool {
        let Some(slot) = self.core.vports.get_mut(vport).filter(|slot| slot.in_use) else { return false };
        slot.unmerged = app.is_some();
        self.devices.apps.set(vport, app);
        true
    }
}

pub struct Shared {
    state: Mutex<State>,
    /// Callers waiting for the lock; the thread gives way to them.
    waiting: AtomicUsize,
    resumed: Condvar,
    stop: AtomicBool,
    wake: Signal,
    /// Readable when there is something for Python: packets, a lost device, the death of the thread.
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

    /// Stop the thread after its current burst and wait for its end.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.pause(false);
        self.shared.wake.raise();
        if let Some(thread) = self.thread.take() {
            // a panic has already been caught and reported by the thread itself
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
        state.end_burst();
        if !state.core.upcalls.is_empty() || !state.lost.is_empty() {
            shared.notice.raise();
        }
        drop(guard);
        if overrun {
            rest.after_full_burst();
        }
    }
}

/// Read a burst from one device; return whether the burst was full.
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
                // the device is gone, or its namespace: it will not come back
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

/// Stop reading from a device until Python has taken the waiting packets.
fn hold(shared: &Shared, state: &mut State, vport: usize) {
    state.held = true;
    // removing a descriptor cannot fail
    let _ = state.devices.change(&shared.poller, vport, |device| device.held = true);
}
