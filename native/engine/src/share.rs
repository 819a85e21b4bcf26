//! One worker's share of a fabric, and the packets that it hands over to others: see docs/engine.md.
//!
//! Each worker has an engine of its own, with all elements under the same numbers, that gets all changes. A direction
//! has one owner: packets enter it in the owner's engine only. Owners follow from the order in which elements were
//! added, so all engines agree on them without communication.

use std::collections::VecDeque;

use crate::config::End;
use crate::events::{Event, Events, Place};
use crate::outputs::{DirectionId, PortId};
use crate::packet::{Packet, Packets, Train};

/// The number of a worker, from 0.
pub type WorkerId = u32;

/// Bytes that may wait to be handed over, by all workers to one; a further packet is a link_overflow.
pub const HANDOVER_BYTES: usize = 32 << 20;

/// A packet that is to enter a direction of another worker, or several of a train.
#[derive(Debug)]
pub struct Handover {
    /// That of the first.
    pub time: u64,
    pub packet: Packet,
    pub direction: DirectionId,
    /// Switches that it has visited.
    pub hops: u32,
    /// Which packets of a train; None: the packet is none.
    pub train: Option<Box<Together>>,
}

/// Packets of a train that are handed over together.
#[derive(Debug)]
pub struct Together {
    /// The first, counted from 0.
    pub from: u32,
    /// When each is to enter.
    pub times: VecDeque<u64>,
}

impl Together {
    /// How many enter before this time and number, and not after `latest`; the first has `number` and does.
    #[inline]
    pub fn run(&self, number: u64, before: (u64, u64), latest: u64) -> u32 {
        let is_in = |(time, number): &(&u64, u64)| **time <= latest && (**time, *number) < before;
        1 + self.times.iter().zip(number..).skip(1).take_while(is_in).count() as u32
    }
}

impl Handover {
    /// How many packets it is.
    #[inline]
    pub fn count(&self) -> usize {
        self.train.as_ref().map_or(1, |train| train.times.len())
    }

    /// Its share of the limit, with a minimum for small packets.
    #[inline]
    pub fn size(&self) -> usize {
        size_of_bytes(self.count() * self.packet.len())
    }
}

/// What so many bytes that are handed over together take up of the limit.
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

    /// Whether so many bytes of a train find room together.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.bytes + size_of_bytes(bytes as usize) <= self.limit
    }

    /// Add a packet, or several of a train; what finds no room is returned.
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
    /// By the worker that they came from: packets that enter in its order, with their sequence numbers. As on a wire,
    /// only the first is in the queue of events.
    inboxes: Vec<VecDeque<(u64, Handover)>>,
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
            inboxes: (0..workers).map(|_| VecDeque::new()).collect(),
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

    /// Lay a cable: return the owners of both its directions.
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

    /// Take in a packet that another worker has handed over. Those of one worker enter in its order.
    pub fn take_in(&mut self, events: &mut Events, from: WorkerId, handover: Handover) {
        let number = events.numbers(handover.count() as u64);
        let inbox = &mut self.inboxes[from as usize];
        if inbox.is_empty() {
            events.push(handover.time, number, Event::HandedOver(from), Place::Inside);
        }
        inbox.push_back((number, handover));
    }

    /// What a worker has handed over and is first, and under which number.
    #[inline]
    pub fn first_in(&self, from: WorkerId) -> Option<(&Handover, u64)> {
        self.inboxes[from as usize].front().map(|(number, first)| (first, *number))
    }

    /// Take the packet whose event is due, and say when the next one is, under which number. One of a train stands for
    /// itself from now on.
    #[inline]
    pub fn next_in(
        &mut self,
        from: WorkerId,
        packets: &mut Packets,
    ) -> Option<(Handover, Option<(u64, u64)>)> {
        if self.first_in(from)?.0.train.is_some() {
            let (direction, time) = (self.first_in(from)?.0.direction, self.first_in(from)?.0.time);
            let (Train { packet, from, hops, .. }, next) = self.next_train_in(from, 1, &mut Vec::new())?;
            let single = packets.single(&packet, from);
            packets.recycle(packet);
            return Some((Handover { time, packet: single, direction, hops, train: None }, next));
        }
        let inbox = &mut self.inboxes[from as usize];
        let (_, first) = inbox.pop_front()?;
        Some((first, inbox.front().map(|(number, next)| (next.time, *number))))
    }

    /// Take the first packets of the train that is first, add their times to `times`, and say when the next packet is
    /// due, under which number.
    pub fn next_train_in(
        &mut self,
        from: WorkerId,
        count: u32,
        times: &mut Vec<u64>,
    ) -> Option<(Train, Option<(u64, u64)>)> {
        let inbox = &mut self.inboxes[from as usize];
        let (number, first) = inbox.front_mut()?;
        let together = first.train.as_mut()?;
        times.extend(together.times.drain(..count as usize));
        let train = Train { packet: first.packet.clone(), from: together.from, count, hops: first.hops };
        match together.times.front() {
            Some(time) => {
                first.time = *time;
                together.from += count;
                *number += u64::from(count);
            }
            None => _ = inbox.pop_front(),
        }
        Some((train, inbox.front().map(|(number, next)| (next.time, *number))))
    }
}
