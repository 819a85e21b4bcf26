//! Handing packets over between the workers of a fabric, and waking sleeping workers for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use engine::api::Engine;
use engine::share::{Handover, WorkerId};
use workers::crossing::Crossing;

use crate::Signal;

/// One worker, as the others see it.
struct Sleeper {
    wake: Signal,
    /// Whether the worker sleeps, or is about to, and must be woken for packets.
    is_asleep: AtomicBool,
}

/// All workers of a fabric. See the module.
pub struct Neighbours {
    crossing: Crossing,
    sleepers: Vec<Sleeper>,
    /// The number of outputs of all workers that wait for Python.
    pub backlog: Arc<AtomicUsize>,
}

impl Neighbours {
    pub fn new(workers: u32) -> std::io::Result<Self> {
        let sleeper = |_| Ok(Sleeper { wake: Signal::new()?, is_asleep: AtomicBool::new(false) });
        let sleepers = (0..workers).map(sleeper).collect::<std::io::Result<_>>()?;
        Ok(Neighbours { crossing: Crossing::new(workers), sleepers, backlog: Arc::default() })
    }

    fn sleeper(&self, worker: WorkerId) -> &Sleeper {
        &self.sleepers[worker as usize]
    }

    /// The wake signal of a worker.
    pub fn wake(&self, worker: WorkerId) -> &Signal {
        &self.sleeper(worker).wake
    }

    /// Hand over the packets for other workers in the engine of a worker, and wake their receivers.
    #[inline]
    pub fn hand_over(&self, from: WorkerId, engine: &mut Engine) {
        self.crossing.send(from, engine, |to| {
            // either the receiver sees the packets before it sleeps, or its flag is seen here: each side writes before
            // it reads
            fence(Ordering::SeqCst);
            let sleeper = self.sleeper(to);
            if sleeper.is_asleep.load(Ordering::Relaxed) && sleeper.is_asleep.swap(false, Ordering::Relaxed) {
                sleeper.wake.raise();
            }
        });
    }

    /// Take the packets that others have handed over to a worker. `list` is empty before and after.
    #[inline]
    pub fn receive(&self, to: WorkerId, engine: &mut Engine, list: &mut Vec<Handover>) {
        self.crossing.receive(to, engine, list);
    }

    /// Whether packets wait for a worker.
    #[inline]
    pub fn is_waiting(&self, worker: WorkerId) -> bool {
        self.crossing.is_waiting(worker)
    }

    /// Allow a worker to be woken for packets from now on; return false if some wait already.
    pub fn fall_asleep(&self, worker: WorkerId) -> bool {
        self.sleeper(worker).is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.is_waiting(worker)
    }

    /// Note that a worker is awake and polls for packets itself.
    pub fn get_up(&self, worker: WorkerId) {
        self.sleeper(worker).is_asleep.store(false, Ordering::Relaxed);
    }
}
