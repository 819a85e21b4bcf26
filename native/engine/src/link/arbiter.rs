//! Which virtual lane of a link sends next: two tables, and within each the bytes in proportion to weights.
//!
//! A lane that is idle or has no credits is skipped and accumulates no credit for later.
//! A lane that is in no table sends when no other can. Source and differences: hfi_sim/engine/link/arbiter.py.

use super::config::MAX_VLS;

/// What a lane of weight 1 is charged for a byte; the quotient by every weight from 1 to 16 is whole.
const SCALE: u64 = 720_720;
/// The tables, in their order; the first and the last are those of lanes that are in neither of the real ones.
const FIRST: usize = 0;
const HIGH: usize = 1;
const LOW: usize = 2;
const REST: usize = 3;
const TABLES: usize = 4;

/// How lanes share a wire; index: lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Weights in the low-priority table; 0: not in the table.
    pub low: [u32; MAX_VLS],
    /// Weights in the high-priority table; 0: not in the table.
    pub high: [u32; MAX_VLS],
    /// After so many bytes from the high table, one packet from the low table goes first, if any waits; None: never.
    pub high_limit_bytes: Option<u64>,
    /// A lane that goes before all others.
    pub first: Option<usize>,
}

/// The VL that sends, and the table that selected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub vl: usize,
    table: usize,
}

/// The arbiter of one direction of a link. Sets of VLs are bit masks.
#[derive(Debug)]
pub struct Arbiter {
    shares: Shares,
    /// The VLs in each table; the last is for those that are in none before it, and names all.
    members: [u16; TABLES],
    high_run: u64,
    /// Bytes times `SCALE` over weight, by table and VL: the VL with the least in its table sends next.
    served: [[u128; MAX_VLS]; TABLES],
    /// What the VL that was served last had, by table: one that wakes up begins there.
    level: [u128; TABLES],
}

impl Arbiter {
    /// Begin with nothing sent.
    pub fn new(shares: Shares) -> Self {
        let of = |weights: &[u32; MAX_VLS]| {
            let bit = |(vl, weight): (usize, &u32)| u16::from(*weight > 0) << vl;
            weights.iter().enumerate().map(bit).sum::<u16>()
        };
        let first = shares.first.map_or(0, |vl| 1 << vl);
        let (high, low) = (of(&shares.high) & !first, of(&shares.low) & !first);
        Arbiter {
            shares,
            members: [first, high, low, u16::MAX],
            high_run: 0,
            served: [[0; MAX_VLS]; TABLES],
            level: [0; TABLES],
        }
    }

    /// The rules by which it shares.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Note that a VL can send now and could not before.
    pub fn woke(&mut self, vl: usize) {
        for (served, level) in self.served.iter_mut().zip(self.level) {
            served[vl] = served[vl].max(level);
        }
    }

    /// Return which of these VLs, at least one, sends its next packet.
    pub fn choose(&self, ready: u16) -> Turn {
        let mut table = (FIRST..REST).find(|table| ready & self.members[*table] != 0).unwrap_or(REST);
        let is_over = || self.shares.high_limit_bytes.is_some_and(|limit| self.high_run > limit);
        if table == HIGH && ready & self.members[LOW] != 0 && is_over() {
            table = LOW;
        }
        let candidates = ready & self.members[table];
        let vls = (0..MAX_VLS).filter(|vl| candidates >> vl & 1 == 1);
        let vl = vls.min_by_key(|vl| self.served[table][*vl]).expect("one of them can send");
        Turn { vl, table }
    }

    /// Return the turn of the only VL that has packets to send.
    pub fn alone(&self, vl: usize) -> Turn {
        let table = (FIRST..REST).find(|table| self.members[*table] >> vl & 1 == 1).unwrap_or(REST);
        Turn { vl, table }
    }

    /// Note that a VL has sent `size` bytes.
    pub fn sent(&mut self, turn: Turn, size: u64) {
        let Turn { vl, table } = turn;
        if table != FIRST {
            self.high_run = if table == HIGH { self.high_run + size } else { 0 };
        }
        let weight = match table {
            HIGH => self.shares.high[vl],
            LOW => self.shares.low[vl],
            _ => 1,
        };
        self.level[table] = self.served[table][vl];
        self.served[table][vl] += u128::from(size * SCALE / u64::from(weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arbiter(low: &[u32], high: &[u32], high_limit_bytes: Option<u64>) -> Arbiter {
        let mut shares = Shares { high_limit_bytes, ..Shares::default() };
        shares.low[..low.len()].copy_from_slice(low);
        shares.high[..high.len()].copy_from_slice(high);
        Arbiter::new(shares)
    }

    fn sent_bytes(arbiter: &mut Arbiter, sizes: &[u64], packets: usize) -> Vec<u64> {
        let mut bytes = vec![0; sizes.len()];
        for _ in 0..packets {
            let turn = arbiter.choose((1 << sizes.len()) - 1);
            arbiter.sent(turn, sizes[turn.vl]);
            bytes[turn.vl] += sizes[turn.vl];
        }
        bytes
    }

    #[test]
    fn bytes_are_shared_by_weight_whatever_the_sizes() {
        for mut arbiter in [arbiter(&[1, 3], &[], None), arbiter(&[], &[1, 3], None)] {
            let bytes = sent_bytes(&mut arbiter, &[200, 1000], 8000);
            assert!((bytes[1] as f64 / bytes[0] as f64 - 3.0).abs() < 0.01, "{bytes:?}");
        }
    }

    #[test]
    fn high_priority_starves_the_others_unless_limited() {
        assert_eq!(sent_bytes(&mut arbiter(&[1, 0], &[0, 1], None), &[100, 100], 50), [0, 5000]);
        assert_eq!(sent_bytes(&mut arbiter(&[1, 0], &[0, 1], Some(399)), &[100, 100], 50), [1000, 4000]);
        assert_eq!(sent_bytes(&mut arbiter(&[1, 0], &[0, 1], Some(400)), &[100, 100], 60), [1000, 5000]);
    }

    #[test]
    fn limit_of_the_high_table_lets_the_low_one_send_only_where_it_can_and_the_first_lane_does_not() {
        let mut shares = Shares { first: Some(2), high_limit_bytes: Some(0), ..Shares::default() };
        (shares.low[0], shares.high[1]) = (1, 1);
        let mut arbiter = Arbiter::new(shares);
        arbiter.sent(arbiter.alone(1), 100);
        assert_eq!([0b010, 0b011, 0b111].map(|ready| arbiter.choose(ready).vl), [1, 0, 2]);
        arbiter.sent(arbiter.alone(2), 100);
        assert_eq!(arbiter.choose(0b011).vl, 0, "what the first lane sends ends no run of the high table");
    }

    #[test]
    fn lane_that_wakes_up_has_saved_nothing() {
        let mut arbiter = arbiter(&[1, 1], &[], None);
        for _ in 0..100 {
            arbiter.sent(arbiter.alone(0), 1000);
        }
        arbiter.woke(1);
        assert_eq!(arbiter.choose(0b11).vl, 1);
        arbiter.sent(arbiter.alone(1), 2000);
        assert_eq!(arbiter.choose(0b11).vl, 0);
    }

    #[test]
    fn lane_in_no_table_sends_when_no_other_can_and_the_first_before_all() {
        let mut shares = Shares { first: Some(3), ..Shares::default() };
        shares.high[0] = 1;
        shares.low[1] = 1;
        let mut arbiter = Arbiter::new(shares);
        for (ready, vl) in [(0b1111, 3), (0b0111, 0), (0b0110, 1), (0b0100, 2)] {
            let turn = arbiter.choose(ready);
            assert_eq!(turn.vl, vl);
            assert_eq!(arbiter.alone(vl), turn);
            arbiter.sent(turn, 100);
        }
    }

    #[test]
    fn lane_in_both_tables_gets_its_share_of_either() {
        // whenever VL 0 has had more than 99 bytes by the high table, the low one gives a turn to one of both
        assert_eq!(sent_bytes(&mut arbiter(&[1, 1], &[1, 0], Some(99)), &[100, 100], 100), [7500, 2500]);
    }
}
