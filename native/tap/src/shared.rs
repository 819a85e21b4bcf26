//! The workers of one fabric, which Python sees as one engine.
//!
//! Each worker has a carrier, which its thread locks for one burst at a time. Python takes the same locks: the lock of
//! one worker to send a packet there, all locks to change the fabric, so that no worker sees half a change.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::api::Engine;
use engine::outputs::{Output, PortId};
use engine::share::WorkerId;
use engine::vnics::Vnics;

use crate::carrier::Carrier;
use crate::clock::now;
use crate::departures::Departures;
use crate::neighbours::Neighbours;
use crate::{Poller, Signal};

/// The token of the wake signal among those of devices.
pub const WAKE: u64 = u64::MAX;
/// The deadline of a thread without one.
pub const NEVER: u64 = u64::MAX;
/// How long a caller handles the events that its packets cause, instead of waking a thread for them.
const SOON_NS: u64 = 20_000;

/// One worker.
pub struct Worker {
    carrier: Mutex<Carrier>,
    /// Callers waiting for the lock; the thread gives way to them.
    pub waiting: AtomicUsize,
    pub resumed: Condvar,
    /// The deadline that the thread waits for.
    pub awaited: AtomicU64,
    pub poller: Arc<Poller>,
    /// Whether its devices are not read because Python is behind.
    held: Arc<AtomicBool>,
}

impl Worker {
    fn new(
        number: WorkerId,
        (engine, vnics): (Engine, Vnics),
        neighbours: &Arc<Neighbours>,
        departures: &Arc<Departures>,
    ) -> std::io::Result<Self> {
        let (poller, held) = (Arc::new(Poller::new()?), Arc::<AtomicBool>::default());
        poller.add(neighbours.wake(number).fd(), WAKE)?;
        let carrier = Carrier::new(
            engine,
            vnics,
            number,
            Arc::clone(&poller),
            Arc::clone(neighbours),
            Arc::clone(departures),
            Arc::clone(&held),
        );
        Ok(Worker {
            carrier: Mutex::new(carrier),
            waiting: AtomicUsize::new(0),
            resumed: Condvar::new(),
            awaited: AtomicU64::new(NEVER),
            poller,
            held,
        })
    }

    /// Lock the carrier for its thread.
    pub fn lock(&self) -> MutexGuard<'_, Carrier> {
        self.carrier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Shared {
    pub workers: Vec<Worker>,
    pub neighbours: Arc<Neighbours>,
    /// The worker of each vport: the one that owns its port.
    homes: Mutex<Vec<WorkerId>>,
    pub stop: AtomicBool,
    /// Whether threads drive the carriers in real time. If not, callers drive them and give the time.
    pub runs: AtomicBool,
    /// Packets for other machines.
    pub departures: Arc<Departures>,
    /// Readable when there is something for Python: outputs, a lost device, the death of a thread.
    pub notice: Signal,
    failure: Mutex<Option<String>>,
}

impl Shared {
    /// Join the parts of all workers: engines with the same elements, VNICs with the same vports.
    pub fn new(parts: Vec<(Engine, Vnics)>) -> std::io::Result<Arc<Self>> {
        let neighbours = Arc::new(Neighbours::new(parts.len() as u32)?);
        let departures = Arc::<Departures>::default();
        let homes = vec![0; parts[0].1.vports.len()];
        let workers = parts
            .into_iter()
            .zip(0..)
            .map(|(part, number)| Worker::new(number, part, &neighbours, &departures));
        let shared = Shared {
            workers: workers.collect::<std::io::Result<_>>()?,
            neighbours,
            departures,
            homes: Mutex::new(homes),
            stop: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            notice: Signal::new()?,
            failure: Mutex::new(None),
        };
        shared.lock_all().settle_vports(0)?;
        Ok(Arc::new(shared))
    }

    // --- locks -----------------------------------------------------------------------------------------------

    /// Lock the carrier of a worker for a caller outside its thread.
    pub fn lock(&self, worker: WorkerId) -> MutexGuard<'_, Carrier> {
        let worker = &self.workers[worker as usize];
        worker.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = worker.lock();
        worker.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Lock all carriers.
    pub fn lock_all(&self) -> All<'_> {
        // all threads give way at once, so this takes no longer than the longest burst
        self.workers.iter().for_each(|worker| _ = worker.waiting.fetch_add(1, Ordering::AcqRel));
        let carriers = self.workers.iter().map(Worker::lock).collect();
        self.workers.iter().for_each(|worker| _ = worker.waiting.fetch_sub(1, Ordering::AcqRel));
        All { shared: self, carriers }
    }

    /// Lock the carrier of a vport.
    pub fn lock_home(&self, vport: usize) -> MutexGuard<'_, Carrier> {
        loop {
            let worker = self.home(vport);
            let carrier = self.lock(worker);
            if self.home(vport) == worker {
                return carrier;
            }
        }
    }

    fn homes(&self) -> MutexGuard<'_, Vec<WorkerId>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the worker of a vport; 0 if there is no such vport.
    pub fn home(&self, vport: usize) -> WorkerId {
        self.homes().get(vport).copied().unwrap_or(0)
    }

    /// Return the worker into whose engine packets of a port are injected.
    pub fn owner(&self, port: PortId) -> WorkerId {
        if self.workers.len() == 1 { 0 } else { self.lock(0).engine.owner(port) }
    }

    // --- what Python does ------------------------------------------------------------------------------------

    /// Run `action` on one worker at `given`, or now if threads run, and handle its results.
    pub fn input<R>(&self, worker: WorkerId, given: u64, action: impl FnOnce(&mut Carrier, u64) -> R) -> R {
        if !self.runs.load(Ordering::Acquire) {
            let mut action = Some(action);
            let does = |(number, carrier): (WorkerId, &mut Carrier), now| {
                let action = if number == worker { action.take() } else { None };
                action.map(|action| action(carrier, now))
            };
            let done = self.lock_all().input(given, does).into_iter().flatten().next();
            return done.expect("there is such a worker");
        }
        self.act(worker, action, |_, _| ())
    }

    /// The same for packets that are soon at their hosts: deliver and write them instead of waking the thread for them.
    pub fn carry<R>(&self, worker: WorkerId, given: u64, action: impl FnOnce(&mut Carrier, u64) -> R) -> R {
        if !self.runs.load(Ordering::Acquire) {
            return self.input(worker, given, action);
        }
        self.act(worker, action, |carrier, begun| {
            let mut time = begun;
            // if a device must be read, its thread is woken
            while !carrier.paused
                && !carrier.has_restarted()
                && let Some(due) = carrier.finish(time)
                && due <= begun + SOON_NS
            {
                while now() < due {
                    std::hint::spin_loop();
                }
                time = now();
                carrier.pass(time);
            }
        })
    }

    /// Run one function on a worker whose thread runs, and a second one before the thread is notified.
    fn act<R>(
        &self,
        worker: WorkerId,
        action: impl FnOnce(&mut Carrier, u64) -> R,
        then: impl FnOnce(&mut Carrier, u64),
    ) -> R {
        let mut carrier = self.lock(worker);
        let now = now();
        let had_outputs = !carrier.outbox.is_empty();
        carrier.pass(now);
        let result = action(&mut carrier, now);
        carrier.sort(now);
        then(&mut carrier, now);
        carrier.hand_over();
        self.tell(worker, &mut carrier, had_outputs);
        result
    }

    /// Run a function on each worker, at one time up to which all have handled their events; return the results.
    pub fn change<R>(&self, given: u64, mut action: impl FnMut(&mut Carrier, u64) -> R) -> Vec<R> {
        self.lock_all().input(given, |(_, carrier), now| action(carrier, now))
    }

    /// Query each worker, or add an element to each that has no events yet; return the result of the first.
    pub fn each<R>(&self, action: impl FnMut(&mut Carrier) -> R) -> R {
        let mut all = self.lock_all();
        let results: Vec<R> = all.iter_mut().map(action).collect();
        results.into_iter().next().expect("there is a worker")
    }

    /// Wake a thread that would sleep too long, and Python if it has new entries.
    fn tell(&self, worker: WorkerId, carrier: &mut Carrier, had_outputs: bool) {
        let awaited = &self.workers[worker as usize].awaited;
        if carrier.deadline().is_some_and(|due| due < awaited.load(Ordering::Acquire)) {
            self.neighbours.wake(worker).raise();
        }
        if !had_outputs && !carrier.outbox.is_empty() {
            self.notice.raise();
        }
        self.departures.tell();
    }

    /// Take the outputs for Python in the order of their times, up to the time that all workers have reached.
    pub fn take_outputs(&self) -> std::io::Result<VecDeque<Output>> {
        self.notice.clear();
        let numbers = 0..self.workers.len() as WorkerId;
        let taken: Vec<_> = numbers.clone().map(|worker| self.lock(worker).outbox.take()).collect();
        for (worker, number) in self.workers.iter().zip(numbers) {
            if worker.held.load(Ordering::SeqCst) {
                self.lock(number).release_held()?;
            }
        }
        Ok(merged(taken))
    }

    /// Return the next deadline, for a caller that drives the workers without threads.
    pub fn deadline(&self) -> Option<u64> {
        if self.runs.load(Ordering::Acquire) {
            return None;
        }
        let mut all = self.lock_all();
        let due = |carrier: &mut Carrier| {
            if carrier.outbox.is_empty() { carrier.deadline() } else { Some(0) }
        };
        all.iter_mut().filter_map(due).min()
    }

    /// Pause the threads between two bursts, with no packet in transit between workers, or resume them.
    pub fn pause(&self, paused: bool) {
        let mut all = self.lock_all();
        if paused {
            all.exchange();
        }
        all.iter_mut().for_each(|carrier| carrier.paused = paused);
        drop(all);
        self.workers.iter().for_each(|worker| worker.resumed.notify_all());
    }

    // --- the end ---------------------------------------------------------------------------------------------

    /// Stop all threads after their current bursts.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.pause(false);
        (0..self.workers.len() as WorkerId).for_each(|worker| self.neighbours.wake(worker).raise());
    }

    /// Why the first thread failed; None: all run.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Report that a thread has died, and end the others.
    pub fn fail(&self, reason: String) {
        self.runs.store(false, Ordering::Release);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.notice.raise();
        self.end();
    }
}

/// All carriers, locked: only the holder acts on them.
pub struct All<'a> {
    shared: &'a Shared,
    carriers: Vec<MutexGuard<'a, Carrier>>,
}

impl All<'_> {
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Carrier> {
        self.carriers.iter_mut().map(|guard| &mut **guard)
    }

    /// Return the carrier of a port.
    pub fn owner(&mut self, port: PortId) -> &mut Carrier {
        let worker = self.carriers[0].engine.owner(port);
        &mut self.carriers[worker as usize]
    }

    /// Return the carrier of a vport.
    pub fn home(&mut self, vport: usize) -> &mut Carrier {
        let worker = self.shared.home(vport);
        &mut self.carriers[worker as usize]
    }

    /// Whether the same worker has a vport and a port.
    pub fn is_with(&self, vport: usize, port: PortId) -> bool {
        self.shared.homes().get(vport) == Some(&self.carriers[0].engine.owner(port))
    }

    /// See `Shared::change`; each worker comes with its number.
    fn input<R>(&mut self, given: u64, mut action: impl FnMut((WorkerId, &mut Carrier), u64) -> R) -> Vec<R> {
        let runs = self.shared.runs.load(Ordering::Acquire);
        let now = self.now(given);
        let had_outputs: Vec<bool> = self.iter_mut().map(|carrier| !carrier.outbox.is_empty()).collect();
        self.catch_up(now);
        let results =
            self.iter_mut().zip(0..).map(|(carrier, number)| action((number, carrier), now)).collect();
        for carrier in self.iter_mut() {
            carrier.sort(now);
            if !runs {
                carrier.flush(now);
            }
        }
        self.exchange();
        for ((carrier, had_outputs), number) in self.carriers.iter_mut().zip(had_outputs).zip(0..) {
            self.shared.tell(number, carrier, had_outputs);
        }
        results
    }

    /// Now if threads run, else the given time.
    pub fn now(&self, given: u64) -> u64 {
        if self.shared.runs.load(Ordering::Acquire) { now() } else { given }
    }

    /// Handle all events due by then, in the order of their times across all workers.
    fn catch_up(&mut self, now: u64) {
        self.exchange();
        let next = |carrier: &mut Carrier| carrier.engine.next_event();
        while let Some(next) = self.iter_mut().filter_map(next).min().filter(|next| *next <= now) {
            // a single worker gets nothing from others
            let until = if self.carriers.len() == 1 { now } else { next };
            for carrier in self.iter_mut() {
                carrier.advance(until);
            }
            self.exchange();
        }
    }

    /// Deliver all packets in transit between workers.
    fn exchange(&mut self) {
        self.iter_mut().for_each(Carrier::hand_over);
        self.iter_mut().for_each(Carrier::receive);
    }

    /// Take a vport into use in all workers, under one number; return it.
    pub fn add_vport(&mut self) -> usize {
        let index = self.iter_mut().map(|carrier| carrier.vnics.add()).max().expect("there is a worker");
        let mut homes = self.shared.homes();
        let known = homes.len().max(index + 1);
        homes.resize(known, 0);
        homes[index] = 0;
        index
    }

    /// Move each vport to the worker of its port.
    pub fn settle_vports(&mut self, now: u64) -> std::io::Result<()> {
        let vports = self.shared.homes().len();
        (0..vports).try_for_each(|vport| self.settle_vport(now, vport))
    }

    /// Move a vport to the worker of its port.
    pub fn settle_vport(&mut self, now: u64, vport: usize) -> std::io::Result<()> {
        let Some(slot) = self.home(vport).vnics.get(vport) else { return Ok(()) };
        let Some(port) = slot.port else { return Ok(()) };
        let to = self.carriers[0].engine.owner(port);
        let from = std::mem::replace(&mut self.shared.homes()[vport], to);
        if from == to {
            return Ok(());
        }
        let [from, to] = self
            .carriers
            .get_disjoint_mut([from as usize, to as usize])
            .expect("these are two of the workers");
        from.give_vport(now, vport, to)
    }
}

/// When an output happened.
fn time_of(output: &Output) -> u64 {
    match output {
        Output::Delivered { time, .. }
        | Output::Observed { time, .. }
        | Output::FlowChanged { time, .. }
        | Output::RuleSpent { time, .. }
        | Output::Departed { time, .. } => *time,
    }
}

/// Merge outputs of several workers by time; outputs of one worker stay in order.
fn merged(mut taken: Vec<VecDeque<Output>>) -> VecDeque<Output> {
    if taken.len() == 1 {
        return taken.remove(0);
    }
    let mut merged = VecDeque::with_capacity(taken.iter().map(VecDeque::len).sum());
    let first = |list: &VecDeque<Output>| list.front().map(time_of);
    let mut firsts: BinaryHeap<_> =
        taken.iter().enumerate().filter_map(|(from, list)| Some(Reverse((first(list)?, from)))).collect();
    while let Some(Reverse((_, from))) = firsts.pop() {
        merged.extend(taken[from].pop_front());
        firsts.extend(first(&taken[from]).map(|time| Reverse((time, from))));
    }
    merged
}
