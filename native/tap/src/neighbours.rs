//! How the workers of a fabric reach each other: packets cross, and who sleeps is woken for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use engine::api::Engine;
use engine::share::{Handover, WorkerId};
use workers::crossing::Crossing;

use crate::Signal;

/// One worker, as the others see it.
struct Sleeper {
    wake: Signal,
    /// Whether it sleeps, or is about to, and is to be woken for packets.
    is_asleep: AtomicBool,
}

/// See the module.
pub struct Neighbours {
    crossing: Crossing,
    sleepers: Vec<Sleeper>,
    /// How much waits for Python, of all workers.
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

    /// What a worker waits for beside its devices.
    pub fn wake(&self, worker: WorkerId) -> &Signal {
        &self.sleeper(worker).wake
    }

    /// Hand over what waits in the engine of a worker, and wake those for whom it is.
    #[inline]
    pub fn hand_over(&self, from: WorkerId, engine: &mut Engine) {
        self.crossing.send(from, engine, |to| {
            // either it sees the packets before it sleeps, or it is seen here: each writes before it looks
            fence(Ordering::SeqCst);
            let sleeper = self.sleeper(to);
            if sleeper.is_asleep.load(Ordering::Relaxed) && sleeper.is_asleep.swap(false, Ordering::Relaxed) {
                sleeper.wake.raise();
            }
        });
    }

    /// Take in what others have handed to a worker. `list` is empty before and after.
    #[inline]
    pub fn receive(&self, to: WorkerId, engine: &mut Engine, list: &mut Vec<Handover>) {
        self.crossing.receive(to, engine, list);
    }

    /// Whether packets wait for a worker.
    #[inline]
    pub fn is_waiting(&self, worker: WorkerId) -> bool {
        self.crossing.is_waiting(worker)
    }

    /// Let a worker be woken for packets from now on; return false if some wait already.
    pub fn fall_asleep(&self, worker: WorkerId) -> bool {
        self.sleeper(worker).is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.is_waiting(worker)
    }

    /// It looks by itself again.
    pub fn get_up(&self, worker: WorkerId) {
        self.sleeper(worker).is_asleep.store(false, Ordering::Relaxed);
    }
}
