//! Counters of each virtual lane of one direction of a link: see hfi_sim/link/vl_counters.py, which adds them up.
//!
//! Most directions have one VL, and its counters are those of the direction. Only those with more VLs, or whose port has an
//! SC to VL table, have one of these.

use std::ops::AddAssign;

/// One VL. What is here of VL 0 nobody looks at, but for the time: it has all that the others have not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlCounters {
    /// Packets that have arrived.
    pub packets: u64,
    pub bytes: u64,
    /// How long it had packets to send and sent none, in nanoseconds.
    pub wait_ns: u64,
    /// Packets that were not sent.
    pub discards: u64,
}

/// What several workers have counted adds up.
impl AddAssign for VlCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.wait_ns += other.wait_ns;
        self.discards += other.discards;
    }
}

/// What is counted for each VL as it happens; times are with the lanes.
#[derive(Debug)]
pub struct VlTally(Vec<VlCounters>);

impl VlTally {
    pub fn new(vls: usize) -> Self {
        VlTally(vec![VlCounters::default(); vls])
    }

    /// Count a packet that has arrived.
    pub fn carried(&mut self, vl: u8, size: usize) {
        let counters = &mut self.0[usize::from(vl)];
        counters.packets += 1;
        counters.bytes += size as u64;
    }

    /// Count a packet that was not sent; the VL modulo their number.
    pub fn discarded(&mut self, vl: u8) {
        let vls = self.0.len();
        self.0[usize::from(vl) % vls].discards += 1;
    }

    /// Return what was counted, with the time that each VL has waited; there may be no times.
    pub fn rows(&self, waits: &[u64]) -> Vec<VlCounters> {
        let mut rows = self.0.clone();
        for (row, wait_ns) in rows.iter_mut().zip(waits) {
            row.wait_ns = *wait_ns;
        }
        rows
    }
}
