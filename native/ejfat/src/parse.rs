//! The two parsers: the document's (version 1) and today's (versions 2 and 3). Any bytes are fine.

use std::ops::Range;

use wire::frame::{IPV4, IPV6, UDP, be16};

use crate::drops::Drop;
use crate::fields::{LB_MAGIC, LB_PORT, SYNC_MAGIC, lb_v1, lb_v23};

pub const VLAN: u16 = 0x8100;
const ARP: u16 = 0x0806;
const SLOW: u16 = 0x8809;
const LLDP: u16 = 0x88cc;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Where the fields of a UDP header begin, and its size.
pub const UDP_DST_PORT: usize = 2;
pub const UDP_LENGTH: usize = 4;
pub const UDP_CHECKSUM: usize = 6;
pub const UDP_SIZE: usize = 8;

/// What today's parser found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// UDP: IPv6 or not, where UDP begins, whether a load balancer header follows.
    Udp { v6: bool, l4: usize, lb: bool },
    /// What the load balancer answers itself, or hands to the host: not for the fast path.
    Other,
}

/// Where the UDP header of an untagged frame begins: behind all of IPv4's options, or behind IPv6; None where it is no
/// UDP, or a fragment behind the first.
#[inline]
pub fn udp_of(frame: &[u8]) -> Option<usize> {
    let udp = match frame.get(12..14)? {
        [0x08, 0x00] => {
            let header = ipv4(frame).ok()?;
            if frame[23] != UDP || be16(frame, 20) & 0x1fff != 0 {
                return None;
            }
            14 + header
        }
        [0x86, 0xdd] => {
            ipv6(frame).ok()?;
            if frame[20] != UDP {
                return None;
            }
            54
        }
        _ => return None,
    };
    (frame.len() >= udp + UDP_SIZE).then_some(udp)
}

/// Whether this is UDP to port 19522 with a version 1 header behind it.
#[inline]
pub fn has_v1_header(frame: &[u8]) -> bool {
    udp_of(frame).is_some_and(|udp| {
        let lb = udp + UDP_SIZE;
        be16(frame, udp + UDP_DST_PORT) == LB_PORT
            && frame.len() > lb + lb_v1::VERSION
            && be16(frame, lb + lb_v1::MAGIC) == LB_MAGIC
            && frame[lb + lb_v1::VERSION] == 1
    })
}

/// Whether this is UDP to one of the ports for sync messages, and begins as one.
#[inline]
fn is_sync(frame: &[u8], ports: &Range<u32>) -> bool {
    udp_of(frame).is_some_and(|udp| {
        ports.contains(&u32::from(be16(frame, udp + UDP_DST_PORT)))
            && frame.len() >= udp + UDP_SIZE + 2
            && be16(frame, udp + UDP_SIZE) == SYNC_MAGIC
    })
}

/// Whether a frame is for the node around the pipeline: a sync message, an answer to its own questions.
#[inline]
pub fn is_for_node(frame: &[u8], sync_ports: &Range<u32>) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x06]) => true,
        Some([0x86, 0xdd]) if frame.get(20) == Some(&ICMPV6) => true,
        _ => is_sync(frame, sync_ports),
    }
}

/// Parse as the document's pipeline does: where UDP begins (None: it is no UDP), and the destination IP.
#[inline]
pub fn v1(frame: &[u8]) -> Result<(Option<usize>, u128), Drop> {
    let len = frame.len();
    if len < 14 {
        return Err(Drop::ParserShortEthernet);
    }
    let (udp, ip_dst, shortest, claimed);
    match be16(frame, 12) {
        IPV4 => {
            let header = ipv4(frame)?;
            udp = 14 + header;
            ip_dst = u128::from(u32::from_be_bytes(frame[30..34].try_into().expect("four bytes")));
            if frame[23] != UDP {
                return Ok((None, ip_dst));
            }
            if be16(frame, 20) & 0x1fff != 0 {
                return Err(Drop::ParserFragment);
            }
            shortest = header + UDP_SIZE + lb_v1::SIZE;
            claimed = usize::from(be16(frame, 16));
        }
        IPV6 => {
            ipv6(frame)?;
            udp = 54;
            ip_dst = u128::from_be_bytes(frame[38..54].try_into().expect("sixteen bytes"));
            if frame[20] != UDP {
                return Ok((None, ip_dst));
            }
            shortest = UDP_SIZE + lb_v1::SIZE;
            claimed = usize::from(be16(frame, 18));
        }
        _ => return Ok((None, 0)),
    }
    if len < udp + UDP_SIZE {
        return Err(Drop::ParserShortUdp);
    }
    if be16(frame, udp + UDP_DST_PORT) != LB_PORT {
        return Ok((Some(udp), ip_dst));
    }
    let lb = udp + UDP_SIZE;
    if len < lb + lb_v1::SIZE {
        return Err(Drop::ParserShortUdplb);
    }
    if be16(frame, lb + lb_v1::MAGIC) != LB_MAGIC {
        return Err(Drop::ParserBadMagic);
    }
    if frame[lb + lb_v1::VERSION] != 1 {
        return Err(Drop::ParserBadVersion);
    }
    if claimed < shortest || usize::from(be16(frame, udp + UDP_LENGTH)) < UDP_SIZE + lb_v1::SIZE {
        return Err(Drop::ParserBadLength);
    }
    Ok((Some(udp), ip_dst))
}

/// Return the length of the IPv4 header.
#[inline]
fn ipv4(frame: &[u8]) -> Result<usize, Drop> {
    if frame.len() < 34 {
        return Err(Drop::ParserShortIpv4);
    }
    let header = 4 * usize::from(frame[14] & 15);
    if frame[14] >> 4 != 4 || header < 20 {
        return Err(Drop::ParserInvalidIp);
    }
    if frame.len() < 14 + header {
        return Err(Drop::ParserShortIpv4Options);
    }
    Ok(header)
}

#[inline]
fn ipv6(frame: &[u8]) -> Result<(), Drop> {
    if frame.len() < 54 {
        return Err(Drop::ParserShortIpv6);
    }
    if frame[14] >> 4 != 6 {
        return Err(Drop::ParserInvalidIp);
    }
    Ok(())
}

/// Parse as today's pipeline does. `frame` holds at least 14 bytes; of a tagged one the tag is gone, and `ethertype`
/// is the inner one.
#[inline]
pub fn v23(frame: &[u8], ethertype: u16) -> Result<Found, Drop> {
    match ethertype {
        IPV4 => {
            let header = ipv4(frame)?;
            let protocol = frame[23];
            if protocol != ICMP && protocol != UDP {
                return Err(Drop::ParserProtocol);
            }
            if be16(frame, 20) & 0x1fff != 0 {
                return Err(Drop::ParserFragment);
            }
            if protocol == ICMP {
                return Ok(Found::Other);
            }
            udp(frame, 14 + header, false, i32::from(be16(frame, 16)) - header as i32)
        }
        IPV6 => {
            ipv6(frame)?;
            match frame[20] {
                UDP => udp(frame, 54, true, i32::from(be16(frame, 18))),
                ICMPV6 => Ok(Found::Other),
                _ => Err(Drop::ParserProtocol),
            }
        }
        ARP | SLOW | LLDP => Ok(Found::Other),
        _ => Err(Drop::ParserEtherType),
    }
}

#[inline]
fn udp(frame: &[u8], l4: usize, v6: bool, ip_len: i32) -> Result<Found, Drop> {
    let len = frame.len();
    if len < l4 + UDP_SIZE {
        return Err(Drop::ParserShortUdp);
    }
    if frame[l4 + UDP_DST_PORT] >> 6 != 1 {
        return Ok(Found::Udp { v6, l4, lb: false });
    }
    let lb = l4 + UDP_SIZE;
    if len < lb + lb_v23::SLOT_SELECT {
        return Err(Drop::ParserShortUdplb);
    }
    if be16(frame, lb + lb_v23::MAGIC) != LB_MAGIC {
        return Err(Drop::ParserBadMagic);
    }
    if !matches!(frame[lb + lb_v23::VERSION], 2 | 3) {
        return Err(Drop::ParserBadVersion);
    }
    if len < lb + lb_v23::SIZE {
        return Err(Drop::ParserShortUdplb);
    }
    let shortest = (UDP_SIZE + lb_v23::SIZE) as i32;
    if ip_len < shortest || i32::from(be16(frame, l4 + UDP_LENGTH)) < shortest {
        return Err(Drop::ParserBadLength);
    }
    Ok(Found::Udp { v6, l4, lb: true })
}
