//! The receive ring of a packet socket (PACKET_MMAP, TPACKET_V3): the kernel fills blocks with frames, we hand them back.
//!
//! Source: the Linux kernel's documentation of packet_mmap, and its header linux/if_packet.h.

use std::io::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use offload::vnet::{SIZE, VnetHeader};

/// Bytes of a block: three of the largest frames that an interface can hand over (64 KiB, merged), or a thousand small ones.
const BLOCK: usize = 256 << 10;
/// Blocks in the ring: 16 MiB that can wait while another program has the processor.
const BLOCKS: usize = 64;
/// After so many milliseconds the kernel hands over a block that is not full. It knows no shorter time.
const RETIRE_MS: u32 = 1;
/// The kernel divides blocks by this, although frames of version 3 lie as they come.
const FRAME: usize = 2048;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Where the MAC addresses of a frame end.
const ADDRESSES: usize = 12;

/// See the module.
pub struct Ring {
    memory: NonNull<u8>,
    /// The block that the kernel hands over next.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, wherever it goes
unsafe impl Send for Ring {}

impl Ring {
    /// Give a packet socket a ring. It must not receive yet: what waits in its queue would be lost.
    pub fn new(fd: RawFd) -> Result<Self> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(fd, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as _,
            tp_block_nr: BLOCKS as _,
            tp_frame_size: FRAME as _,
            tp_frame_nr: (BLOCKS * (BLOCK / FRAME)) as _,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(fd, libc::PACKET_RX_RING, &request)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, of as many bytes as the ring has; the kernel refuses a wrong descriptor
        let memory = unsafe { libc::mmap(null_mut(), BLOCK * BLOCKS, access, flags, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| Error::other("the ring lies at address 0"))?;
        Ok(Ring { memory, next: 0 })
    }

    /// Return the block that the kernel has handed over, None while there is none.
    pub fn block(&mut self) -> Option<Block<'_>> {
        // SAFETY: `next` is below the number of blocks
        let start = unsafe { self.memory.add(self.next * BLOCK) };
        let block = Block { start, next: &mut self.next, frames: PhantomData };
        (block.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(block)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which nothing points any more
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}

fn set<T>(fd: RawFd, option: libc::c_int, value: &T) -> Result<()> {
    let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: pointer and length of a live value, which the kernel only reads
    let result = unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, value, len) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// A block that is ours until it is dropped.
pub struct Block<'a> {
    start: NonNull<u8>,
    next: &'a mut usize,
    frames: PhantomData<&'a mut [u8]>,
}

impl Block<'_> {
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a block begins with its header, whose address is a multiple of 8; the kernel writes the status as a
        // whole
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).hdr.bh1.block_status) }
    }

    fn header(&self) -> *mut libc::tpacket_block_desc {
        self.start.as_ptr().cast()
    }

    /// Visit the frames in the order of their arrival, each once.
    pub fn frames(&mut self) -> Frames<'_> {
        // SAFETY: the kernel has filled in the header of a block that is ours
        let header = unsafe { (*self.header()).hdr.bh1 };
        Frames {
            block: self.start,
            at: header.offset_to_first_pkt as usize,
            left: header.num_pkts,
            frames: PhantomData,
        }
    }
}

impl Drop for Block<'_> {
    /// Hand the block back to the kernel.
    fn drop(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        *self.next = (*self.next + 1) % BLOCKS;
    }
}

/// See `Block::frames`.
pub struct Frames<'a> {
    block: NonNull<u8>,
    at: usize,
    left: u32,
    frames: PhantomData<&'a mut [u8]>,
}

/// A frame in a block. In front of it there is room for a virtio-net header.
pub struct Frame<'a> {
    pub header: VnetHeader,
    pub bytes: &'a mut [u8],
    /// Whether the kernel left out its end, because it is longer than a block.
    pub is_cut: bool,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: the kernel says where in the block a frame's header lies, and where the frame; no two frames overlap,
        // and in front of a frame lies what the socket's option asked for, a virtio-net header
        unsafe {
            let at = self.block.add(self.at);
            let head: libc::tpacket3_hdr = at.cast().read();
            self.at += head.tp_next_offset as usize;
            let start = at.add(usize::from(head.tp_mac));
            let header = VnetHeader::parse(&start.sub(SIZE).cast().read());
            let bytes = std::slice::from_raw_parts_mut(start.as_ptr(), head.tp_snaplen as usize);
            let is_cut = head.tp_snaplen < head.tp_len;
            let mut frame = Frame { header, bytes, is_cut };
            if head.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && frame.bytes.len() >= ADDRESSES {
                let kind = if head.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
                    head.hv1.tp_vlan_tpid
                } else {
                    libc::ETH_P_8021Q as u16
                };
                frame.complete();
                let longer = std::slice::from_raw_parts_mut(start.sub(TAG).as_ptr(), frame.bytes.len() + TAG);
                put_tag(longer, kind, head.hv1.tp_vlan_tci as u16);
                frame = Frame { header: VnetHeader::default(), bytes: longer, is_cut };
            }
            Some(frame)
        }
    }
}

impl Frame<'_> {
    /// Fill in the checksum that the kernel left to the interface, as the header says.
    pub fn complete(&mut self) {
        crate::packet::complete(&self.header, self.bytes);
    }
}

/// Put the tag, which the kernel keeps beside a frame, back into it. Its place is in front.
fn put_tag(frame: &mut [u8], kind: u16, tci: u16) {
    frame.copy_within(TAG..TAG + ADDRESSES, 0);
    frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
    frame[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tci.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_goes_behind_the_addresses() {
        let mut frame: Vec<u8> = (0..30).collect();
        put_tag(&mut frame, 0x8100, 0x6005);
        assert_eq!(frame[..12], [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(frame[12..20], [0x81, 0, 0x60, 5, 16, 17, 18, 19]);
    }

    #[test]
    fn descriptor_that_is_no_packet_socket_gets_no_ring() {
        assert!(Ring::new(0).is_err());
    }
}
