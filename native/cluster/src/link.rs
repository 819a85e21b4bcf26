//! A link to another machine, and what has gone over it.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::outputs::DirectionId;

/// A link to another machine.
pub struct Link {
    /// The direction that goes there.
    pub leaves: DirectionId,
    /// The direction that comes from there.
    pub arrives: DirectionId,
    pub sent: AtomicU64,
    pub reported: AtomicU64,
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
}

/// Packets of a link, since the other machine's process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    pub sent: u64,
    /// Those of them that the other machine has taken in, as far as it has said so.
    pub reported: u64,
    pub received: u64,
    /// Bytes of those received.
    pub received_bytes: u64,
}

impl Link {
    pub fn new(leaves: DirectionId, arrives: DirectionId) -> Self {
        let [sent, reported, received, received_bytes] = [0; 4].map(AtomicU64::new);
        Link { leaves, arrives, sent, reported, received, received_bytes }
    }

    /// All of its counters.
    pub fn counts(&self) -> [&AtomicU64; 4] {
        [&self.sent, &self.reported, &self.received, &self.received_bytes]
    }

    pub fn crossed(&self) -> Crossed {
        let [sent, reported, received, received_bytes] = self.counts().map(|one| one.load(Ordering::Acquire));
        Crossed { sent, reported, received, received_bytes }
    }
}
