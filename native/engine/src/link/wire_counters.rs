//! What one direction of a link counts beside packets and bytes: multicast, congestion marks, and errors of its wire. See
//! hfi_sim/engine/link/vl_counters.py.

use std::ops::AddAssign;

use wire::is_multicast;

use crate::burst::Burst;
use crate::packet::{becn, dlid, fecn};

/// Errors count as recent for one to two of these.
const WINDOW_NS: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Packets that have arrived and are for a group.
    pub multicast: u64,
    /// Packets that have arrived with FECN, or with BECN.
    pub fecn: u64,
    pub becn: u64,
    /// Packets that faults have damaged or lost on the wire.
    pub errors: u64,
    /// Those of the last 10 to 20 s.
    pub recent_errors: u64,
}

/// What several workers have counted adds up.
impl AddAssign for WireCounters {
    fn add_assign(&mut self, other: Self) {
        self.multicast += other.multicast;
        self.fecn += other.fecn;
        self.becn += other.becn;
        self.errors += other.errors;
        self.recent_errors += other.recent_errors;
    }
}

/// What is counted as it happens.
#[derive(Debug, Default)]
pub struct WireTally {
    pub multicast: u64,
    pub fecn: u64,
    pub becn: u64,
    errors: u64,
    /// The number of the window in which the last error was, and the errors in it and in the one before.
    window: u64,
    latest: u64,
    before: u64,
}

/// Whether a packet bears FECN or BECN.
#[inline]
pub fn is_marked(packet: &[u8]) -> bool {
    fecn(packet) || becn(packet)
}

impl WireTally {
    /// Count packets that have arrived, if they are multicast or marked.
    #[inline]
    pub fn carried(&mut self, burst: &Burst) {
        if burst.has_fecn_aside() || is_marked(&burst.packet) || is_multicast(dlid(&burst.packet)) {
            self.note(burst);
        }
    }

    #[cold]
    fn note(&mut self, burst: &Burst) {
        let (packet, count) = (&burst.packet, u64::from(burst.count()));
        let counted = |is_so: bool| if is_so { count } else { 0 };
        self.multicast += counted(is_multicast(dlid(packet)));
        self.fecn += counted(burst.has_fecn_aside() || fecn(packet));
        self.becn += counted(becn(packet));
    }

    /// Count an error of the wire.
    #[cold]
    pub fn failed(&mut self, now: u64) {
        self.errors += 1;
        self.turn(now);
        self.latest += 1;
    }

    /// Move on to the window of `now`.
    fn turn(&mut self, now: u64) {
        let window = now / WINDOW_NS;
        if window > self.window {
            self.before = if window == self.window + 1 { self.latest } else { 0 };
            self.latest = 0;
            self.window = window;
        }
    }

    /// Return what was counted.
    pub fn counters(&mut self, now: u64) -> WireCounters {
        self.turn(now);
        let WireTally { multicast, fecn, becn, errors, latest, before, .. } = *self;
        WireCounters { multicast, fecn, becn, errors, recent_errors: latest + before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_workers_add_up() {
        let mut sum = WireCounters { multicast: 1, fecn: 2, becn: 3, errors: 4, recent_errors: 5 };
        sum += WireCounters { multicast: 10, fecn: 20, becn: 30, errors: 40, recent_errors: 50 };
        let expected = WireCounters { multicast: 11, fecn: 22, becn: 33, errors: 44, recent_errors: 55 };
        assert_eq!(sum, expected);
    }

    #[test]
    fn errors_are_recent_in_their_window_and_the_next() {
        let mut tally = WireTally::default();
        for now in [0, WINDOW_NS - 1, WINDOW_NS] {
            tally.failed(now);
        }
        let mut at = |now: u64| {
            let WireCounters { errors, recent_errors, .. } = tally.counters(now);
            (errors, recent_errors)
        };
        assert_eq!([2 * WINDOW_NS - 1, 2 * WINDOW_NS].map(&mut at), [(3, 3), (3, 1)]);
        assert_eq!([3 * WINDOW_NS - 1, 3 * WINDOW_NS].map(&mut at), [(3, 1), (3, 0)]);
        tally.failed(5 * WINDOW_NS);
        assert_eq!(tally.counters(8 * WINDOW_NS).recent_errors, 0, "windows without errors have passed");
    }
}
