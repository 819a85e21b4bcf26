//! What the pipeline counts.

use engine::counters::Tally;
use engine::hash::FastMap;

use crate::drops::{DROP_NAMES, Drop};

const DROPS: usize = DROP_NAMES.len();

/// Instances that a destination filter can name (3 bits).
pub const LBS: usize = 8;

/// Packets of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lb {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    /// By header version, from 1.
    pub by_version: [u64; 3],
    /// None while no packet with a tick has come.
    pub last_tick: Option<u64>,
    /// The largest one up to `furthest`.
    pub max_tick: u64,
    /// The furthest tick that the control plane accepts; None: any. It is kept when the counts are taken.
    pub furthest: Option<u64>,
    /// Packets with a tick beyond it.
    pub ahead: u64,
    pub drops: Tally<DROPS>,
}

impl Lb {
    #[inline]
    pub fn tick(&mut self, version: u8, tick: u64) {
        self.by_version[usize::from(version - 1)] += 1;
        self.last_tick = Some(tick);
        if self.furthest.is_some_and(|furthest| tick > furthest) {
            self.ahead += 1;
        } else {
            self.max_tick = self.max_tick.max(tick);
        }
    }

    fn add(&mut self, other: &Lb) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        add_all(&mut self.by_version, &other.by_version);
        self.last_tick = other.last_tick.or(self.last_tick);
        self.max_tick = self.max_tick.max(other.max_tick);
        self.ahead += other.ahead;
        add_all(&mut *self.drops, &*other.drops);
    }
}

fn add_all(to: &mut [u64], counts: &[u64]) {
    to.iter_mut().zip(counts).for_each(|(to, count)| *to += count);
}

/// Packets of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// Dropped, because it is said to have been evicted or deregistered.
    pub soft_evicted: u64,
    pub deregistered: u64,
}

/// Everything counted since the last harvest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub drops: Tally<DROPS>,
    pub lbs: [Lb; LBS],
    /// By member number.
    pub members: FastMap<u32, MemberCounts>,
}

impl Counters {
    #[inline]
    pub fn enter(&mut self, len: usize) {
        self.rx_packets += 1;
        self.rx_bytes += len as u64;
    }

    #[inline]
    pub fn drop(&mut self, reason: Drop, lb: Option<usize>) {
        self.drops[reason as usize] += 1;
        if let Some(lb) = lb {
            self.lbs[lb].drops[reason as usize] += 1;
        }
    }

    #[inline]
    pub fn sent(&mut self, member: u16, len: usize) {
        self.tx_packets += 1;
        self.tx_bytes += len as u64;
        let counts = self.member(member);
        counts.tx_packets += 1;
        counts.tx_bytes += len as u64;
    }

    #[inline]
    pub fn member(&mut self, member: u16) -> &mut MemberCounts {
        self.members.entry(u32::from(member)).or_default()
    }

    /// Take what was counted; which ticks are believed stays.
    pub fn take(&mut self) -> Counters {
        let taken = std::mem::take(self);
        for (lb, before) in self.lbs.iter_mut().zip(&taken.lbs) {
            lb.furthest = before.furthest;
        }
        taken
    }

    /// Add what another worker counted.
    pub fn add(&mut self, other: &Counters) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        add_all(&mut *self.drops, &*other.drops);
        self.lbs.iter_mut().zip(&other.lbs).for_each(|(lb, other)| lb.add(other));
        for (member, counts) in &other.members {
            let mine = self.members.entry(*member).or_default();
            mine.tx_packets += counts.tx_packets;
            mine.tx_bytes += counts.tx_bytes;
            mine.soft_evicted += counts.soft_evicted;
            mine.deregistered += counts.deregistered;
        }
    }

    /// Frames received but counted nowhere: anything but 0 is a bug.
    pub fn balance(&self) -> i64 {
        self.rx_packets as i64 - self.tx_packets as i64 - self.drops.iter().sum::<u64>() as i64
    }
}
