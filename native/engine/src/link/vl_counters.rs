//! Counters of each virtual lane of one direction of a link: see hfi_sim/engine/link/vl_counters.py, which adds them up.
//!
//! Most directions have one VL, and its counters are those of the direction. Only those with more VLs, or whose port has an
//! SC to VL table, have one of these.

use std::ops::AddAssign;

use crate::counters::Drop;
use crate::packet::{becn, fecn};

/// One VL. For VL 0 only the time is used: its counts are the totals less those of the other VLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlCounters {
    /// Packets that have arrived.
    pub packets: u64,
    pub bytes: u64,
    /// Time with packets to send and none being sent, in nanoseconds.
    pub wait_ns: u64,
    /// Packets that were not sent.
    pub discards: u64,
    /// Those of them for which the queue was full.
    pub overflows: u64,
    /// Packets that have arrived with FECN, or with BECN.
    pub fecn: u64,
    pub becn: u64,
}

/// Counters of all VLs of a direction together that its other counters lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Packets longer than the MTU of their VL.
    pub too_long: u64,
    pub fecn: u64,
    pub becn: u64,
}

/// The counts of several workers are added.
impl AddAssign for VlCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.wait_ns += other.wait_ns;
        self.discards += other.discards;
        self.overflows += other.overflows;
        self.fecn += other.fecn;
        self.becn += other.becn;
    }
}

impl AddAssign for Uncounted {
    fn add_assign(&mut self, other: Self) {
        self.too_long += other.too_long;
        self.fecn += other.fecn;
        self.becn += other.becn;
    }
}

/// Counters of each VL. The lanes keep the times.
#[derive(Debug)]
pub struct VlTally(Vec<VlCounters>);

impl VlTally {
    pub fn new(vls: usize) -> Self {
        VlTally(vec![VlCounters::default(); vls])
    }

    /// Count so many VLs, if there are not as many.
    pub fn grow(&mut self, vls: usize) {
        self.0.resize(vls.max(self.0.len()), VlCounters::default());
    }

    /// Count a packet that has arrived.
    pub fn carried(&mut self, vl: u8, size: usize) {
        let counters = &mut self.0[usize::from(vl)];
        counters.packets += 1;
        counters.bytes += size as u64;
    }

    /// Count a packet that has arrived with FECN or BECN.
    #[cold]
    pub fn marked(&mut self, vl: u8, packet: &[u8]) {
        let counters = &mut self.0[usize::from(vl)];
        counters.fecn += u64::from(fecn(packet));
        counters.becn += u64::from(becn(packet));
    }

    /// Count a packet that was not sent, the VL modulo their number. None: it was too long.
    pub fn discarded(&mut self, vl: u8, drop: Option<Drop>) {
        let vls = self.0.len();
        let counters = &mut self.0[usize::from(vl) % vls];
        counters.discards += 1;
        counters.overflows += u64::from(drop == Some(Drop::LinkOverflow));
    }

    /// Return the counters, with the time that each VL has waited; `waits` may be empty.
    pub fn rows(&self, waits: &[u64]) -> Vec<VlCounters> {
        let mut rows = self.0.clone();
        for (row, wait_ns) in rows.iter_mut().zip(waits) {
            row.wait_ns = *wait_ns;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packets;

    #[test]
    fn counts_of_several_workers_add_up() {
        let of = |one: u64| VlCounters {
            packets: one,
            bytes: one + 1,
            wait_ns: one + 2,
            discards: one + 3,
            overflows: one + 4,
            fecn: one + 5,
            becn: one + 6,
        };
        let mut sum = of(10);
        sum += of(100);
        let VlCounters { packets, bytes, wait_ns, discards, overflows, fecn, becn } = sum;
        assert_eq!(
            [packets, bytes, wait_ns, discards, overflows, fecn, becn],
            [110, 112, 114, 116, 118, 120, 122]
        );
        let mut sum = Uncounted { too_long: 1, fecn: 2, becn: 3 };
        sum += Uncounted { too_long: 10, fecn: 20, becn: 30 };
        assert_eq!(sum, Uncounted { too_long: 11, fecn: 22, becn: 33 });
    }

    #[test]
    fn marks_count_on_the_vl_of_the_packet() {
        let (mut tally, mut packets) = (VlTally::new(2), Packets::default());
        let plain = packets.copy(&[0; 32]);
        let [fecn, becn] = [packets.with_fecn(plain.clone()), packets.with_becn(plain)];
        for packet in [&fecn, &becn, &fecn] {
            tally.marked(1, packet);
        }
        assert_eq!(
            tally.rows(&[]).iter().map(|row| (row.fecn, row.becn)).collect::<Vec<_>>(),
            [(0, 0), (2, 1)]
        );
    }

    #[test]
    fn discards_of_more_vls_than_there_are_count_on_those_that_they_share() {
        let mut tally = VlTally::new(2);
        for (vl, drop) in [(0, None), (3, Some(Drop::LinkDown)), (15, Some(Drop::LinkOverflow))] {
            tally.discarded(vl, drop);
        }
        tally.grow(1);
        let found: Vec<_> =
            tally.rows(&[7]).iter().map(|row| (row.discards, row.overflows, row.wait_ns)).collect();
        assert_eq!(found, [(1, 0, 7), (2, 1, 0)]);
    }
}
