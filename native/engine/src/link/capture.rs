//! A ring that holds copies of packets, up to a number of bytes of each, until a reader takes them.
//!
//! A capture never slows a link down: if the ring is full, a packet is missed and counted. Readers get enhanced packet
//! blocks of a pcapng file, one for each packet, with the reason of a drop as its comment.
//!
//! The ring consists of segments, all allocated when it is made. One is being filled, the full ones wait in order to be
//! taken, and the others are free. Its lock is held while the packets of one burst are copied or one segment is handed over,
//! and never while a segment is read.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::wire::icrc::icrc;
use ::wire::{HEADER, TRAILER, nine};

use super::rule::Match;
use crate::burst::Burst;
use crate::counters::{DROP_NAMES, Drop};

/// What is captured, and how much of it is kept until it is taken.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// The number of interfaces; each is one direction of a link. A direction's 9B packets have its number plus this.
    pub interfaces: u32,
    pub fits: Match,
    /// The most bytes kept of a packet.
    pub snap: usize,
    /// The capture ends after this many packets; None: no limit.
    pub limit: Option<u64>,
    /// Added to the fabric's time.
    pub epoch_ns: u64,
    /// 2 and more.
    pub segments: usize,
    pub segment_bytes: usize,
}

/// What one interface has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets that were to be captured.
    pub seen: u64,
    /// Those of them for which there was no room.
    pub missed: u64,
}

#[derive(Debug)]
struct Segments {
    filling: Vec<u8>,
    full: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
    counts: Vec<Count>,
    kept: u64,
    missed: u64,
}

/// See the module. Engines push, one reader takes.
#[derive(Debug)]
pub struct CaptureRing {
    config: CaptureConfig,
    segments: Mutex<Segments>,
}

const ENHANCED_PACKET: u32 = 6;
const HEAD: usize = 28;
/// Bytes of an ICRC, with which the trailer of a packet begins.
const ICRC: usize = 4;
/// The size of a block stands at both of its ends.
const SIZE: usize = 4;
const DROPPED: &[u8] = b"dropped: ";
const COMMENT: u16 = 1;
const OPTION_HEAD: usize = 4;
const END_OF_OPTIONS: [u8; 4] = [0; 4];

fn padding(size: usize) -> &'static [u8] {
    &[0; 3][..size.wrapping_neg() % 4]
}

const ERF_HEAD: usize = 16;
const ERF_9B: u8 = 29;
const VARYING_LENGTH: u8 = 4;

/// A 9B packet as a record of Endace's (ERF): hfi_sim/wire/captures.py, erf_9b.
#[cold]
fn erf_9b(carried: &[u8]) -> Vec<u8> {
    let packet = nine::bare(carried);
    let mut record = vec![0; ERF_HEAD];
    record[8..10].copy_from_slice(&[ERF_9B, VARYING_LENGTH]);
    record[10..12].copy_from_slice(&((ERF_HEAD + packet.len()) as u16).to_be_bytes());
    record[14..16].copy_from_slice(&(packet.len() as u16).to_be_bytes());
    record.extend(packet);
    record
}

/// One packet, as it will stand in the file.
struct Block<'a> {
    time_ns: u64,
    interface: u32,
    wire_len: usize,
    kept: &'a [u8],
    /// Of a packet that bears none in memory.
    icrc: Option<[u8; ICRC]>,
    reason: Option<&'static str>,
}

impl Block<'_> {
    fn size(&self) -> usize {
        let comment = self.reason.map_or(0, |reason| {
            OPTION_HEAD + (DROPPED.len() + reason.len()).next_multiple_of(4) + END_OF_OPTIONS.len()
        });
        HEAD + self.kept.len().next_multiple_of(4) + comment + SIZE
    }

    /// Append it to a segment that has room for it.
    fn write(&self, segment: &mut Vec<u8>) {
        let size = (self.size() as u32).to_le_bytes();
        let words = [
            self.interface,
            (self.time_ns >> 32) as u32,
            self.time_ns as u32,
            self.kept.len() as u32,
            self.wire_len as u32,
        ];
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&ENHANCED_PACKET.to_le_bytes());
        head[4..8].copy_from_slice(&size);
        for (bytes, word) in head[8..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        segment.extend_from_slice(&head);
        let begin = segment.len();
        segment.extend_from_slice(self.kept);
        if let Some(icrc) = self.icrc {
            let place = (self.wire_len - TRAILER)..self.kept.len().min(self.wire_len - TRAILER + ICRC);
            segment[begin..][place.clone()].copy_from_slice(&icrc[..place.len()]);
        }
        segment.extend_from_slice(padding(self.kept.len()));
        if let Some(reason) = self.reason {
            let len = DROPPED.len() + reason.len();
            segment.extend_from_slice(&COMMENT.to_le_bytes());
            segment.extend_from_slice(&(len as u16).to_le_bytes());
            segment.extend_from_slice(DROPPED);
            segment.extend_from_slice(reason.as_bytes());
            segment.extend_from_slice(padding(len));
            segment.extend_from_slice(&END_OF_OPTIONS);
        }
        segment.extend_from_slice(&size);
    }
}

/// Return how far whole blocks reach from `at` on, which have at most `room` bytes, and how many these are.
pub fn whole(data: &[u8], at: usize, room: usize) -> (usize, usize) {
    let (mut end, mut packets) = (at, 0);
    while let Some((kind, rest)) = data.get(end..).and_then(<[u8]>::split_first_chunk::<4>) {
        let Some((size, _)) = rest.split_first_chunk::<4>() else { break };
        let size = u32::from_le_bytes(*size) as usize;
        let fits = (HEAD + SIZE..=data.len() - end).contains(&size) && end - at + size <= room;
        if u32::from_le_bytes(*kind) != ENHANCED_PACKET || !fits || !size.is_multiple_of(4) {
            break;
        }
        end += size;
        packets += 1;
    }
    (end, packets)
}

impl CaptureRing {
    pub fn new(config: CaptureConfig) -> Self {
        let mut free: Vec<_> =
            (0..config.segments.max(2)).map(|_| Vec::with_capacity(config.segment_bytes)).collect();
        let segments = Segments {
            filling: free.pop().unwrap_or_default(),
            full: VecDeque::with_capacity(free.len() + 1),
            free,
            counts: vec![Count::default(); config.interfaces as usize],
            kept: 0,
            missed: 0,
        };
        CaptureRing { config, segments: Mutex::new(segments) }
    }

    /// How many interfaces it has.
    pub fn interfaces(&self) -> u32 {
        self.config.interfaces
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copy the packets of a burst, each with its time, if they fit, or count them as missed; with the reason if they ended
    /// there. They have one header, so all fit or none. The copy of one that is not sealed gets its ICRC, unless it ends
    /// before that.
    pub fn push(&self, interface: u32, times: impl Iterator<Item = u64>, burst: &Burst, drop: Option<Drop>) {
        if !self.config.fits.fits(&burst.packet) {
            return;
        }
        let (is_sealed, reason) = (burst.packet.is_sealed(), drop.map(|drop| DROP_NAMES[drop as usize]));
        let mut segments = self.lock();
        for (time, packet) in times.zip(burst.packets()) {
            if self.config.limit == Some(segments.kept) {
                return;
            }
            let of_9b = (packet.len() >= HEADER && nine::is_9b(packet)).then(|| erf_9b(packet));
            let packet = of_9b.as_deref().unwrap_or(packet);
            let shows_icrc = packet.len() >= HEADER + TRAILER && self.config.snap > packet.len() - TRAILER;
            let block = Block {
                time_ns: time.wrapping_add(self.config.epoch_ns),
                interface: interface + if of_9b.is_some() { self.config.interfaces } else { 0 },
                wire_len: packet.len(),
                kept: &packet[..packet.len().min(self.config.snap)],
                icrc: (!is_sealed && shows_icrc).then(|| icrc(packet).to_le_bytes()),
                reason,
            };
            segments.add(interface, &block, self.config.segment_bytes);
        }
    }

    /// Pass the packets of the oldest full segment to a reader, then free the segment; None: no segment is full. With
    /// `rest`, and if none is full, the reader gets the packets in the segment that is being filled.
    pub fn take<T>(&self, rest: bool, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut taken = self.lock().take(rest)?;
        let result = read(&taken);
        taken.clear();
        self.lock().free.push(taken);
        Some(result)
    }

    /// What each interface has counted so far.
    pub fn counts(&self) -> Vec<Count> {
        self.lock().counts.clone()
    }

    /// How many packets were kept and missed so far, on all interfaces together.
    pub fn totals(&self) -> (u64, u64) {
        let segments = self.lock();
        (segments.kept, segments.missed)
    }

    /// Whether it has kept as many packets as it was to.
    pub fn is_complete(&self) -> bool {
        self.config.limit == Some(self.lock().kept)
    }
}

impl Segments {
    /// Count a packet of an interface, and keep it if there is room.
    fn add(&mut self, interface: u32, block: &Block<'_>, segment_bytes: usize) {
        let has_room = self.has_room(block.size(), segment_bytes);
        let count = &mut self.counts[interface as usize];
        count.seen += 1;
        if has_room {
            block.write(&mut self.filling);
            self.kept += 1;
        } else {
            count.missed += 1;
            self.missed += 1;
        }
    }

    /// Whether the segment being filled takes a block; a free one takes its place if it does not.
    fn has_room(&mut self, size: usize, segment_bytes: usize) -> bool {
        if self.filling.len() + size <= segment_bytes {
            return true;
        }
        if size > segment_bytes {
            return false;
        }
        let Some(next) = self.free.pop() else { return false };
        self.full.push_back(std::mem::replace(&mut self.filling, next));
        true
    }

    fn take(&mut self, rest: bool) -> Option<Vec<u8>> {
        if let Some(full) = self.full.pop_front() {
            return Some(full);
        }
        if !rest || self.filling.is_empty() {
            return None;
        }
        let next = self.free.pop()?;
        Some(std::mem::replace(&mut self.filling, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, Packets};

    fn ring(segments: usize, segment_bytes: usize) -> CaptureRing {
        CaptureRing::new(CaptureConfig {
            interfaces: 2,
            fits: Match::default(),
            snap: 64,
            limit: None,
            epoch_ns: 1000,
            segments,
            segment_bytes,
        })
    }

    fn push(
        ring: &CaptureRing,
        time: u64,
        interface: u32,
        bytes: &[u8],
        is_sealed: bool,
        drop: Option<Drop>,
    ) {
        let mut packet = Packet::from(bytes);
        Packets::default().change(&mut packet, |mut own| own.set_sealed(is_sealed));
        ring.push(interface, std::iter::once(time), &Burst::of(packet, 0), drop);
    }

    fn taken(ring: &CaptureRing, rest: bool) -> usize {
        ring.take(rest, <[u8]>::len).unwrap_or(0)
    }

    #[test]
    fn packets_that_find_no_room_are_missed_until_somebody_takes_some() {
        let ring = ring(2, 200);
        for _ in 0..6 {
            push(&ring, 5, 1, &[7; 64], true, None); // 96 bytes, two to a segment
        }
        assert_eq!(ring.counts(), [Count::default(), Count { seen: 6, missed: 2 }]);
        assert_eq!(taken(&ring, false), 192);
        push(&ring, 5, 0, &[7; 300], true, Some(Drop::LinkDown));
        assert_eq!(ring.counts()[0], Count { seen: 1, missed: 0 });
        assert_eq!([taken(&ring, false), taken(&ring, false)], [192, 0]);
        assert_eq!([taken(&ring, true), taken(&ring, true)], [96 + 28, 0]);
    }

    #[test]
    fn a_packet_longer_than_a_segment_is_missed_and_moves_nothing() {
        let ring = ring(2, 90);
        push(&ring, 5, 0, &[7; 64], true, None);
        push(&ring, 5, 0, &[7; 48], true, None);
        assert_eq!(ring.counts()[0], Count { seen: 2, missed: 1 });
        assert_eq!([taken(&ring, false), taken(&ring, true)], [0, 80]);
    }

    #[test]
    fn a_packet_stands_there_with_its_time_its_length_and_the_reason_of_its_drop() {
        let ring = ring(2, 1000);
        push(&ring, 1 << 32, 1, &[7; 65], true, Some(Drop::LinkFault));
        let block = ring.take(true, <[u8]>::to_vec).unwrap();
        let words: Vec<u32> = block.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words[..7], [6, block.len() as u32, 1, 1, 1000, 64, 65]);
        assert_eq!(&block[92..92 + 4 + 19], b"\x01\0\x13\0dropped: link_fault");
        assert_eq!(words.last(), Some(&(block.len() as u32)));
    }

    #[test]
    fn copy_of_a_packet_without_icrc_has_as_much_of_it_as_is_kept() {
        let mut whole = [7; 64];
        ::wire::put_icrc(&mut whole);
        for snap in [58, 59, 60, 62, 63, 64, 100] {
            let ring = CaptureRing::new(CaptureConfig { snap, ..ring(2, 1000).config });
            let mut bare = whole;
            bare[59..63].fill(0);
            push(&ring, 1, 0, &bare, false, None);
            let block = ring.take(true, <[u8]>::to_vec).unwrap();
            assert_eq!(block[HEAD..HEAD + snap.min(64)], whole[..snap.min(64)], "{snap} bytes are kept");
        }
    }

    #[test]
    fn packets_are_pushed_while_a_segment_is_read() {
        let ring = ring(2, 100);
        push(&ring, 0, 0, &[7; 64], true, None);
        ring.take(true, |_| push(&ring, 0, 0, &[7; 64], true, None)).unwrap();
        assert_eq!(ring.counts()[0], Count { seen: 2, missed: 0 });
        assert_eq!(taken(&ring, true), 96);
    }
}
