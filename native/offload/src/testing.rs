//! Large sends for tests.

use crate::checksum::{fold, sum};
use crate::vnet::{self, VnetHeader};

/// A frame of TCP or UDP over IPv4 or IPv6 as the kernel passes it: without checksums.
#[derive(Clone, Copy, Debug)]
pub struct LargeSend {
    pub ipv6: bool,
    pub tcp: bool,
    /// VLAN tags.
    pub tags: usize,
    pub payload: usize,
    /// Payload of a segment.
    pub size: u16,
}

impl LargeSend {
    /// The virtio-net header and the frame behind it.
    pub fn build(&self) -> (VnetHeader, Vec<u8>) {
        let mut frame = vec![6, 0x2c, 0, 2, 0, 0, 6, 0x2c, 0, 1, 0, 0];
        for tag in 0..self.tags {
            frame.extend([0x81, 0, 0x60, tag as u8 + 5]);
        }
        let l4_len = if self.tcp { 32 } else { 8 } + self.payload;
        let protocol = if self.tcp { 6 } else { 17 };
        let addresses: Vec<u8> = if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            (0..32).collect()
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + l4_len as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
            vec![10, 9, 2, 1, 10, 9, 2, 2]
        };
        frame.extend(&addresses);
        let l4 = frame.len();
        frame.extend([0x13, 0x89, 0xc0, 0x01]);
        if self.tcp {
            frame.extend(0xffff_ff00u32.to_be_bytes());
            frame.extend([0, 0, 0, 7, 0x80, 0x19, 1, 2, 0, 0, 0, 0]);
            frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend((0..self.payload).map(|i| (i * 7 + i / 255) as u8));
        let pseudo =
            sum(&addresses) + u64::from(u16::from(protocol).to_be()) + u64::from((l4_len as u16).to_be());
        let field = if self.tcp { 16 } else { 6 };
        frame[l4 + field..l4 + field + 2].copy_from_slice(&fold(pseudo).to_ne_bytes());
        let gso_type = match (self.tcp, self.ipv6) {
            (true, false) => vnet::GSO_TCPV4,
            (true, true) => vnet::GSO_TCPV6,
            (false, _) => vnet::GSO_UDP_L4,
        };
        let header = VnetHeader {
            flags: vnet::NEEDS_CSUM,
            gso_type,
            hdr_len: 0,
            gso_size: self.size,
            csum_start: l4 as u16,
            csum_offset: field as u16,
        };
        (header, frame)
    }
}
