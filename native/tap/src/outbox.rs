//! The bounded queue for Python: packets for its programs, observed packets, stops of ports, used-up faults.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::api::Engine;
use engine::counters::Drop;
use engine::outputs::{Output, PortId};

/// While this many entries wait, no device is read: frames wait in the queues of the hosts, as before any slow link.
pub const ENOUGH: usize = 512;
/// The most entries that wait. Packets in transit can still exceed the first limit when devices are held.
const MOST: usize = 8192;

/// The queue of one worker. The limits apply to all workers together.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<Output>,
    /// The number of entries of all workers.
    backlog: Arc<AtomicUsize>,
    /// Ports whose state has changed. Python queries the state, so one notice for several changes is enough.
    flows: HashSet<PortId>,
    /// Observed packets that were not reported because the queue was full.
    pub missed: u64,
}

impl Outbox {
    /// Make an empty queue that shares its count with other workers.
    pub fn new(backlog: Arc<AtomicUsize>) -> Self {
        Outbox { backlog, ..Outbox::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether Python is behind.
    pub fn has_enough(&self) -> bool {
        self.backlog.load(Ordering::SeqCst) >= ENOUGH
    }

    /// Queue an output for Python. If the queue is full, a packet is dropped at its HFI port.
    pub fn push(&mut self, engine: &mut Engine, now: u64, output: Output) {
        let is_full = self.backlog.load(Ordering::Relaxed) >= MOST;
        match &output {
            Output::Delivered { port, burst, token, .. } if is_full => {
                engine.account(*port, burst.count(), burst.packet.len(), Some(Drop::RxOverflow));
                if let Some(token) = token {
                    engine.release(now, *token);
                }
            }
            Output::Observed { .. } if is_full => self.missed += 1,
            Output::FlowChanged { port, .. } if !self.flows.insert(*port) => {}
            _ => self.keep(output),
        }
    }

    fn keep(&mut self, output: Output) {
        self.backlog.fetch_add(1, Ordering::Relaxed);
        self.waiting.push_back(output);
    }

    /// Take all entries.
    pub fn take(&mut self) -> VecDeque<Output> {
        self.flows.clear();
        self.backlog.fetch_sub(self.waiting.len(), Ordering::SeqCst);
        std::mem::take(&mut self.waiting)
    }
}
