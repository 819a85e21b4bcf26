//! Bytes, without any state: here the 16B packet with its header fields, padding, ICRC and tail, little-endian as in
//! the document; in `frame` and `flow` the Ethernet frame that it carries; in `shared` reference-counted bytes; in
//! `near` prefetching.

mod fields;
pub mod flow;
pub mod frame;
pub mod icrc;
pub mod near;
pub mod nine;
pub mod shared;

use std::ops::Range;

pub use fields::{ethernet_l4, l4 as l4_types, lrh16b, trailer};
use icrc::icrc;

/// Bytes of the 16B header.
pub const HEADER: usize = lrh16b::SIZE;
/// Bytes of the 16B header and the Ethernet L4 header behind it.
pub const VNIC_HEADER: usize = HEADER + ethernet_l4::SIZE;
/// ICRC (4) and tail (1).
pub const TRAILER: usize = trailer::SIZE;
/// The shortest and the longest packet.
pub const MIN_PACKET: usize = 24;
pub const MAX_PACKET: usize = lrh16b::LENGTH_QW.mask as usize * 8;
/// The longest Ethernet frame that one packet carries.
pub const MAX_FRAME: usize = MAX_PACKET - VNIC_HEADER - TRAILER;

pub const L4_ETHERNET: u8 = l4_types::ETHERNET;
pub const L4_FM: u8 = l4_types::FM;
const TAIL_LT: u8 = trailer::LT.put(1) as u8;
const TAIL_FAULTS: u8 = 0xb8;

pub const LID_PERMISSIVE: u32 = 0xff_ffff;

/// Whether a LID names a group.
#[inline]
pub fn is_multicast(lid: u32) -> bool {
    (0xf0_0000..LID_PERMISSIVE).contains(&lid)
}

#[inline]
fn le32(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

/// Where a field stands in a little-endian header: bits of the 32-bit word at a byte.
#[derive(Clone, Copy)]
pub struct Field {
    word: usize,
    shift: u32,
    pub mask: u32,
}

impl Field {
    /// Declare a field by its first bit and its width.
    pub const fn new(first_bit: u32, bits: u32) -> Self {
        assert!(first_bit % 32 + bits <= 32, "a field lies within one word");
        Field { word: (first_bit / 32 * 4) as usize, shift: first_bit % 32, mask: u32::MAX >> (32 - bits) }
    }

    /// Read the field of a header that starts with `header`.
    #[inline]
    pub fn get(self, header: &[u8]) -> u32 {
        le32(header, self.word) >> self.shift & self.mask
    }

    /// Return the bits that a value is in the word of the field; what does not fit is left out.
    #[inline]
    pub const fn put(self, value: u32) -> u32 {
        (value & self.mask) << self.shift
    }

    /// Return the same of a value that may run over into the next field, as the driver's do.
    #[inline]
    pub const fn put_unmasked(self, value: u32) -> u32 {
        value << self.shift
    }
}

/// A value whose low bits stand at one place, and its high bits at another.
#[derive(Clone, Copy)]
pub struct Split {
    pub low: Field,
    pub high: Field,
}

impl Split {
    #[inline]
    pub fn get(self, header: &[u8]) -> u32 {
        self.low.get(header) | self.high.get(header) << self.low.mask.count_ones()
    }

    /// Return the bits of the high part of a value in its word.
    #[inline]
    pub const fn put_high(self, value: u32) -> u32 {
        self.high.put(value >> self.low.mask.count_ones())
    }
}

#[inline]
pub fn slid(packet: &[u8]) -> u32 {
    lrh16b::SLID.get(packet)
}

#[inline]
pub fn dlid(packet: &[u8]) -> u32 {
    lrh16b::DLID.get(packet)
}

#[inline]
pub fn length(packet: &[u8]) -> usize {
    lrh16b::LENGTH_QW.get(packet) as usize * 8
}

#[inline]
pub fn pkey(packet: &[u8]) -> u16 {
    lrh16b::PKEY.get(packet) as u16
}

#[inline]
pub fn l4(packet: &[u8]) -> u8 {
    lrh16b::L4.get(packet) as u8
}

#[inline]
pub fn l2(packet: &[u8]) -> u8 {
    lrh16b::L2.get(packet) as u8
}

/// Whether data is one 16B packet by its size, its L2 and its Length, of which no other field is checked, or one 9B packet.
#[inline]
pub fn is_whole(data: &[u8]) -> bool {
    (MIN_PACKET..=MAX_PACKET).contains(&data.len())
        && if u32::from(l2(data)) == lrh16b::L2_16B {
            length(data) == data.len()
        } else {
            nine::check(data, false).is_ok()
        }
}

/// The virtual Ethernet switch id: 12 bits.
#[inline]
pub fn vesw_id(packet: &[u8]) -> u16 {
    ethernet_l4::VESW_ID.get(&packet[HEADER..]) as u16 & 0xfff
}

/// Return the number of pad bytes and the whole length for an Ethernet frame of `frame` bytes (>= 60).
#[inline]
pub fn sizes(frame: usize) -> (usize, usize) {
    let unpadded = VNIC_HEADER + frame + TRAILER;
    let pad = unpadded.wrapping_neg() & 7;
    (pad, unpadded + pad)
}

/// The parts of the 20-byte VNIC header that are the same for all segments of one frame.
#[derive(Clone, Copy)]
pub struct HeaderWords {
    pub d0: u32,
    pub d1: u32,
    pub d2: u32,
    pub d3: u32,
    pub d4: u32,
}

/// Everything that goes into a VNIC header but the length.
pub struct HeaderFields {
    pub slid: u32,
    pub dlid: u32,
    pub sc: u8,
    pub rc: u8,
    pub pkey: u16,
    pub entropy: u8,
    pub vesw_id: u16,
}

impl HeaderWords {
    /// Source: the public driver's opa_vnic_make_header(), which masks nothing but LIDs.
    #[inline]
    pub fn new(f: &HeaderFields) -> Self {
        HeaderWords {
            d0: lrh16b::SLID.low.put(f.slid),
            d1: lrh16b::DLID.low.put(f.dlid)
                | lrh16b::SC.put_unmasked(f.sc.into())
                | lrh16b::RC.put_unmasked(f.rc.into())
                | lrh16b::L2.put(lrh16b::L2_16B)
                | lrh16b::LT.put(lrh16b::LT_HEAD),
            d2: lrh16b::L4.put(L4_ETHERNET.into())
                | lrh16b::SLID.put_high(f.slid)
                | lrh16b::DLID.put_high(f.dlid)
                | lrh16b::PKEY.put(f.pkey.into()),
            d3: lrh16b::ENTROPY.put(f.entropy.into()),
            d4: ethernet_l4::VESW_ID.put(f.vesw_id.into()),
        }
    }

    /// Write the header of a packet of `packet.len()` bytes.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let len_qw = (packet.len() / 8) as u32;
        packet[0..4].copy_from_slice(&(self.d0 | lrh16b::LENGTH_QW.put_unmasked(len_qw)).to_le_bytes());
        packet[4..8].copy_from_slice(&self.d1.to_le_bytes());
        packet[8..12].copy_from_slice(&self.d2.to_le_bytes());
        packet[12..16].copy_from_slice(&self.d3.to_le_bytes());
        packet[16..20].copy_from_slice(&self.d4.to_le_bytes());
    }
}

/// Write pad, ICRC and tail into a packet with header and payload.
#[inline]
pub fn seal(packet: &mut [u8], pad: usize, with_icrc: bool) {
    let len = packet.len();
    packet[len - TRAILER - pad..len - TRAILER].fill(0);
    packet[len - 1] = TAIL_LT | pad as u8;
    if with_icrc {
        put_icrc(packet);
    } else {
        packet[len - TRAILER..len - 1].fill(0);
    }
}

/// Compute the ICRC of an otherwise complete packet, and write it.
#[inline]
pub fn put_icrc(packet: &mut [u8]) {
    let value = icrc(packet);
    let len = packet.len();
    packet[len - TRAILER..len - 1].copy_from_slice(&value.to_le_bytes());
}

/// Why a receiving port refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Truncated,
    L2,
    Length,
    Icrc,
}

/// L2 and LT of a 16B packet, which lie in one word and are checked together.
const FORMAT: u32 = lrh16b::L2.put(lrh16b::L2_16B) | lrh16b::LT.put(lrh16b::LT_HEAD);
const FORMAT_MASK: u32 = lrh16b::L2.put(u32::MAX) | lrh16b::LT.put(u32::MAX);
const _: () = assert!(lrh16b::L2.word == lrh16b::LT.word);

/// Check a packet as a receiving port does; the first fault counts. Any bytes are fine, none panic.
#[inline]
pub fn check(packet: &[u8], with_icrc: bool) -> Result<(), Fault> {
    let size = packet.len();
    if size < MIN_PACKET {
        return Err(Fault::Truncated);
    }
    if le32(packet, lrh16b::L2.word) & FORMAT_MASK != FORMAT {
        return nine::check(packet, with_icrc);
    }
    let tail = packet[size - 1];
    if length(packet) != size || tail & TAIL_FAULTS != 0 {
        return Err(Fault::Length);
    }
    let left = size as isize - (HEADER + TRAILER) as isize - isize::from(tail & 7);
    let needed = match l4(packet) {
        L4_ETHERNET => ethernet_l4::SIZE as isize,
        L4_FM => 8,
        _ => 0,
    };
    if left < needed {
        return Err(Fault::Length);
    }
    if with_icrc {
        let found = le32(packet, size - TRAILER);
        if icrc(packet) != found {
            return Err(Fault::Icrc);
        }
    }
    Ok(())
}

/// Return where the Ethernet frame lies in a packet (the driver's trim and pull).
///
/// When fewer than 20 bytes remain after the trim, the pull does nothing and the frame starts at byte 0.
#[inline]
pub fn frame_range(packet: &[u8]) -> Range<usize> {
    let Some(last) = packet.last() else { return 0..0 };
    let trimmed = packet.len().saturating_sub(TRAILER + usize::from(last & 7));
    if trimmed < VNIC_HEADER { 0..trimmed } else { VNIC_HEADER..trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(frame: &[u8]) -> Vec<u8> {
        let (pad, len) = sizes(frame.len());
        let mut packet = vec![0xa5; len];
        let fields = HeaderFields {
            slid: 0x12_3456,
            dlid: 0xf0_0007,
            sc: 3,
            rc: 5,
            pkey: 0x8002,
            entropy: 9,
            vesw_id: 2,
        };
        HeaderWords::new(&fields).write(&mut packet);
        packet[VNIC_HEADER..VNIC_HEADER + frame.len()].copy_from_slice(frame);
        seal(&mut packet, pad, true);
        packet
    }

    #[test]
    fn seal_gives_a_packet_that_passes_and_holds_the_frame() {
        for len in 60..400 {
            let frame: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let packet = sealed(&frame);
            assert_eq!(check(&packet, true), Ok(()));
            assert_eq!(packet[frame_range(&packet)], frame);
            assert_eq!((slid(&packet), dlid(&packet), pkey(&packet)), (0x12_3456, 0xf0_0007, 0x8002));
        }
    }

    #[test]
    fn icrc_covers_every_bit_but_the_variable_ones() {
        let packet = sealed(&[0x5a; 61]);
        let variable = |bit: usize| {
            bit == 31 || (52..57).contains(&bit) || bit == 60 || (64 + 48..64 + 56).contains(&bit)
        };
        let tail = packet.len() * 8 - 8;
        for bit in 0..tail + 3 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&damaged, true).is_ok(), variable(bit), "bit {bit}");
        }
    }

    #[test]
    fn check_takes_every_prefix_and_never_panics() {
        let packet = sealed(&[1; 60]);
        for len in 0..packet.len() {
            assert!(check(&packet[..len], true).is_err());
            let _ = frame_range(&packet[..len]);
        }
    }

    #[test]
    fn frame_shorter_than_a_header_is_not_pulled() {
        let mut packet = [0u8; 24];
        packet[23] = 7;
        assert_eq!(frame_range(&packet), 0..12);
    }
}
