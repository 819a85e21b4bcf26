//! One worker's share of a fabric, and the packets that it hands over to others: see docs/explanation/engine.md.
//!
//! Each worker has an engine of its own, with all elements under the same numbers, that gets all changes. A direction
//! has one owner: packets enter it in the owner's engine only. Owners follow from the order in which elements were
//! added, so all engines agree on them without communication.

use crate::burst::{Burst, BurstQueue, Queued};
use crate::config::End;
use crate::events::{Event, Events, Place};
use crate::outputs::{DirectionId, PortId};

/// The number of a worker, from 0.
pub type WorkerId = u32;

/// Bytes that may wait to be handed over, by all workers to one; a further packet is a link_overflow.
pub const HANDOVER_BYTES: usize = 32 << 20;

/// Packets that are to enter a direction of another worker.
#[derive(Debug)]
pub struct Handover {
    pub direction: DirectionId,
    pub burst: Burst,
    /// When the first packet is to enter.
    pub time: u64,
    /// When each further packet is to enter; a burst of one has none, and allocates nothing.
    pub later: Box<[u64]>,
}

impl Handover {
    /// Its share of the limit, with a minimum for small packets.
    #[inline]
    pub fn size(&self) -> usize {
        size_of_bytes(self.burst.bytes())
    }
}

/// The share of the limit of so many bytes that are handed over together.
fn size_of_bytes(bytes: usize) -> usize {
    bytes + size_of::<Handover>()
}

/// Packets that wait for one other worker, in order.
#[derive(Debug)]
pub struct Outbox {
    pub packets: Vec<Handover>,
    /// Their share of the limit.
    pub bytes: usize,
    limit: usize,
}

impl Outbox {
    /// Make an empty one for a worker of so many.
    pub fn new(workers: u32) -> Self {
        Outbox { packets: Vec::new(), bytes: 0, limit: HANDOVER_BYTES / workers as usize }
    }

    /// Take all packets.
    pub fn take(&mut self) -> Vec<Handover> {
        self.bytes = 0;
        std::mem::take(&mut self.packets)
    }

    /// Move all behind those that wait already and take up `bytes`; return what all take up then, and what finds no room.
    pub fn move_behind(&mut self, waiting: &mut Vec<Handover>, mut bytes: usize) -> (usize, Vec<Handover>) {
        let mut refused = Vec::new();
        self.bytes = 0;
        for handover in self.packets.drain(..) {
            let with_it = bytes + handover.size();
            if with_it > self.limit {
                refused.push(handover);
            } else {
                bytes = with_it;
                waiting.push(handover);
            }
        }
        (bytes, refused)
    }

    /// Whether a burst of so many bytes finds room.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.bytes + size_of_bytes(bytes as usize) <= self.limit
    }

    /// Add packets; a burst that finds no room is returned.
    #[inline]
    pub fn push(&mut self, handover: Handover) -> Result<(), Handover> {
        let bytes = self.bytes + handover.size();
        if bytes > self.limit {
            return Err(handover);
        }
        self.bytes = bytes;
        self.packets.push(handover);
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Share {
    pub worker: WorkerId,
    pub outboxes: Vec<Outbox>,
    /// By the worker that handed them over: packets that enter in its order, with the direction of each. As on a wire,
    /// only the first packet has an event in the queue.
    pub inboxes: Vec<BurstQueue<DirectionId>>,
    /// The owner of each port.
    ports: Vec<WorkerId>,
    /// The number of ports that have been assigned to workers.
    spread: u32,
    /// The number of consecutive ports of one worker.
    row: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share::new(0, 1)
    }
}

impl Share {
    pub fn new(worker: WorkerId, workers: u32) -> Self {
        assert!(worker < workers, "there is no worker {worker} of {workers}");
        Share {
            worker,
            outboxes: (0..workers).map(|_| Outbox::new(workers)).collect(),
            inboxes: (0..workers).map(|_| BurstQueue::default()).collect(),
            ports: Vec::new(),
            spread: 0,
            row: 1,
        }
    }

    /// Give so many HFI ports in a row to one worker: hosts have that many, and one of them carries the traffic.
    pub fn in_rows_of(mut self, ports: u32) -> Self {
        self.row = ports.max(1);
        self
    }

    pub fn workers(&self) -> u32 {
        self.outboxes.len() as u32
    }

    pub fn is_alone(&self) -> bool {
        self.outboxes.len() == 1
    }

    pub fn add_port(&mut self) {
        self.ports.push(self.spread / self.row % self.workers());
        self.spread += 1;
    }

    /// Add port 0 of a switch: worker 0 has it, because it has all credits.
    ///
    /// What port 0 sends is handed over where it enters a direction. It receives in the engine that carried the packet to
    /// the switch, so that is where its output is; only those of worker 0 have room to release.
    pub fn add_port0(&mut self) {
        self.ports.push(0);
    }

    /// Return the owner of a port, once it has its cable: it sends in that engine, and releases room there.
    pub fn owner(&self, port: PortId) -> WorkerId {
        self.ports[port as usize]
    }

    /// Lay a cable: return the owners of both its directions. `has_credits`: in one direction at least.
    ///
    /// Credits run back through switches, in one order with the packets: worker 0 has all links with credits and the
    /// ports at their ends. Of others, the ports are spread, with what leads to and from them, and what is between
    /// switches.
    pub fn lay(&mut self, ends: [End; 2], first: DirectionId, has_credits: bool) -> [WorkerId; 2] {
        if has_credits {
            for end in ends {
                if let End::Hfi(port) = end {
                    self.ports[port as usize] = 0;
                }
            }
            return [0, 0];
        }
        [(ends[0], ends[1]), (ends[1], ends[0])].map(|way| match way {
            (_, End::Hfi(port)) | (End::Hfi(port), _) => self.owner(port),
            _ => first / 2 % self.workers(),
        })
    }

    /// Take in packets that another worker has handed over. Those of one worker enter in its order.
    pub fn take_in(&mut self, events: &mut Events, from: WorkerId, handover: Handover) {
        let Handover { direction, burst, time, later } = handover;
        let number = events.numbers(u64::from(burst.count()));
        let inbox = &mut self.inboxes[from as usize];
        if inbox.is_empty() {
            events.push(time, number, Event::HandedOver(from), Place::Inside);
        }
        inbox.push(Queued { time, number, fact: direction, burst });
        inbox.extend(later.iter().map(|time| (*time, direction)));
    }
}
