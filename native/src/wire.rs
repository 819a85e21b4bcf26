//! The 16B packet: header fields, padding, ICRC and tail. Little-endian, as the document has it.

use std::ops::Range;

use crate::icrc::{TRAILER, icrc};

/// Bytes of the 16B header.
pub const HEADER: usize = 16;
/// Bytes of the 16B header and the Ethernet L4 header behind it.
pub const VNIC_HEADER: usize = 20;
/// The shortest and the longest packet.
pub const MIN_PACKET: usize = 24;
pub const MAX_PACKET: usize = 2047 * 8;
/// The longest Ethernet frame that one packet carries.
pub const MAX_FRAME: usize = MAX_PACKET - VNIC_HEADER - TRAILER;

pub const L4_ETHERNET: u8 = 0x78;
pub const L4_FM: u8 = 0x08;
const TAIL_LT: u8 = 0x40;
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

#[inline]
pub fn slid(packet: &[u8]) -> u32 {
    (le32(packet, 0) & 0xf_ffff) | (u32::from(packet[9]) & 0x0f) << 20
}

#[inline]
pub fn dlid(packet: &[u8]) -> u32 {
    (le32(packet, 4) & 0xf_ffff) | (u32::from(packet[9]) >> 4) << 20
}

#[inline]
pub fn length(packet: &[u8]) -> usize {
    (le32(packet, 0) >> 20 & 0x7ff) as usize * 8
}

#[inline]
pub fn pkey(packet: &[u8]) -> u16 {
    u16::from_le_bytes([packet[10], packet[11]])
}

#[inline]
pub fn l4(packet: &[u8]) -> u8 {
    packet[8]
}

#[inline]
pub fn l2(packet: &[u8]) -> u8 {
    packet[7] >> 5 & 3
}

/// The virtual Ethernet switch id: 12 bits.
#[inline]
pub fn vesw_id(packet: &[u8]) -> u16 {
    u16::from_le_bytes([packet[18], packet[19]]) & 0xfff
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
    pub fn new(f: &HeaderFields) -> Self {
        HeaderWords {
            d0: f.slid & 0xf_ffff,
            d1: (f.dlid & 0xf_ffff) | u32::from(f.sc) << 20 | u32::from(f.rc) << 25 | 0xc000_0000,
            d2: u32::from(L4_ETHERNET)
                | (f.slid >> 20 & 0xf) << 8
                | (f.dlid >> 20 & 0xf) << 12
                | u32::from(f.pkey) << 16,
            d3: u32::from(f.entropy),
            d4: u32::from(f.vesw_id) << 16,
        }
    }

    /// Write the header of a packet of `packet.len()` bytes.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let len_qw = (packet.len() / 8) as u32;
        packet[0..4].copy_from_slice(&(self.d0 | len_qw << 20).to_le_bytes());
        packet[4..8].copy_from_slice(&self.d1.to_le_bytes());
        packet[8..12].copy_from_slice(&self.d2.to_le_bytes());
        packet[12..16].copy_from_slice(&self.d3.to_le_bytes());
        packet[16..20].copy_from_slice(&self.d4.to_le_bytes());
    }
}

/// Write pad, ICRC and tail into a packet whose header and payload stand.
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

/// Compute the ICRC of a packet that is complete but for it, and put it in its place.
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

/// Check a packet as a receiving port does; the first fault counts. Any bytes are fine, none panic.
#[inline]
pub fn check(packet: &[u8], with_icrc: bool) -> Result<(), Fault> {
    let size = packet.len();
    if size < MIN_PACKET {
        return Err(Fault::Truncated);
    }
    if packet[7] >> 5 != 0b110 {
        return Err(Fault::L2);
    }
    let tail = packet[size - 1];
    if length(packet) != size || tail & TAIL_FAULTS != 0 {
        return Err(Fault::Length);
    }
    let left = size as isize - (HEADER + TRAILER) as isize - isize::from(tail & 7);
    let needed = match l4(packet) {
        L4_ETHERNET => 4,
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
