//! The frames between the engines of two machines: a head, and packets of one length behind it.
//!
//! The tag in the head says what the packets do not. Bit 14: the checksums of the frames inside are known to be right;
//! 13 to 0: switches that they have visited.

use offload::segment::Origin;

use wire::{L4_ETHERNET, TRAILER, VNIC_HEADER, is_multicast, l4};

use crate::burst::Burst;
use crate::packet::{Own, Packet, Packets, becn, dlid, fecn, sc};

/// Bytes of the tag behind a packet that Python passes on.
pub const TAG: usize = 2;
const SUMMED: u16 = 1 << 14;
const MAX_HOPS: u16 = SUMMED - 1;

/// Return the tag of a packet with its ICRC that has visited `hops` switches; more than 16383 are as many.
pub fn tag_of(packet: &Packet, hops: u32) -> u16 {
    let mut tag = hops.min(u32::from(MAX_HOPS)) as u16;
    if packet.origin() != Origin::Unknown {
        tag |= SUMMED;
    }
    tag
}

/// Bytes of the head of a frame.
pub const HEAD: usize = 12;
/// Packets of a frame, at most.
pub const MOST_PACKETS: usize = 1 << 12;
/// Bytes of a packet, at most: its length field counts 11 bits of quad words.
pub const MOST_PACKET: usize = 2047 * 8;
/// Bytes behind the head of a frame, at most.
pub const MOST_BODY: usize = 1 << 17;

/// What a frame says. The numbers are those of opavnic/cluster/protocol/frames.py, the readable reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Packets of one length and one tag, in order.
    Packets = 1,
    /// How many packets of a link have arrived, as 64 bits.
    Received = 2,
    /// Send no more packets of a service channel.
    Pause = 3,
    /// Send them again.
    Resume = 4,
}

/// The head of a frame, all of it big-endian: kind, service channel, count, link, size, tag. `count` times `size` bytes
/// follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub sc: u8,
    pub count: u16,
    /// The number of a link between the two machines.
    pub link: u32,
    pub size: u16,
    pub tag: u16,
}

impl Head {
    /// The head of a frame that has nothing behind it.
    pub fn alone(kind: Kind, link: u32, sc: u8) -> Self {
        Head { kind, sc, count: 0, link, size: 0, tag: 0 }
    }

    pub fn build(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[0] = self.kind as u8;
        head[1] = self.sc;
        head[2..4].copy_from_slice(&self.count.to_be_bytes());
        head[4..8].copy_from_slice(&self.link.to_be_bytes());
        head[8..10].copy_from_slice(&self.size.to_be_bytes());
        head[10..].copy_from_slice(&self.tag.to_be_bytes());
        head
    }

    /// Bytes behind it.
    pub fn body(&self) -> usize {
        usize::from(self.count) * usize::from(self.size)
    }

    /// Whether the sizes are those of its kind.
    fn fits(&self) -> bool {
        match self.kind {
            Kind::Packets => {
                (1..=MOST_PACKETS).contains(&self.count.into())
                    && (1..=MOST_PACKET).contains(&self.size.into())
                    && self.body() <= MOST_BODY
            }
            Kind::Received => (self.count, self.size) == (1, 8),
            Kind::Pause | Kind::Resume => (self.count, self.size) == (0, 0),
        }
    }
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A frame between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub head: Head,
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parse the frame that any bytes begin with; None: they end before it does.
    pub fn first(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let kind = match head[0] {
            1 => Kind::Packets,
            2 => Kind::Received,
            3 => Kind::Pause,
            4 => Kind::Resume,
            _ => return Err(Malformed),
        };
        let link = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let head = Head { kind, sc: head[1], count: short(2), link, size: short(8), tag: short(10) };
        if !head.fits() {
            return Err(Malformed);
        }
        Ok(rest.get(..head.body()).map(|body| Frame { head, body }))
    }

    /// All of its bytes.
    pub fn len(&self) -> usize {
        HEAD + self.body.len()
    }

    /// Whether it has none, which no frame has.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its packets.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let tag = self.head.tag;
        self.body.chunks_exact(usize::from(self.head.size).max(1)).map(move |bytes| Record { bytes, tag })
    }

    /// The number that it tells.
    pub fn number(&self) -> u64 {
        self.body.try_into().map_or(0, u64::from_be_bytes)
    }
}

/// Return the head of the frame of packets that go over a link.
pub fn head_of(link: u32, burst: &Burst) -> Head {
    Head {
        kind: Kind::Packets,
        sc: sc(&burst.packet) as u8,
        count: burst.count() as u16,
        link,
        size: burst.packet.len() as u16,
        tag: tag_of(&burst.packet, burst.hops()),
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
