//! Counters with the names and rules of the Python engine. They hold the counts since Python last collected them.

mod declared;

use std::ops::{Deref, DerefMut};

pub use declared::{DROP_NAMES, Drop, Element, Traffic, Vnic};

/// Packets by drop reason; a `Drop` is the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<const REASONS: usize>([u64; REASONS]);

impl<const REASONS: usize> Default for Tally<REASONS> {
    fn default() -> Self {
        Tally([0; REASONS])
    }
}

impl<const REASONS: usize> Deref for Tally<REASONS> {
    type Target = [u64; REASONS];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<const REASONS: usize> DerefMut for Tally<REASONS> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Element {
    #[inline]
    pub fn enter(&mut self, bytes: usize) {
        self.in_packets += 1;
        self.in_bytes += bytes as u64;
    }

    #[inline]
    pub fn leave(&mut self, bytes: usize) {
        self.out_packets += 1;
        self.out_bytes += bytes as u64;
    }

    /// Count so many packets of `bytes` each.
    #[inline]
    pub fn enter_many(&mut self, packets: u32, bytes: usize) {
        self.in_packets += u64::from(packets);
        self.in_bytes += u64::from(packets) * bytes as u64;
    }

    #[inline]
    pub fn leave_many(&mut self, packets: u32, bytes: usize) {
        self.out_packets += u64::from(packets);
        self.out_bytes += u64::from(packets) * bytes as u64;
    }

    #[inline]
    pub fn drop(&mut self, reason: Drop) {
        self.drop_many(1, reason);
    }

    #[inline]
    pub fn drop_many(&mut self, packets: u32, reason: Drop) {
        self.drops[reason as usize] += u64::from(packets);
    }

    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

impl Traffic {
    /// Count an attempt to send or deliver a packet with any outcome. `len` is the length without FCS.
    #[inline]
    pub fn attempt(&mut self, len: usize) {
        self.attempt_many(1, len);
    }

    /// The same of so many packets of this length.
    #[inline]
    pub fn attempt_many(&mut self, packets: u64, len: usize) {
        self.packets += packets;
        self.bytes += packets * (len as u64 + 4);
        let bin = match len {
            ..=60 => 0,
            61..=123 => 1,
            124..=251 => 2,
            252..=507 => 3,
            508..=1019 => 4,
            1020..=1514 => 5,
            _ => 6,
        };
        self.sizes[bin] += packets;
    }

    /// Count the kind of frame in a good packet.
    #[inline]
    pub fn kind(&mut self, multicast: bool, tagged: bool) {
        self.kind_many(1, multicast, tagged);
    }

    /// The same of so many packets.
    #[inline]
    pub fn kind_many(&mut self, packets: u64, multicast: bool, tagged: bool) {
        *(if multicast { &mut self.mcastbcast } else { &mut self.unicast }) += packets;
        *(if tagged { &mut self.vlan } else { &mut self.untagged }) += packets;
    }
}

/// Counters of one element, with the packets inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passing {
    pub element: Element,
    /// Packets inside now, on the wire or in a queue, less those at the time when this was last taken.
    pub in_flight: i64,
}

impl Passing {
    #[inline]
    pub fn enter(&mut self, bytes: usize) {
        self.element.enter(bytes);
        self.in_flight += 1;
    }

    #[inline]
    pub fn leave(&mut self, bytes: usize) {
        self.element.leave(bytes);
        self.in_flight -= 1;
    }

    #[inline]
    pub fn enter_many(&mut self, packets: u32, bytes: usize) {
        self.element.enter_many(packets, bytes);
        self.in_flight += i64::from(packets);
    }

    #[inline]
    pub fn leave_many(&mut self, packets: u32, bytes: usize) {
        self.element.leave_many(packets, bytes);
        self.in_flight -= i64::from(packets);
    }

    /// Count packets inside that end here.
    #[inline]
    pub fn lose(&mut self, packets: u32, reason: Drop) {
        self.element.drop_many(packets, reason);
        self.in_flight -= i64::from(packets);
    }
}
