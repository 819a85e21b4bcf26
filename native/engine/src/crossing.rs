//! The format of packets between the engines of two machines: each is a record, the packet followed by a tag.
//!
//! The tag has 16 bits, big-endian: bit 15: the packet bears no ICRC, and nothing has changed it since it was made; bit 14:
//! the checksums of the frame inside are known to be right; 13 to 0: switches that the packet has visited.

use offload::segment::Origin;

use wire::{L4_ETHERNET, TRAILER, VNIC_HEADER, is_multicast, l4};

use crate::burst::Burst;
use crate::packet::{Own, Packet, Packets, becn, dlid, fecn};

pub const TAG: usize = 2;
const UNSEALED: u16 = 1 << 15;
const SUMMED: u16 = 1 << 14;
const MAX_HOPS: u16 = SUMMED - 1;

/// Return the tag of a packet that has visited `hops` switches; more than 16383 are as many.
pub fn tag_of(packet: &Packet, hops: u32) -> [u8; TAG] {
    let mut tag = hops.min(u32::from(MAX_HOPS)) as u16;
    if !packet.is_sealed() {
        tag |= UNSEALED;
    }
    if packet.origin() != Origin::Unknown {
        tag |= SUMMED;
    }
    tag.to_be_bytes()
}

/// Packets of one message, at most.
pub const MOST_PACKETS: usize = 1 << 12;
/// Bytes of a record, at most: a 16B packet, whose length field counts 11 bits of quad words, and its tag.
pub const MOST_RECORD: usize = 2047 * 8 + TAG;

/// Return the bytes that packets take in a message.
///
/// The body of a message has the number of its records and the length of each, as 16 bits, big-endian, then the records.
/// The readable reference is opavnic/cluster/protocol/messages.py.
pub fn packed_len(packets: usize, record_bytes: usize) -> usize {
    2 + 2 * packets + record_bytes
}

/// Return the bytes of the records of packets.
pub fn record_bytes(burst: &Burst) -> usize {
    burst.bytes() + TAG * burst.count() as usize
}

/// Write the body of a message with these packets; `body` has its length.
pub fn pack<'a>(bursts: impl Iterator<Item = &'a Burst> + Clone, body: &mut [u8]) {
    let count: u32 = bursts.clone().map(|burst| burst.count()).sum();
    let (head, rest) = body.split_at_mut(2);
    head.copy_from_slice(&(count as u16).to_be_bytes());
    let (lengths, mut records) = rest.split_at_mut(2 * count as usize);
    let mut lengths = lengths.chunks_exact_mut(2);
    for burst in bursts {
        let tag = tag_of(&burst.packet, burst.hops());
        let len = burst.packet.len() + TAG;
        for packet in burst.packets() {
            lengths.next().expect("one for each").copy_from_slice(&(len as u16).to_be_bytes());
            let (record, further) = records.split_at_mut(len);
            record[..packet.len()].copy_from_slice(packet);
            record[packet.len()..].copy_from_slice(&tag);
            records = further;
        }
    }
}

/// The records of a message, whose lengths fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    lengths: &'a [u8],
    records: &'a [u8],
}

impl<'a> Records<'a> {
    /// Parse the body of a message from any bytes; None: malformed.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (count, rest) = body.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if !(1..=MOST_PACKETS).contains(&count) || rest.len() < 2 * count {
            return None;
        }
        let (lengths, records) = rest.split_at(2 * count);
        let found = Records { lengths, records };
        let fits = found.each_len().all(|len| (1..=MOST_RECORD).contains(&len));
        (fits && found.each_len().sum::<usize>() == records.len()).then_some(found)
    }

    fn each_len(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.lengths.chunks_exact(2).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lengths.len() / 2
    }

    /// The bytes of all records.
    pub fn size(&self) -> usize {
        self.records.len()
    }

    /// Each record.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let mut rest = self.records;
        self.each_len().map(move |len| {
            let (record, further) = rest.split_at(len);
            rest = further;
            Record::of(record)
        })
    }
}

/// A packet with its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub bytes: &'a [u8],
    tag: u16,
}

impl<'a> Record<'a> {
    /// Split a record into packet and tag. A record too short for a tag is a packet without one.
    pub fn of(record: &'a [u8]) -> Self {
        match record.split_last_chunk::<TAG>() {
            Some((bytes, tag)) => Record { bytes, tag: u16::from_be_bytes(*tag) },
            None => Record { bytes: record, tag: 0 },
        }
    }

    /// The switches that the packet has visited.
    pub fn hops(&self) -> u32 {
        u32::from(self.tag & MAX_HOPS)
    }

    /// Fill a packet of the same length. Those before and behind it in a message may be of another send of the same flow, or
    /// of a flow that the fabric does not tell from it.
    pub fn write(&self, mut own: Own<'_>) {
        own.bytes.copy_from_slice(self.bytes);
        own.set_sealed(self.tag & UNSEALED == 0);
        own.set_origin(if self.tag & SUMMED == 0 { Origin::Unknown } else { Origin::Summed });
    }

    /// Return the packet.
    pub fn packet(&self, packets: &mut Packets) -> Packet {
        packets.make(self.bytes.len(), |own| self.write(own))
    }

    /// Whether it may be one of a burst: it is a whole packet with data, as VNICs send them to one receiver.
    pub fn may_be_in_burst(&self) -> bool {
        self.bytes.len() >= VNIC_HEADER + TRAILER
            && l4(self.bytes) == L4_ETHERNET
            && !is_multicast(dlid(self.bytes))
            && !fecn(self.bytes)
            && !becn(self.bytes)
    }

    /// Whether both can be in one burst: they have one length, one tag, and differ in nothing that a switch or a port
    /// looks at.
    pub fn is_like(&self, other: &Record<'_>) -> bool {
        self.tag == other.tag
            && self.bytes.len() == other.bytes.len()
            && self.bytes[..VNIC_HEADER] == other.bytes[..VNIC_HEADER]
            && self.bytes.last() == other.bytes.last() // which says how long the frame inside is
    }
}
