//! How packets go from the engine of one machine to that of another: each as a record, the packet and a tag behind it.
//!
//! The tag has 16 bits, big-endian: bit 15: the packet bears no ICRC, and nothing has changed it since it was made; bit 14:
//! the checksums of the frame inside are known to be right; 13 to 0: switches that the packet has visited.

use offload::segment::Origin;

use crate::packet::{Packet, Packets};

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
    if packet.origin() == Origin::Summed {
        tag |= SUMMED;
    }
    tag.to_be_bytes()
}

/// Return the packet of a record, and the switches that it has visited. A record without a tag is a packet.
pub fn packet_of(packets: &mut Packets, record: &[u8]) -> (Packet, u32) {
    let Some((bytes, tag)) = record.split_last_chunk::<TAG>() else { return (packets.copy(record), 0) };
    let tag = u16::from_be_bytes(*tag);
    let packet = packets.make(bytes.len(), |mut own| {
        own.bytes.copy_from_slice(bytes);
        own.set_sealed(tag & UNSEALED == 0);
        own.set_origin(if tag & SUMMED == 0 { Origin::Unknown } else { Origin::Summed });
    });
    (packet, u32::from(tag & MAX_HOPS))
}
