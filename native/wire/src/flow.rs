//! The flow of a frame, which spreads traffic over paths: its entropy comes from here.

use crate::frame::{IPV4, IPV6, Parsed, TCP, UDP, be16};

/// Return the hash of the flow: CRC-32 over addresses, types and ports, as opavnic/vnic/flow.py defines it.
#[inline]
pub fn flow_hash(frame: &[u8], parsed: &Parsed) -> u32 {
    let mut tuple = [0u8; 14 + 33 + 4];
    tuple[0..6].copy_from_slice(&frame[6..12]);
    tuple[6..12].copy_from_slice(&frame[0..6]);
    tuple[12..14].copy_from_slice(&parsed.ethertype.to_be_bytes());
    let ip = &frame[parsed.l3..];
    let addresses = match parsed.ethertype {
        IPV4 if ip.len() >= 20 => &ip[12..20],
        IPV6 if ip.len() >= 40 => &ip[8..40],
        _ => return crc32fast::hash(&tuple[..14]),
    };
    let mut len = 14 + addresses.len();
    tuple[14..len].copy_from_slice(addresses);
    tuple[len] = parsed.protocol;
    len += 1;
    if let Some(ports) = ports(ip, parsed) {
        tuple[len..len + 4].copy_from_slice(ports);
        len += 4;
    }
    crc32fast::hash(&tuple[..len])
}

/// Both ports of an unfragmented TCP or UDP packet, for any value of the version field.
#[inline]
fn ports<'a>(ip: &'a [u8], parsed: &Parsed) -> Option<&'a [u8]> {
    if parsed.protocol != TCP && parsed.protocol != UDP {
        return None;
    }
    let at = if parsed.ethertype == IPV4 {
        let at = usize::from(ip[0] & 0xf) * 4;
        if at < 20 || be16(ip, 6) & 0x3fff != 0 {
            return None;
        }
        at
    } else {
        40
    };
    ip.get(at..at + 4)
}
