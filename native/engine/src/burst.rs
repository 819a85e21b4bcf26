//! What travels through a fabric: a burst, one or more packets that share their header, their length and their way.
//!
//! A host's large send becomes one buffer with up to some 45 packets that differ in nothing a switch looks at. As long as
//! nothing on their way needs them one by one they stay in that buffer: one entry on a wire, one lookup in each table,
//! one output. Each packet still has its own bytes, ICRC, time and sequence number, and results, times and order are
//! those of the packets one by one. See docs/explanation/engine.md.

use std::collections::VecDeque;
use std::ops::Range;

use wire::put_icrc;

use crate::packet::{Packet, Packets};

/// One or more packets in a row of one buffer, between two elements.
///
/// It is two words, which travel in registers: copies through memory at each step would cost a third of the speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The buffer; its header is that of each of its packets.
    pub packet: Packet,
    /// Bits 0 to 15: how many packets these are; 16 to 29: the first of them, counted from 0; 30 and 31: `SEVERAL` and `FECN`;
    /// 32 to 63: switches that they have visited.
    facts: u64,
}

/// The buffer holds several packets.
const SEVERAL: u64 = 1 << 30;
/// These packets bear FECN, which the buffer does not show because other packets in it bear none.
const FECN: u64 = 1 << 31;
const FROM_BIT: u32 = 16;
const HOPS_BIT: u32 = 32;
/// The most packets of a buffer.
pub const MOST_PACKETS: usize = 1 << 12;

impl Burst {
    /// Return all packets of a buffer, after `hops` switches.
    #[inline]
    pub fn of(packet: Packet, hops: u32) -> Self {
        let count = packet.count();
        let several = if count > 1 { SEVERAL } else { 0 };
        Burst { packet, facts: u64::from(hops) << HOPS_BIT | several | u64::from(count) }
    }

    /// Switches that these packets have visited.
    #[inline]
    pub fn hops(&self) -> u32 {
        (self.facts >> HOPS_BIT) as u32
    }

    /// Count one more switch.
    #[inline]
    pub fn visit_switch(&mut self) {
        self.facts = self.facts.checked_add(1 << HOPS_BIT).unwrap_or(self.facts);
    }

    /// The first of these packets in the buffer, counted from 0.
    #[inline]
    fn from(&self) -> u32 {
        self.facts as u32 >> FROM_BIT & 0x3fff
    }

    /// How many packets these are.
    #[inline]
    pub fn count(&self) -> u32 {
        u32::from(self.facts as u16)
    }

    /// Whether their buffer holds several packets, these or others.
    #[inline]
    pub fn is_of_several(&self) -> bool {
        self.facts & SEVERAL != 0
    }

    /// Bytes of all packets.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.packet.len() * self.count() as usize
    }

    /// The places of these packets in the buffer.
    #[inline]
    pub fn indices(&self) -> Range<u32> {
        self.from()..self.from() + self.count()
    }

    /// Where the first packet begins in the buffer.
    #[inline]
    pub fn first_at(&self) -> usize {
        self.packet.offset(self.from())
    }

    /// The bytes of each packet.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.indices().map(|index| self.packet.nth(index))
    }

    /// Whether they bear FECN that the buffer does not show.
    #[inline]
    pub fn has_fecn_aside(&self) -> bool {
        self.facts & FECN != 0
    }

    /// Forget that they bear FECN: it has been noted.
    pub fn clear_fecn(&mut self) {
        self.facts &= !FECN;
    }

    /// Whether the packets of `next` follow these in the same buffer, so that both can be one burst.
    #[inline]
    pub fn is_followed_by(&self, next: &Burst) -> bool {
        let alike = !u64::from(u32::MAX) | SEVERAL | FECN;
        self.from() + self.count() == next.from()
            && self.packet.is_same_buffer(&next.packet)
            && (self.facts ^ next.facts) & alike == 0
    }

    /// Add so many packets of the buffer that follow these.
    #[inline]
    pub fn grow(&mut self, count: u32) {
        self.facts += u64::from(count);
    }

    /// Take off the first packets; some are left.
    #[inline]
    pub fn take_first(&mut self, count: u32) -> Burst {
        let left = self.count() - count;
        let first = Burst { packet: self.packet.clone(), facts: self.facts - u64::from(left) };
        self.facts = self.facts - u64::from(count) + (u64::from(count) << FROM_BIT);
        first
    }

    /// Return its packets as bursts of one.
    pub fn one_by_one(self) -> impl Iterator<Item = Burst> {
        let mut rest = Some(self);
        std::iter::from_fn(move || match &mut rest {
            Some(several) if several.count() > 1 => Some(several.take_first(1)),
            last => last.take(),
        })
    }

    /// Return a burst of one packet in a buffer that holds no other, where its bytes may be changed.
    #[inline]
    pub fn alone(self, packets: &mut Packets) -> Burst {
        if self.is_of_several() { self.copied(packets) } else { self }
    }

    #[cold]
    fn copied(self, packets: &mut Packets) -> Burst {
        let (hops, from, has_fecn) = (self.hops(), self.from(), self.has_fecn_aside());
        let mut single = packets.single(&self.packet, from);
        packets.recycle(self.packet);
        if has_fecn {
            single = packets.with_fecn(single);
        }
        Burst::of(single, hops)
    }

    /// Return the same packets with their ICRCs, for what is outside of this process.
    pub fn sealed(mut self, packets: &mut Packets) -> Burst {
        if self.packet.is_sealed() {
            return self;
        }
        if !self.is_of_several() {
            packets.seal(&mut self.packet);
            return self;
        }
        // others have a share in the buffer
        let mut each = self.packets();
        let sealed = packets.make_burst(self.packet.len(), self.count() as usize, |mut own| {
            own.bytes.copy_from_slice(each.next().expect("as many as there are"));
            put_icrc(own.bytes);
            own.set_origin(self.packet.origin());
        });
        drop(each);
        let hops = self.hops();
        packets.recycle(self.packet);
        Burst::of(sealed, hops)
    }

    /// Return a burst of one packet with FECN.
    pub fn with_fecn(mut self, packets: &mut Packets) -> Burst {
        if self.is_of_several() {
            self.facts |= FECN;
        } else {
            self.packet = packets.with_fecn(self.packet);
        }
        self
    }
}

/// A burst in a queue.
#[derive(Debug)]
pub struct Queued<T> {
    /// When its first packet is due, and under which sequence number. The others have the numbers that follow.
    pub time: u64,
    pub number: u64,
    /// What else is known of the first packet.
    pub fact: T,
    pub burst: Burst,
}

/// Bursts in order, whose packets have times and sequence numbers: on a wire, or handed over by another worker.
#[derive(Debug)]
pub struct BurstQueue<T> {
    bursts: VecDeque<Queued<T>>,
    /// Time and fact of each packet but the first of its burst.
    later: VecDeque<(u64, T)>,
}

impl<T> Default for BurstQueue<T> {
    fn default() -> Self {
        BurstQueue { bursts: VecDeque::new(), later: VecDeque::new() }
    }
}

impl<T: Copy> BurstQueue<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    #[inline]
    pub fn first(&self) -> Option<&Queued<T>> {
        self.bursts.front()
    }

    pub fn last(&self) -> Option<&Queued<T>> {
        self.bursts.back()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Queued<T>> {
        self.bursts.iter()
    }

    /// Add a burst, whose further packets `extend` adds.
    #[inline]
    pub fn push(&mut self, next: Queued<T>) {
        self.bursts.push_back(next);
    }

    /// The same, as a part of the last burst where it directly follows that.
    #[inline]
    pub fn join(&mut self, next: Queued<T>) {
        match self.bursts.back_mut() {
            Some(last)
                if next.burst.is_of_several()
                    && last.burst.is_followed_by(&next.burst)
                    && last.number + u64::from(last.burst.count()) == next.number =>
            {
                last.burst.grow(next.burst.count());
                self.later.push_back((next.time, next.fact));
            }
            _ => self.bursts.push_back(next),
        }
    }

    /// Add times and facts of the further packets of the last burst.
    #[inline]
    pub fn extend(&mut self, later: impl Iterator<Item = (u64, T)>) {
        self.later.extend(later);
    }

    /// How many packets of the first burst are due before this time and number, and not after `latest`; the first is.
    #[inline]
    pub fn run(&self, before: (u64, u64), latest: u64) -> u32 {
        let Some(first) = self.bursts.front() else { return 0 };
        let later = self.later.iter().zip(first.number + 1..).take(first.burst.count() as usize - 1);
        let is_in = |((time, _), number): &(&(u64, T), u64)| *time <= latest && (*time, *number) < before;
        1 + later.take_while(is_in).count() as u32
    }

    /// When the first packets of the first burst are due.
    #[inline]
    pub fn times(&self, count: u32) -> impl Iterator<Item = u64> {
        let first = self.bursts.front().map(|first| first.time);
        first.into_iter().chain(self.later.iter().map(|(time, _)| *time)).take(count as usize)
    }

    /// Take the first packets of the first burst.
    #[inline]
    pub fn take(&mut self, count: u32) -> Option<Burst> {
        let first = self.bursts.front_mut()?;
        if first.burst.count() == count {
            if count > 1 {
                self.later.drain(..count as usize - 1);
            }
            return self.bursts.pop_front().map(|first| first.burst);
        }
        self.later.drain(..count as usize - 1);
        (first.time, first.fact) = self.later.pop_front()?;
        first.number += u64::from(count);
        Some(first.burst.take_first(count))
    }

    /// Take everything, in order; the times are forgotten.
    pub fn take_all(&mut self) -> impl Iterator<Item = Burst> + use<T> {
        self.later.clear();
        std::mem::take(&mut self.bursts).into_iter().map(|queued| queued.burst)
    }

    /// Take everything, each packet as a burst of one.
    pub fn take_one_by_one(&mut self) -> VecDeque<Queued<T>> {
        let mut all = VecDeque::new();
        let mut later = std::mem::take(&mut self.later).into_iter();
        for Queued { time, number, fact, burst } in std::mem::take(&mut self.bursts) {
            let times = std::iter::once((time, fact)).chain(later.by_ref().take(burst.count() as usize - 1));
            for ((burst, number), (time, fact)) in burst.one_by_one().zip(number..).zip(times) {
                all.push_back(Queued { time, number, fact, burst });
            }
        }
        all
    }

    /// Return what `take_one_by_one` took.
    pub fn put_back(&mut self, all: VecDeque<Queued<T>>) {
        self.bursts = all;
    }
}
