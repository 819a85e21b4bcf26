//! The two parsers, of version 1 and of versions 2 and 3, on one parse of IP. Any bytes are fine.

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

/// What the parser of versions 2 and 3 found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// UDP: IPv6 or not, where UDP begins, whether a load balancer header follows.
    Udp { v6: bool, l4: usize, lb: bool },
    /// What the load balancer answers itself, or hands to the host: not for the fast path.
    Other,
}

/// An IP header, complete with all options of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    pub v6: bool,
    /// Where the header behind it begins; extension headers of IPv6 are not followed.
    pub l4: usize,
    pub protocol: u8,
    /// Of IPv4: what stands where a header would be is payload.
    pub later_fragment: bool,
    /// Bytes behind the header by its length field, whatever the frame has; below 0 if the field is too small.
    pub claimed: i32,
}

impl Ip {
    /// Where a complete UDP header begins; None where there is none.
    #[inline]
    fn udp(&self, frame: &[u8]) -> Option<usize> {
        let is_udp = self.protocol == UDP && !self.later_fragment && frame.len() >= self.l4 + UDP_SIZE;
        is_udp.then_some(self.l4)
    }
}

/// The parse that all of the data plane shares: an IP header at byte 14, why it is none that can be parsed, or None
/// where the frame is neither IPv4 nor IPv6. What a frame is, is decided by this, never by bytes at fixed offsets.
#[inline]
pub fn ip(frame: &[u8], ethertype: u16) -> Result<Option<Ip>, Drop> {
    let len = frame.len();
    match ethertype {
        IPV4 => {
            if len < 34 {
                return Err(Drop::ParserShortIpv4);
            }
            let header = 4 * usize::from(frame[14] & 15);
            if frame[14] >> 4 != 4 || header < 20 {
                return Err(Drop::ParserInvalidIp);
            }
            if len < 14 + header {
                return Err(Drop::ParserShortIpv4Options);
            }
            Ok(Some(Ip {
                v6: false,
                l4: 14 + header,
                protocol: frame[23],
                later_fragment: be16(frame, 20) & 0x1fff != 0,
                claimed: i32::from(be16(frame, 16)) - header as i32,
            }))
        }
        IPV6 => {
            if len < 54 {
                return Err(Drop::ParserShortIpv6);
            }
            if frame[14] >> 4 != 6 {
                return Err(Drop::ParserInvalidIp);
            }
            let claimed = i32::from(be16(frame, 18));
            Ok(Some(Ip { v6: true, l4: 54, protocol: frame[20], later_fragment: false, claimed }))
        }
        _ => Ok(None),
    }
}

/// Where the UDP header of an untagged frame begins; None where it is no UDP, or a fragment behind the first.
#[inline]
fn udp_of(frame: &[u8]) -> Option<usize> {
    let ethertype = frame.get(12..14)?;
    ip(frame, be16(ethertype, 0)).ok()??.udp(frame)
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

/// Parse version 1: where UDP begins (None: it is no UDP), and the destination IP.
#[inline]
pub fn v1(frame: &[u8]) -> Result<(Option<usize>, u128), Drop> {
    let len = frame.len();
    if len < 14 {
        return Err(Drop::ParserShortEthernet);
    }
    let Some(ip) = ip(frame, be16(frame, 12))? else { return Ok((None, 0)) };
    let ip_dst = if ip.v6 {
        u128::from_be_bytes(frame[38..54].try_into().expect("sixteen bytes"))
    } else {
        u128::from(u32::from_be_bytes(frame[30..34].try_into().expect("four bytes")))
    };
    if ip.protocol != UDP {
        return Ok((None, ip_dst));
    }
    if ip.later_fragment {
        return Err(Drop::ParserFragment);
    }
    let udp = ip.l4;
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
    let shortest = (UDP_SIZE + lb_v1::SIZE) as i32;
    if ip.claimed < shortest || i32::from(be16(frame, udp + UDP_LENGTH)) < shortest {
        return Err(Drop::ParserBadLength);
    }
    Ok((Some(udp), ip_dst))
}

/// Parse versions 2 and 3. `frame` holds at least 14 bytes; of a tagged one the tag is gone, and `ethertype` is the
/// inner one.
#[inline]
pub fn v23(frame: &[u8], ethertype: u16) -> Result<Found, Drop> {
    let Some(ip) = ip(frame, ethertype)? else {
        return if matches!(ethertype, ARP | SLOW | LLDP) {
            Ok(Found::Other)
        } else {
            Err(Drop::ParserEtherType)
        };
    };
    if ip.protocol != UDP && ip.protocol != if ip.v6 { ICMPV6 } else { ICMP } {
        return Err(Drop::ParserProtocol);
    }
    if ip.later_fragment {
        return Err(Drop::ParserFragment);
    }
    if ip.protocol == UDP { udp(frame, ip) } else { Ok(Found::Other) }
}

#[inline]
fn udp(frame: &[u8], ip: Ip) -> Result<Found, Drop> {
    let Ip { v6, l4, claimed, .. } = ip;
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
    if claimed < shortest || i32::from(be16(frame, l4 + UDP_LENGTH)) < shortest {
        return Err(Drop::ParserBadLength);
    }
    Ok(Found::Udp { v6, l4, lb: true })
}
