//! What the datapath needs to know of an Ethernet frame: tags, network header, flow.

/// Offsets and types found in one frame. An offset of 0 means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Ethertype behind all VLAN tags.
    pub ethertype: u16,
    /// Where the network header begins.
    pub l3: usize,
    /// PCP of the outer tag, where the frame has one.
    pub pcp: Option<u8>,
    /// IP protocol, or the first IPv6 next header; 0 for anything else.
    pub protocol: u8,
    /// Where TCP or UDP begins, if it does and the packet is no fragment.
    pub l4: usize,
}

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

#[inline]
pub fn be16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

#[inline]
fn is_vlan(ethertype: u16) -> bool {
    ethertype == 0x8100 || ethertype == 0x88a8
}

/// Parse any bytes; what is missing stays 0.
#[inline]
pub fn parse(frame: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    if frame.len() < 14 {
        return parsed;
    }
    let mut at = 12;
    let mut ethertype = be16(frame, at);
    while is_vlan(ethertype) && frame.len() >= at + 6 {
        if parsed.pcp.is_none() {
            parsed.pcp = Some(frame[at + 2] >> 5);
        }
        at += 4;
        ethertype = be16(frame, at);
    }
    parsed.ethertype = ethertype;
    parsed.l3 = at + 2;
    let ip = &frame[parsed.l3..];
    match ethertype {
        IPV4 if ip.len() > 9 => {
            // the driver reads the protocol without checking the version
            parsed.protocol = ip[9];
            if ip.len() < 20 || ip[0] >> 4 != 4 {
                return parsed;
            }
            let ihl = usize::from(ip[0] & 0xf) * 4;
            let fragment = be16(ip, 6) & 0x3fff != 0;
            if ihl >= 20 && !fragment && carries_ports(ip[9], ip.len(), ihl) {
                parsed.l4 = parsed.l3 + ihl;
            }
        }
        IPV6 if ip.len() > 6 => {
            parsed.protocol = ip[6];
            if ip[0] >> 4 == 6 && carries_ports(ip[6], ip.len(), 40) {
                parsed.l4 = parsed.l3 + 40;
            }
        }
        _ => {}
    }
    parsed
}

#[inline]
fn carries_ports(protocol: u8, len: usize, at: usize) -> bool {
    match protocol {
        TCP => len >= at + 20,
        UDP => len >= at + 8,
        _ => false,
    }
}

/// Whether bytes 12.. of a frame say VLAN (0x8100 or 0x88a8), as the counters ask.
#[inline]
pub fn is_tagged(frame: &[u8]) -> bool {
    frame.len() >= 14 && matches!(be16(frame, 12), 0x8100 | 0x88a8)
}
