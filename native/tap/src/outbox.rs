//! What waits for Python: packets for its programs, sightings, stops of ports, faults that are spent. It is bounded.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::api::Engine;
use engine::counters::Drop;
use engine::outputs::{Output, PortId};

/// While this many wait, no device is read. The queues of the hosts fill up, as they do in front of any slow link.
pub const ENOUGH: usize = 512;
/// The most that wait; what is on its way when devices are left alone may be more.
const MOST: usize = 8192;

/// That of one worker. The bounds are of all together.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<Output>,
    /// How many wait in all.
    backlog: Arc<AtomicUsize>,
    /// Ports that Python is to look at: it asks for their state, so one notice of several will do.
    flows: HashSet<PortId>,
    /// Sightings that found no room.
    pub missed: u64,
}

impl Outbox {
    /// Make an empty one that counts with others.
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

    /// Keep an output for Python. A packet that finds no room is dropped at its HFI port.
    pub fn push(&mut self, engine: &mut Engine, now: u64, output: Output) {
        let is_full = self.backlog.load(Ordering::Relaxed) >= MOST;
        match &output {
            Output::Delivered { port, packet, token, .. } if is_full => {
                engine.account(*port, packet.len(), Some(Drop::RxOverflow));
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

    /// Take all that waits.
    pub fn take(&mut self) -> VecDeque<Output> {
        self.flows.clear();
        self.backlog.fetch_sub(self.waiting.len(), Ordering::SeqCst);
        std::mem::take(&mut self.waiting)
    }
}
