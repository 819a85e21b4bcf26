//! Frames to send on a packet socket: many in one call (sendmmsg), each from its own place.
//!
//! A transmit ring would save little: the kernel copies what lies in it as soon as a frame is to live longer than its
//! place there, as on a veth.

use std::io::{Error, Result};
use std::os::fd::RawFd;

use offload::vnet::SIZE;

/// Frames in one call at most.
const MOST: usize = 64;

/// Frames to send, each behind a virtio-net header without offloads.
pub struct Outgoing {
    vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Outgoing {
    pub fn new() -> Self {
        Outgoing { vectors: Vec::with_capacity(MOST), messages: Vec::with_capacity(MOST) }
    }

    pub fn is_full(&self) -> bool {
        self.vectors.len() == MOST
    }

    pub fn count(&self) -> usize {
        self.vectors.len()
    }

    /// Add a frame, whose bytes stay as they are until `clear`. Its first bytes are the header's place.
    ///
    /// # Safety
    /// `with_header` points to `len` bytes that no other code reads or writes until `clear`.
    pub unsafe fn push(&mut self, with_header: *mut u8, len: usize) {
        debug_assert!(len > SIZE && !self.is_full());
        // SAFETY: the caller gives these bytes away
        unsafe { with_header.write_bytes(0, SIZE) };
        self.vectors.push(libc::iovec { iov_base: with_header.cast(), iov_len: len });
    }

    /// Send, from a frame on, as many as the kernel takes at once; return how many.
    pub fn send(&mut self, fd: RawFd, from: usize) -> Result<usize> {
        self.messages.clear();
        for vector in &mut self.vectors[from..] {
            // SAFETY: all zero bytes are a valid value of this plain C structure
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            self.messages.push(message);
        }
        let (messages, flags) = (self.messages.as_mut_ptr(), libc::MSG_DONTWAIT as _);
        // SAFETY: pointer and length of a live list, whose entries point to bytes that `push` was promised
        let count = unsafe { libc::sendmmsg(fd, messages, self.messages.len() as _, flags) };
        if count < 0 { Err(Error::last_os_error()) } else { Ok(count as usize) }
    }

    pub fn clear(&mut self) {
        self.vectors.clear();
    }
}
