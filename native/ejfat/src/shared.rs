//! What Python and the threads share: the tables, the counters, the frames that wait for Python.
//!
//! Each worker has a lane of its own, so that no two threads meet at a lock; Python goes through all lanes.

use std::collections::VecDeque;
use std::io::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;

use tap::Signal;

use crate::counters::Counters;
use crate::drops::Drop;
use crate::parse;
use crate::pipeline::{Outcome, process_parsed};
use crate::station::{Burst, Station};
use crate::tables::Snapshot;

/// Frames of a worker that wait for Python at most; more are dropped as host:queue_full.
pub const MAX_PUNTS: usize = 1024;

/// What a burst works on, locked for as long as the burst lasts.
#[derive(Default)]
pub struct Work {
    pub tables: Arc<Snapshot>,
    pub counters: Counters,
    pub punts: VecDeque<Vec<u8>>,
    /// While set, a thread begins no burst.
    pub paused: bool,
}

impl Work {
    /// Take one frame of a network, in place; return where it lies that leaves, None where none does.
    ///
    /// What leaves for the load balancer itself, an instance downstream of another, comes back at once: no switch sends
    /// a frame back to where it came from. Each pass decrements the TTL or removes a header.
    #[inline]
    pub fn take(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        let mut start = 0;
        loop {
            start += self.pass(&mut frame[start..])?;
            let out = &frame[start..];
            if out[..6] != out[6..12] {
                return Some(start..frame.len());
            }
        }
    }

    /// Take a frame once; return where that begins which leaves, up to the end of the frame.
    #[inline]
    fn pass(&mut self, frame: &mut [u8]) -> Option<usize> {
        let headers = parse::headers(frame);
        if !headers.is_for_node(frame, &self.tables.sync_ports) {
            match process_parsed(&self.tables, &mut self.counters, frame, &headers) {
                Outcome::Forward(range) => return Some(range.start),
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

/// Lanes do not share a cache line, nor the pair of lines that processors fetch together.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    work: Mutex<Work>,
    /// Callers in front of the lock: a thread lets them go first.
    waiting: AtomicUsize,
    resumed: Condvar,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }
}

pub struct Shared {
    lanes: Box<[Lane]>,
    /// Readable when Python has something to take: frames, a thread's death.
    pub notice: Signal,
}

impl Shared {
    /// Have lanes for so many workers, at least one.
    pub fn new(workers: usize) -> Result<Arc<Self>> {
        let lanes = (0..workers.max(1)).map(|_| Lane::default()).collect();
        Ok(Arc::new(Shared { lanes, notice: Signal::new()? }))
    }

    pub fn workers(&self) -> usize {
        self.lanes.len()
    }

    /// Lock the first lane, for a caller outside the threads.
    pub fn lock(&self) -> MutexGuard<'_, Work> {
        self.lanes[0].lock()
    }

    /// Return the tables, which no other caller changes meanwhile: only Python does, one call at a time.
    pub fn tables(&self) -> Arc<Snapshot> {
        Arc::clone(&self.lock().tables)
    }

    /// Swap the tables: atomically for each worker, and for all workers only while they are paused.
    pub fn set_tables(&self, tables: Snapshot) {
        let tables = Arc::new(tables);
        for lane in &self.lanes {
            lane.lock().tables = Arc::clone(&tables);
        }
    }

    /// Take what all workers have counted since the last time.
    pub fn collect(&self) -> Counters {
        let mut all = self.lanes.iter().map(|lane| lane.lock().counters.take());
        let mut total = all.next().unwrap_or_default();
        all.for_each(|counters| total.add(&counters));
        total
    }

    /// Set the furthest tick that an instance accepts; None: any.
    pub fn believe(&self, lb: usize, furthest: Option<u64>) {
        for lane in &self.lanes {
            lane.lock().counters.lbs[lb].furthest = furthest;
        }
    }

    /// Take the frames that wait for Python.
    pub fn take_punts(&self) -> Vec<Vec<u8>> {
        self.notice.clear();
        self.lanes.iter().flat_map(|lane| std::mem::take(&mut lane.lock().punts)).collect()
    }

    /// Let threads rest between two bursts, or go on. When this returns, none is inside a burst.
    pub fn pause(&self, paused: bool) {
        for lane in &self.lanes {
            lane.lock().paused = paused;
            lane.resumed.notify_all();
        }
    }
}

/// A worker's lane, locked.
pub struct Locked<'a> {
    work: MutexGuard<'a, Work>,
    notice: &'a Signal,
}

impl Burst for Locked<'_> {
    #[inline]
    fn take(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        self.work.take(frame)
    }
}

impl std::ops::Drop for Locked<'_> {
    fn drop(&mut self) {
        if !self.work.punts.is_empty() {
            self.notice.raise();
        }
    }
}

impl Station for Shared {
    type Burst<'a> = Locked<'a>;

    /// Behind callers of other threads, and not while this worker is paused.
    fn begin(&self, worker: usize, stop: &AtomicBool) -> Locked<'_> {
        let lane = &self.lanes[worker];
        while lane.waiting.load(Ordering::Acquire) > 0 {
            yield_now();
        }
        let mut work = lane.work.lock().unwrap_or_else(PoisonError::into_inner);
        while work.paused && !stop.load(Ordering::Acquire) {
            work = lane.resumed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        Locked { work, notice: &self.notice }
    }

    fn release(&self) {
        self.pause(false);
    }

    fn tell_failure(&self) {
        self.notice.raise();
    }
}
