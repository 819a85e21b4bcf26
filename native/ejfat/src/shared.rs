//! What Python and a thread share: the tables, the counters, the frames that wait for Python.

use std::collections::VecDeque;
use std::io::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;

use tap::Signal;

use crate::counters::Counters;
use crate::drops::Drop;
use crate::parse::is_for_node;
use crate::pipeline::{Outcome, process};
use crate::tables::Snapshot;

/// Frames that wait for Python at most; more are dropped as host:queue_full.
pub const MAX_PUNTS: usize = 1024;

/// What a burst works on, locked for as long as the burst lasts.
#[derive(Default)]
pub struct Work {
    pub tables: Arc<Snapshot>,
    pub counters: Counters,
    pub punts: VecDeque<Vec<u8>>,
    /// A thread begins no burst while this stands.
    pub paused: bool,
}

impl Work {
    /// Take one frame of a network, in place; return where it lies that leaves, None where none does.
    #[inline]
    pub fn take(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        if !is_for_node(frame, &self.tables.sync_ports) {
            match process(&self.tables, &mut self.counters, frame) {
                Outcome::Forward(range) => return Some(range),
                Outcome::Dropped(_) => return None,
                Outcome::Punt => {}
            }
        }
        if self.punts.len() < MAX_PUNTS {
            self.punts.push_back(frame.to_vec());
        } else {
            self.counters.enter(frame.len());
            self.counters.drop(Drop::HostQueue, None);
        }
        None
    }
}

pub struct Shared {
    work: Mutex<Work>,
    /// Callers in front of the lock: a thread lets them go first.
    waiting: AtomicUsize,
    resumed: Condvar,
    /// Readable when Python has something to take: frames, a thread's death.
    pub notice: Signal,
}

impl Shared {
    pub fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Shared {
            work: Mutex::default(),
            waiting: AtomicUsize::new(0),
            resumed: Condvar::new(),
            notice: Signal::new()?,
        }))
    }

    /// Lock for a caller that comes now and then.
    pub fn lock(&self) -> MutexGuard<'_, Work> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Lock for the next burst of a thread: behind other callers, and not while it is paused.
    pub fn lock_for_burst(&self, stop: &AtomicBool) -> MutexGuard<'_, Work> {
        while self.waiting.load(Ordering::Acquire) > 0 {
            yield_now();
        }
        let mut guard = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        while guard.paused && !stop.load(Ordering::Acquire) {
            guard = self.resumed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        guard
    }

    /// Let threads rest between two bursts, or go on. When this returns, none is inside a burst.
    pub fn pause(&self, paused: bool) {
        self.lock().paused = paused;
        self.resumed.notify_all();
    }
}
