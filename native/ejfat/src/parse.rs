//! Parses a frame once: headers up to UDP, and the load balancer headers of version 1 and of versions 2 and 3. Accepts
//! any bytes.

use std::ops::Range;

use wire::frame::{IPV4, IPV6, UDP, be16};

use crate::drops::Drop;
use crate::fields::{LB_MAGIC, LB_PORT, SYNC_MAGIC, lb_v1, lb_v23};

const VLAN: u16 = 0x8100;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
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
    /// A frame that the load balancer answers itself or passes to the host: not for the fast path.
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
    /// Bytes behind the header by its length field, not by the size of the frame; below 0 if the field is too small.
    pub claimed: i32,
}

/// The parsed headers of a frame, up to UDP. All decisions use them, never bytes at fixed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// As at byte 12: that of the VLAN tag where there is one.
    pub ethertype: u16,
    /// Bytes of the VLAN tag: 0 or 4. All offsets behind it are as if it were not there.
    pub tag: usize,
    /// Behind the tag.
    inner: u16,
    /// None: neither IPv4 nor IPv6.
    ip: Result<Option<Ip>, Drop>,
    /// Destination port, where a whole UDP header follows.
    port: Option<u16>,
}

/// Parse the headers of a frame.
#[inline]
pub fn headers(frame: &[u8]) -> Headers {
    if frame.len() < 14 {
        return Headers { ethertype: 0, tag: 0, inner: 0, ip: Err(Drop::ParserShortEthernet), port: None };
    }
    let ethertype = be16(frame, 12);
    let tag = if ethertype == VLAN { TAG } else { 0 };
    if frame.len() < 14 + tag {
        return Headers { ethertype, tag: 0, inner: ethertype, ip: Err(Drop::ParserShortVlan), port: None };
    }
    let frame = &frame[tag..];
    let inner = be16(frame, 12);
    let ip = ip(frame, inner);
    let port = match ip {
        Ok(Some(ip)) if ip.has_udp(frame) => Some(be16(frame, ip.l4 + UDP_DST_PORT)),
        _ => None,
    };
    Headers { ethertype, tag, inner, ip, port }
}

impl Ip {
    #[inline]
    fn has_udp(&self, frame: &[u8]) -> bool {
        self.protocol == UDP && !self.later_fragment && frame.len() >= self.l4 + UDP_SIZE
    }
}

impl Headers {
    /// The IP header of an untagged frame, the only one that version 1, sync messages and the node know.
    #[inline]
    fn untagged(&self) -> Option<Ip> {
        if self.ethertype == VLAN { None } else { self.ip.ok().flatten() }
    }

    /// UDP port and payload of an untagged frame.
    #[inline]
    fn datagram<'a>(&self, frame: &'a [u8]) -> Option<(u16, &'a [u8])> {
        Some((self.port?, &frame[self.untagged()?.l4 + UDP_SIZE..]))
    }

    /// Whether this is UDP to port 19522 with a version 1 header behind it.
    #[inline]
    pub fn has_v1_header(&self, frame: &[u8]) -> bool {
        self.datagram(frame).is_some_and(|(port, lb)| {
            port == LB_PORT
                && lb.len() > lb_v1::VERSION
                && be16(lb, lb_v1::MAGIC) == LB_MAGIC
                && lb[lb_v1::VERSION] == 1
        })
    }

    /// Whether a frame is for the node around the pipeline: a sync message, or a reply to one of its requests.
    #[inline]
    pub fn is_for_node(&self, frame: &[u8], sync_ports: &Range<u32>) -> bool {
        self.ethertype == ARP
            || self.untagged().is_some_and(|ip| ip.v6 && ip.protocol == ICMPV6)
            || self.datagram(frame).is_some_and(|(port, payload)| {
                sync_ports.contains(&u32::from(port)) && payload.len() >= 2 && be16(payload, 0) == SYNC_MAGIC
            })
    }
}

/// Return the IP header at byte 14, why it is invalid, or None if the frame is neither IPv4 nor IPv6.
#[inline]
fn ip(frame: &[u8], ethertype: u16) -> Result<Option<Ip>, Drop> {
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

/// Parse version 1: where UDP begins (None: it is no UDP), and the destination IP.
#[inline]
pub fn v1(frame: &[u8], headers: &Headers) -> Result<(Option<usize>, u128), Drop> {
    let len = frame.len();
    if headers.ethertype == VLAN {
        return Ok((None, 0));
    }
    let Some(ip) = headers.ip? else { return Ok((None, 0)) };
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
    if headers.port.ok_or(Drop::ParserShortUdp)? != LB_PORT {
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

/// Parse versions 2 and 3. `frame` begins `headers.tag` bytes later than it came.
#[inline]
pub fn v23(frame: &[u8], headers: &Headers) -> Result<Found, Drop> {
    let Some(ip) = headers.ip? else {
        return if matches!(headers.inner, ARP | SLOW | LLDP) {
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
    if ip.protocol == UDP { udp(frame, ip, headers.port) } else { Ok(Found::Other) }
}

#[inline]
fn udp(frame: &[u8], ip: Ip, port: Option<u16>) -> Result<Found, Drop> {
    let Ip { v6, l4, claimed, .. } = ip;
    let len = frame.len();
    if port.ok_or(Drop::ParserShortUdp)? >> 14 != 1 {
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
