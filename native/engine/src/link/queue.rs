//! The end of a direction without credits: a packet waits for the wire in a queue that has a limit, or is dropped.

use super::wire::Wire;
use crate::counters::Drop;

/// Packets that wait for the wire. They wait on it, in fact: their times are known as they enter.
#[derive(Debug)]
pub struct Queue {
    /// Bytes that may wait; what is left of the packet being sent counts.
    pub limit: u64,
}

impl Queue {
    /// Return why a packet cannot enter now. A free wire takes any.
    #[inline]
    pub fn refusal(&self, wire: &Wire, now: u64, size: u64) -> Option<Drop> {
        let backlog = wire.backlog(now);
        (backlog != 0 && backlog.saturating_add(size) > self.limit).then_some(Drop::LinkOverflow)
    }

    /// Whether so many bytes in several packets can surely enter from now on.
    pub fn has_room_for(&self, wire: &Wire, now: u64, bytes: u64) -> bool {
        wire.backlog(now).saturating_add(bytes) <= self.limit
    }
}
