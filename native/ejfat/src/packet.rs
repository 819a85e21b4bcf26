//! The thread of a packet socket: frames in, through the station, out, in as few calls as possible.

use std::io::Result;
use std::os::fd::RawFd;

use offload::checksum::{fold, put, sum};
use offload::segment::Segments;
use offload::vnet::{GSO_UDP_L4, SIZE, VnetHeader};
use wire::frame::parse;

use crate::incoming::{Frame, Incoming};
use crate::outgoing::Outgoing;
use crate::port::{DOWN_MS, FOREVER, Inside, QUEUE_MS, gone, is_gone, wait};
use crate::station::{Burst, Station};

/// Bytes for datagrams that arrived as one frame and leave one by one.
const ARENA: usize = 256 << 10;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A worker of a port on a packet socket.
pub struct Worker<'a, S: Station> {
    inside: &'a Inside<S>,
    number: usize,
    fd: RawFd,
    outgoing: Outgoing,
    arena: Vec<u8>,
    used: usize,
}

impl<'a, S: Station> Worker<'a, S> {
    pub fn new(inside: &'a Inside<S>, number: usize, fd: RawFd) -> Self {
        Worker { inside, number, fd, outgoing: Outgoing::new(), arena: vec![0; ARENA], used: 0 }
    }

    /// Carry frames until the port stops.
    pub fn run(&mut self) -> Result<()> {
        let mut incoming = Incoming::new();
        // A packet socket reports once that its interface went down, but not that the interface is removed later.
        // Earlier frames may still be waiting, so from then on the interface is polled.
        let mut patience_ms = FOREVER;
        loop {
            let is_told = wait(self.fd, libc::POLLIN, &self.inside.wake, patience_ms)?;
            if self.inside.is_stopped() {
                return Ok(());
            }
            if !is_told {
                if is_gone(self.fd) {
                    return Err(gone());
                }
                continue;
            }
            // what waits stays there, and is not missed, while the station is paused
            let burst = self.inside.begin(self.number);
            match incoming.receive(self.fd) {
                Ok(count) => self.carry(burst, &mut incoming, count)?,
                Err(error) => {
                    drop(burst);
                    if error.raw_os_error() == Some(libc::ENETDOWN) {
                        patience_ms = DOWN_MS;
                    }
                    self.inside.endure(self.fd, error)?;
                }
            }
        }
    }

    fn carry(&mut self, mut burst: S::Burst<'a>, incoming: &mut Incoming, count: usize) -> Result<()> {
        for index in 0..count {
            let Some(frame) = incoming.frame(index) else { continue };
            let is_merged = frame.header.gso() == GSO_UDP_L4 && frame.bytes.len() >= ETHERNET;
            burst =
                if is_merged { self.take_datagrams(burst, frame)? } else { self.take(burst, frame.bytes)? };
        }
        drop(burst);
        self.send()
    }

    /// Take a frame; what leaves of it stays where it is until it is sent.
    fn take(&mut self, burst: S::Burst<'a>, frame: &mut [u8]) -> Result<S::Burst<'a>> {
        let mut burst = self.with_room(burst, 0)?;
        if let Some(range) = burst.take(frame) {
            // SAFETY: there is room for a header in front of each frame, and its place is used again after it is sent
            unsafe {
                let start = frame.as_mut_ptr().add(range.start).sub(SIZE);
                self.outgoing.push(start, range.len() + SIZE);
            }
        }
        Ok(burst)
    }

    /// Take datagrams that were sent in one call, each as it would be on a wire.
    fn take_datagrams(&mut self, mut burst: S::Burst<'a>, frame: Frame<'_>) -> Result<S::Burst<'a>> {
        let parsed = parse(frame.bytes);
        let Ok(mut segments) = Segments::new(frame.bytes, &frame.header, &parsed) else {
            return self.take(burst, frame.bytes);
        };
        while let Some(len) = segments.next_len() {
            burst = self.with_room(burst, SIZE + len)?;
            let place = &mut self.arena[self.used..][..SIZE + len];
            let segment = &mut place[SIZE..];
            segments.write_next(segment);
            if let Some(range) = burst.take(segment) {
                let start = &mut place[range.start..];
                // SAFETY: this part of the arena is used once until what lies there is sent
                unsafe { self.outgoing.push(start.as_mut_ptr(), range.len() + SIZE) };
                self.used += SIZE + len;
            }
        }
        Ok(burst)
    }

    /// Make room for a frame, with so many bytes of the arena; others may use the station while what waits is sent.
    fn with_room(&mut self, burst: S::Burst<'a>, bytes: usize) -> Result<S::Burst<'a>> {
        if !self.outgoing.is_full() && self.used + bytes <= ARENA {
            return Ok(burst);
        }
        drop(burst);
        self.send()?;
        Ok(self.inside.begin(self.number))
    }

    /// Send the frames. Those that the interface does not accept in time are lost.
    fn send(&mut self) -> Result<()> {
        let (mut done, mut has_waited) = (0, false);
        while done < self.outgoing.count() {
            match self.outgoing.send(self.fd, done) {
                Ok(count) => (done, has_waited) = (done + count, false),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && !has_waited => {
                    wait(self.fd, libc::POLLOUT, &self.inside.wake, QUEUE_MS)?;
                    has_waited = true;
                }
                Err(_) => {
                    // this one is refused: too long, or the queue stays full; those behind it may pass
                    self.inside.lose(1);
                    (done, has_waited) = (done + 1, false);
                }
            }
        }
        self.outgoing.clear();
        self.used = 0;
        Ok(())
    }
}

/// Fill in the checksum that the kernel left to the interface, as the virtio-net header says.
pub fn complete(header: &VnetHeader, frame: &mut [u8]) {
    let start = usize::from(header.csum_start);
    let at = start + usize::from(header.csum_offset);
    if !header.needs_csum() || at + 2 > frame.len() {
        return;
    }
    // the field holds the sum of the pseudo header: the checksum goes over it as it is
    let value = !fold(sum(&frame[start..]));
    put(frame, at, if value == 0 { 0xffff } else { value });
}

#[cfg(test)]
mod tests {
    use super::*;
    use offload::checksum::get;
    use offload::vnet::NEEDS_CSUM;

    #[test]
    fn complete_fills_in_what_the_header_asks_for_and_nothing_else() {
        let mut frame = vec![0u8; 60];
        frame[34..42].copy_from_slice(&[0x30, 0x39, 0x4c, 0x42, 0, 8, 0x12, 0x34]);
        let before = frame.clone();
        complete(&VnetHeader::default(), &mut frame);
        assert_eq!(frame, before);
        let header =
            VnetHeader { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 6, ..VnetHeader::default() };
        complete(&header, &mut frame);
        let pseudo_header = u64::from(get(&before, 40));
        assert_eq!(fold(sum(&frame[34..]) + pseudo_header), 0xffff, "sums to all ones");
        let beyond = VnetHeader { csum_start: 59, ..header };
        let before = frame.clone();
        complete(&beyond, &mut frame);
        assert_eq!(frame, before);
    }
}
