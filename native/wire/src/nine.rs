//! 9B packets as links carry them: a head like the 16B header with L2 = 3, then LRH, GRH, BTH and the rest, then the
//! ICRC. Definition: hfi_sim/wire/packet_9b.py. The way of 16B packets never comes here.

use crate::{Fault, HEADER, L4_FM, LID_PERMISSIVE, l2, l4_types, lrh16b};

const LRH: usize = 8;
const GRH: usize = 40;
const BTH: usize = 12;
const DETH: usize = 8;
const ICRC: usize = 4;
/// SC in the first byte of the LRH; FECN and BECN in byte 4 of the BTH.
const SC: u8 = 0xf0;
const MARKS: u8 = 0xc0;
const UD_SEND_ONLY: u8 = 0x64;
const UNICAST_END: u32 = 0xc000;
const MULTICAST: u32 = 0xf0_0000;

/// Whether L2 names the 9B format.
#[inline]
pub fn is_9b(packet: &[u8]) -> bool {
    u32::from(l2(packet)) == lrh16b::L2_9B
}

fn be16(packet: &[u8], at: usize) -> u32 {
    u32::from(packet[at]) << 8 | u32::from(packet[at + 1])
}

fn wide_lid(lid: u32) -> u32 {
    match lid {
        0xffff => LID_PERMISSIVE,
        lid if lid < UNICAST_END => lid,
        lid => MULTICAST + lid - UNICAST_END,
    }
}

/// Where the BTH stands behind a head; None: there is none.
fn bth_at(carried: &[u8]) -> Option<usize> {
    let at = match carried.get(HEADER + 1)? & 3 {
        2 => HEADER + LRH,
        3 => HEADER + LRH + GRH,
        _ => return None,
    };
    (carried.len() >= at + BTH + ICRC).then_some(at)
}

/// The head, without what may change on the way.
fn head(carried: &[u8], bth: usize) -> [u8; HEADER] {
    let (slid, dlid) = (wide_lid(be16(carried, HEADER + 6)), wide_lid(be16(carried, HEADER + 2)));
    let is_mad = carried[bth] == UD_SEND_ONLY && carried[bth + 5..bth + 7] == [0, 0] && carried[bth + 7] < 2;
    let l4 = match carried[HEADER + 1] & 3 {
        _ if is_mad => L4_FM,
        3 => l4_types::IB_GLOBAL,
        _ => l4_types::IB_LOCAL,
    };
    let words = [
        lrh16b::SLID.low.put(slid) | lrh16b::LENGTH_QW.put(carried.len().div_ceil(8) as u32),
        lrh16b::DLID.low.put(dlid) | lrh16b::L2.put(lrh16b::L2_9B) | lrh16b::LT.put(lrh16b::LT_HEAD),
        lrh16b::L4.put(l4.into())
            | lrh16b::SLID.put_high(slid)
            | lrh16b::DLID.put_high(dlid)
            | lrh16b::PKEY.put(be16(carried, bth + 2)),
        0,
    ];
    let mut head = [0; HEADER];
    for (bytes, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    head
}

/// Check a packet whose L2 or LT is not that of 16B; the first fault counts. Any 24 bytes or more are fine.
#[cold]
pub fn check(carried: &[u8], with_icrc: bool) -> Result<(), Fault> {
    if !is_9b(carried) || lrh16b::LT.get(carried) != lrh16b::LT_HEAD {
        return Err(Fault::L2);
    }
    if carried.len() < HEADER + LRH + BTH + ICRC
        || lrh16b::LENGTH_QW.get(carried) as usize != carried.len().div_ceil(8)
    {
        return Err(Fault::Length);
    }
    let bth = bth_at(carried);
    let end = carried.len() - ICRC;
    let found = u32::from_le_bytes(carried[end..].try_into().unwrap());
    if with_icrc && bth.is_none_or(|bth| icrc(carried, bth) != found) {
        return Err(Fault::Icrc);
    }
    let bth = bth.ok_or(Fault::Length)?;
    let size = carried.len() - HEADER;
    let pad = usize::from(carried[bth + 1] >> 4 & 3);
    let claimed = (be16(carried, HEADER + 4) & 0xfff) as usize * 4;
    if claimed != size || bth + BTH + pad > end {
        return Err(Fault::Length);
    }
    let wanted = head(carried, bth);
    let differs = |((is, wanted), may): ((&u8, u8), u8)| (is ^ wanted) & !may != 0;
    let has_marks = carried[HEADER] & SC != 0 || carried[bth + 4] & MARKS != 0;
    if has_marks || carried.iter().zip(wanted).zip(lrh16b::MAY_CHANGE).any(differs) {
        return Err(Fault::L2);
    }
    Ok(())
}

fn icrc(carried: &[u8], bth: usize) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[carried[HEADER] | SC]);
    crc.update(&carried[HEADER + 1..bth + 4]);
    crc.update(&[carried[bth + 4] | MARKS]);
    crc.update(&carried[bth + 5..carried.len() - ICRC]);
    crc.finalize()
}

/// Where the MAD begins in a packet of L4 0x08.
#[cold]
pub fn mad_at(carried: &[u8]) -> Option<usize> {
    bth_at(carried).map(|bth| bth + BTH + DETH)
}

/// A packet that links carry as its receiver has it: LRH to ICRC, with the SC and the marks of its head.
#[cold]
pub fn bare(carried: &[u8]) -> Vec<u8> {
    let mut packet = carried[HEADER..].to_vec();
    if let Some(bth) = bth_at(carried) {
        packet[0] |= (lrh16b::SC.get(carried) as u8) << 4;
        let marks = lrh16b::FECN.get(carried) << 7 | lrh16b::BECN.get(carried) << 6;
        packet[bth - HEADER + 4] |= marks as u8;
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of a reliable connection, as hfi1 has sent it, behind a head on SC 3 with FECN.
    fn acknowledgement() -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        let bare = [0, 2, 0, 1, 0, 7, 0, 2, 0x11, 0x40, 0x80, 1, 0, 0, 0, 6, 0, 0x2f, 0x5d, 0xcf];
        packet.extend(bare.iter().chain(&[0x11, 0, 0, 1, 0, 0, 0, 0]));
        let bth = HEADER + LRH;
        let head = head(&packet, bth);
        packet[..HEADER].copy_from_slice(&head);
        packet[6] |= 3 << 4;
        packet[7] |= 0x10;
        let end = packet.len() - ICRC;
        let value = icrc(&packet, bth);
        packet[end..].copy_from_slice(&value.to_le_bytes());
        packet
    }

    #[test]
    fn every_bit_but_those_that_may_change_is_checked() {
        let packet = acknowledgement();
        assert_eq!(crate::check(&packet, true), Ok(()));
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let may_change = bit < HEADER * 8 && lrh16b::MAY_CHANGE[bit / 8] >> (bit % 8) & 1 == 1;
            assert_eq!(crate::check(&damaged, true).is_ok(), may_change, "bit {bit}");
        }
        for len in 0..packet.len() {
            assert!(crate::check(&packet[..len], true).is_err());
        }
    }

    #[test]
    fn a_receiver_gets_the_service_channel_and_the_marks() {
        let bare = bare(&acknowledgement());
        assert_eq!((bare[0], bare[LRH + 4]), (0x30, 0x80));
        assert_eq!(bare.len(), 28);
    }
}
