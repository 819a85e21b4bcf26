//! The virtio-net header that a TAP with IFF_VNET_HDR puts before each frame: checksum and segmentation offload.

/// Bytes of the header in the TAP's default form (no mergeable buffers).
pub const SIZE: usize = 10;

pub const NEEDS_CSUM: u8 = 1;
pub const DATA_VALID: u8 = 2;
pub const GSO_NONE: u8 = 0;
pub const GSO_TCPV4: u8 = 1;
pub const GSO_TCPV6: u8 = 4;
pub const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// One header; 16-bit fields are in the machine's byte order, as the TAP has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Read a header; `data` holds at least `SIZE` bytes.
    #[inline]
    pub fn parse(data: &[u8; SIZE]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
        VnetHeader {
            flags: data[0],
            gso_type: data[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    #[inline]
    pub fn build(&self) -> [u8; SIZE] {
        let mut data = [0; SIZE];
        data[0] = self.flags;
        data[1] = self.gso_type;
        data[2..4].copy_from_slice(&self.hdr_len.to_ne_bytes());
        data[4..6].copy_from_slice(&self.gso_size.to_ne_bytes());
        data[6..8].copy_from_slice(&self.csum_start.to_ne_bytes());
        data[8..10].copy_from_slice(&self.csum_offset.to_ne_bytes());
        data
    }

    /// The segmentation type without its ECN bit.
    #[inline]
    pub fn gso(&self) -> u8 {
        self.gso_type & !GSO_ECN
    }

    #[inline]
    pub fn needs_csum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }
}
