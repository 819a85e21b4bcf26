//! Frames from a packet socket: many in one call (recvmmsg), each into a buffer of its own.
//!
//! A receive ring (TPACKET_V3) takes as much processor time for each packet, its blocks arrive a millisecond late, and
//! on Linux 6.18 some arrive only with the next frames.

use std::io::{Error, Result};
use std::os::fd::RawFd;

use offload::vnet::{GSO_NONE, SIZE, VnetHeader};

use crate::packet::complete;

/// Frames in one call at most.
pub const MOST: usize = 64;
/// The largest frame that an interface can hand over.
const FRAME: usize = (64 << 10) + 256;
/// Bytes of a VLAN tag, for which there is room in front.
const TAG: usize = 4;
const PLACE: usize = TAG + SIZE + FRAME;
/// Where the MAC addresses of a frame end.
const ADDRESSES: usize = 12;
/// Bytes for what the kernel says about a frame beside it: a header, and `tpacket_auxdata`.
const BESIDE: usize = 64;

/// Aligned as control messages must be.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Beside([u8; BESIDE]);

/// Places for the frames of one call.
pub struct Incoming {
    data: Vec<u8>,
    beside: Vec<Beside>,
    lengths: [usize; MOST],
    tags: [Option<[u8; TAG]>; MOST],
}

/// A frame, and in front of it room for a virtio-net header.
pub struct Frame<'a> {
    pub header: VnetHeader,
    pub bytes: &'a mut [u8],
}

impl Incoming {
    pub fn new() -> Self {
        Incoming {
            data: vec![0; MOST * PLACE],
            beside: vec![Beside([0; BESIDE]); MOST],
            lengths: [0; MOST],
            tags: [None; MOST],
        }
    }

    /// Take what waits; return how many frames.
    pub fn receive(&mut self, fd: RawFd) -> Result<usize> {
        // SAFETY: every pointer is to a live local or to a buffer of this value, each part of which is given once; all
        // zero bytes are a valid value of these plain C structures
        let count = unsafe {
            let mut vectors: [libc::iovec; MOST] = std::mem::zeroed();
            let mut messages: [libc::mmsghdr; MOST] = std::mem::zeroed();
            let places = self.data.chunks_exact_mut(PLACE).zip(&mut self.beside);
            for (index, (place, beside)) in places.enumerate() {
                let place = &mut place[TAG..];
                vectors[index] = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
                let header = &mut messages[index].msg_hdr;
                header.msg_iov = &raw mut vectors[index];
                header.msg_iovlen = 1;
                header.msg_control = beside.0.as_mut_ptr().cast();
                header.msg_controllen = BESIDE;
            }
            let flags = libc::MSG_DONTWAIT as _;
            let count = libc::recvmmsg(fd, messages.as_mut_ptr(), MOST as _, flags, std::ptr::null_mut());
            for (index, message) in messages[..count.max(0) as usize].iter().enumerate() {
                self.lengths[index] = message.msg_len as usize;
                self.tags[index] = tag_of(&message.msg_hdr);
            }
            count
        };
        if count < 0 { Err(Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// Return a frame as it was on the wire, but for datagrams that were merged; None where nothing came.
    pub fn frame(&mut self, index: usize) -> Option<Frame<'_>> {
        let place = &mut self.data[index * PLACE..][..TAG + self.lengths[index]];
        let start = TAG + SIZE;
        let header = VnetHeader::parse(place.get(TAG..start)?.first_chunk()?);
        if place.len() == start {
            return None;
        }
        if header.gso() == GSO_NONE {
            complete(&header, &mut place[start..]);
        }
        let Some(tag) = self.tags[index].filter(|_| place.len() >= start + ADDRESSES) else {
            return Some(Frame { header, bytes: &mut place[start..] });
        };
        put_tag(&mut place[start - TAG..], tag);
        Some(Frame { header: VnetHeader::default(), bytes: &mut place[start - TAG..] })
    }
}

/// The VLAN tag that the kernel keeps beside a frame.
///
/// # Safety
/// The control messages of `header` are as the kernel left them.
unsafe fn tag_of(header: &libc::msghdr) -> Option<[u8; TAG]> {
    // SAFETY: see above
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header);
        if control.is_null()
            || ((*control).cmsg_level, (*control).cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA)
        {
            return None;
        }
        let said: libc::tpacket_auxdata =
            libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned();
        let has = |bit: u32| said.tp_status & bit != 0;
        let kind =
            if has(libc::TP_STATUS_VLAN_TPID_VALID) { said.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), said.tp_vlan_tci.to_be_bytes());
        has(libc::TP_STATUS_VLAN_VALID).then_some([a, b, c, d])
    }
}

/// Put a tag back into a frame, in front of which there is room for it.
fn put_tag(frame: &mut [u8], tag: [u8; TAG]) {
    frame.copy_within(TAG..TAG + ADDRESSES, 0);
    frame[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_goes_behind_the_addresses() {
        let mut frame: Vec<u8> = (0..30).collect();
        put_tag(&mut frame, [0x81, 0, 0x60, 5]);
        assert_eq!(frame[..12], [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(frame[12..20], [0x81, 0, 0x60, 5, 16, 17, 18, 19]);
    }
}
