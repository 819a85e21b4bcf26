//! A thread between the pipeline and one interface: a TAP, or a packet socket (AF_PACKET) with virtio-net headers.
//! It reads a burst, runs it through the pipeline, writes what leaves.

use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use offload::checksum::{fold, put, sum};
use offload::segment::Segments;
use offload::vnet::{GSO_NONE, GSO_UDP_L4, SIZE, VnetHeader};
use tap::{self, Signal};
use wire::frame::parse;

use crate::shared::{Shared, Work};

const BURST: usize = 64;
/// The largest frame that an interface can hand over.
const FRAME: usize = (64 << 10) + 256;
/// How long a full queue of the interface is waited for before a frame is lost.
const QUEUE_MS: i32 = 10;
/// How long an interface that is down is left alone.
const DOWN_MS: i32 = 50;
const FOREVER: i32 = -1;

/// How frames are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Tap,
    Packet,
}

struct Inside {
    pipeline: Arc<Shared>,
    fd: OwnedFd,
    medium: Medium,
    stop: AtomicBool,
    wake: Signal,
    lost: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// The thread and its interface.
pub struct Port {
    inside: Arc<Inside>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Port {
    /// Take over a descriptor that does not block.
    pub fn new(pipeline: Arc<Shared>, fd: OwnedFd, medium: Medium) -> Result<Self> {
        let inside = Inside {
            pipeline,
            fd,
            medium,
            stop: AtomicBool::new(false),
            wake: Signal::new()?,
            lost: AtomicU64::new(0),
            failure: Mutex::new(None),
        };
        Ok(Port { inside: Arc::new(inside), thread: Mutex::new(None) })
    }

    pub fn start(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let inside = Arc::clone(&self.inside);
            *thread = Some(std::thread::Builder::new().name("ejfat".into()).spawn(move || {
                let failure = match catch_unwind(AssertUnwindSafe(|| inside.run())) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the native pipeline broke".to_string(),
                };
                *inside.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                inside.pipeline.notice.raise();
            })?);
        }
        Ok(())
    }

    /// End the thread after its burst, and wait for that.
    pub fn stop(&self) {
        self.inside.stop.store(true, Ordering::Release);
        self.inside.pipeline.pause(false);
        self.inside.wake.raise();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // a panic inside was caught and reported there
            let _ = thread.join();
        }
    }

    /// Frames that the interface did not take.
    pub fn lost(&self) -> u64 {
        self.inside.lost.load(Ordering::Relaxed)
    }

    /// Why the thread died, if it did.
    pub fn failure(&self) -> Option<String> {
        self.inside.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Wait until `fd` can be used or `wake` is raised; false after `timeout` ms.
fn wait(fd: RawFd, events: libc::c_short, wake: &Signal, timeout: i32) -> Result<bool> {
    let mut entries = [
        libc::pollfd { fd, events, revents: 0 },
        libc::pollfd { fd: wake.fd(), events: libc::POLLIN, revents: 0 },
    ];
    // SAFETY: pointer and length of a live array
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), 2, timeout) };
    if ready < 0 {
        let error = Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EINTR) { Ok(true) } else { Err(error) };
    }
    Ok(ready > 0)
}

fn gone() -> Error {
    Error::other("it is gone")
}

/// Whether the interface of a packet socket is there no more, and not only down.
fn is_gone(fd: RawFd) -> bool {
    // SAFETY: all zero bytes are a valid value of this plain C structure, whose size the call is given
    unsafe {
        let mut name: libc::sockaddr_ll = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::getsockname(fd, (&raw mut name).cast(), &raw mut len) == 0 && name.sll_ifindex <= 0
    }
}

impl Inside {
    fn run(&self) -> Result<()> {
        match self.medium {
            Medium::Tap => self.run_tap(),
            Medium::Packet => self.run_packet(),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn lose(&self, frames: usize) {
        self.lost.fetch_add(frames as u64, Ordering::Relaxed);
    }

    /// Go on after an error of the interface: one that is down may come up again.
    fn endure(&self, error: Error) -> Result<()> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(()),
            Some(libc::ENETDOWN) if is_gone(self.fd.as_raw_fd()) => Err(gone()),
            Some(libc::EIO | libc::ENETDOWN) => wait(-1, 0, &self.wake, DOWN_MS).map(|_| ()),
            _ => Err(gone()),
        }
    }

    fn run_tap(&self) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        let mut buffer = vec![0u8; FRAME];
        loop {
            wait(fd, libc::POLLIN, &self.wake, FOREVER)?;
            if self.stopped() {
                return Ok(());
            }
            let mut work = self.pipeline.lock_for_burst(&self.stop);
            let mut trouble = None;
            for _ in 0..BURST {
                match tap::read(fd, &mut buffer) {
                    Ok(None) => break,
                    Ok(Some(0)) => {
                        trouble = Some(gone());
                        break;
                    }
                    Ok(Some(len)) => {
                        if let Some(range) = work.take(&mut buffer[..len])
                            && tap::write(fd, &[&buffer[range]]).is_err()
                        {
                            self.lose(1);
                        }
                    }
                    Err(error) => {
                        trouble = Some(error);
                        break;
                    }
                }
            }
            let has_punts = !work.punts.is_empty();
            drop(work);
            if has_punts {
                self.pipeline.notice.raise();
            }
            trouble.map_or(Ok(()), |error| self.endure(error))?;
        }
    }

    fn run_packet(&self) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        let mut burst = Burst::new();
        let mut cut = Vec::new();
        // A packet socket says once that its interface went down, and nothing when the interface then goes away. That
        // may be any time later, and frames from before may still be waiting: from then on, look now and then.
        let mut patience_ms = FOREVER;
        loop {
            if !wait(fd, libc::POLLIN, &self.wake, patience_ms)? {
                if is_gone(fd) {
                    return Err(gone());
                }
                continue;
            }
            if self.stopped() {
                return Ok(());
            }
            let mut work = self.pipeline.lock_for_burst(&self.stop);
            let outcome = burst.receive(fd).map(|count| {
                burst.leaving.clear();
                for index in 0..count {
                    let Some((header, data)) = burst.frame(index) else { continue };
                    if header.gso() == GSO_UDP_L4 && self.take_datagrams(&mut work, &header, data, &mut cut) {
                        continue;
                    }
                    if let Some(range) = work.take(data) {
                        burst.leaving.push((index, range));
                    }
                }
            });
            let has_punts = !work.punts.is_empty();
            drop(work);
            if has_punts {
                self.pipeline.notice.raise();
            }
            match outcome {
                Ok(()) => self.send(fd, &mut burst)?,
                Err(error) => {
                    if error.raw_os_error() == Some(libc::ENETDOWN) {
                        patience_ms = DOWN_MS;
                    }
                    self.endure(error)?;
                }
            }
        }
    }

    /// Take datagrams that were sent in one call, each as it would be on a wire; false where the frame is none such.
    fn take_datagrams(&self, work: &mut Work, header: &VnetHeader, frame: &[u8], cut: &mut Vec<u8>) -> bool {
        if frame.len() < 14 {
            return false;
        }
        let parsed = parse(frame);
        let Ok(mut segments) = Segments::new(frame, header, &parsed) else { return false };
        while let Some(len) = segments.next_len() {
            cut.resize(len, 0);
            segments.write_next(cut);
            if let Some(range) = work.take(cut)
                && tap::write(self.fd.as_raw_fd(), &[&NO_OFFLOAD, &cut[range]]).is_err()
            {
                self.lose(1);
            }
        }
        true
    }

    fn send(&self, fd: RawFd, burst: &mut Burst) -> Result<()> {
        let (mut done, total, mut waited) = (0, burst.leaving.len(), false);
        while done < total {
            match burst.send(fd, done) {
                Ok(count) => (done, waited) = (done + count, false),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && !waited => {
                    wait(fd, libc::POLLOUT, &self.wake, QUEUE_MS)?;
                    waited = true;
                }
                Err(_) => {
                    // this one is refused: too long, or the queue stays full; those behind it may pass
                    self.lose(1);
                    (done, waited) = (done + 1, false);
                }
            }
        }
        Ok(())
    }
}

/// Buffers for one call of recvmmsg, and of sendmmsg with what leaves of it.
struct Burst {
    data: Vec<u8>,
    lengths: [usize; BURST],
    outgoing: [bool; BURST],
    /// Index of the buffer, where the frame lies behind the virtio-net header.
    leaving: Vec<(usize, Range<usize>)>,
}

const SLOT: usize = SIZE + FRAME;
static NO_OFFLOAD: [u8; SIZE] = [0; SIZE];

impl Burst {
    fn new() -> Self {
        Burst {
            data: vec![0; BURST * SLOT],
            lengths: [0; BURST],
            outgoing: [false; BURST],
            leaving: Vec::with_capacity(BURST),
        }
    }

    fn receive(&mut self, fd: RawFd) -> Result<usize> {
        // SAFETY: every pointer is to a live local or to the buffer, each slot of which is given once; all zero bytes
        // are a valid value of these plain C structures
        let count = unsafe {
            let mut names: [libc::sockaddr_ll; BURST] = std::mem::zeroed();
            let mut vectors: [libc::iovec; BURST] = std::mem::zeroed();
            let mut messages: [libc::mmsghdr; BURST] = std::mem::zeroed();
            for (index, slot) in self.data.chunks_exact_mut(SLOT).enumerate() {
                vectors[index].iov_base = slot.as_mut_ptr().cast();
                vectors[index].iov_len = slot.len();
                let header = &mut messages[index].msg_hdr;
                header.msg_name = (&raw mut names[index]).cast();
                header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                header.msg_iov = &raw mut vectors[index];
                header.msg_iovlen = 1;
            }
            let flags = libc::MSG_DONTWAIT as _;
            let count = libc::recvmmsg(fd, messages.as_mut_ptr(), BURST as _, flags, std::ptr::null_mut());
            for index in 0..count.max(0) as usize {
                self.lengths[index] = messages[index].msg_len as usize;
                self.outgoing[index] = names[index].sll_pkttype == libc::PACKET_OUTGOING;
            }
            count
        };
        if count < 0 { Err(Error::last_os_error()) } else { Ok(count as usize) }
    }

    /// The frame that came into a buffer, its checksum filled in, and its header; None for what we sent ourselves.
    fn frame(&mut self, index: usize) -> Option<(VnetHeader, &mut [u8])> {
        let len = self.lengths[index];
        if self.outgoing[index] || len <= SIZE {
            return None;
        }
        let slot = &mut self.data[index * SLOT..][..len];
        let (header, frame) = slot.split_first_chunk_mut::<SIZE>()?;
        let header = VnetHeader::parse(header);
        if header.gso() == GSO_NONE {
            complete(&header, frame);
        }
        Some((header, frame))
    }

    fn send(&mut self, fd: RawFd, from: usize) -> Result<usize> {
        let frames = &self.leaving[from..];
        // SAFETY: every pointer is to a live local, a static, or the buffer, which the kernel only reads; all zero
        // bytes are a valid value of these plain C structures
        let count = unsafe {
            let mut vectors: [[libc::iovec; 2]; BURST] = std::mem::zeroed();
            let mut messages: [libc::mmsghdr; BURST] = std::mem::zeroed();
            for (position, (index, range)) in frames.iter().enumerate() {
                let frame = &self.data[index * SLOT + SIZE..][range.clone()];
                vectors[position] = [
                    libc::iovec { iov_base: NO_OFFLOAD.as_ptr().cast_mut().cast(), iov_len: SIZE },
                    libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() },
                ];
                messages[position].msg_hdr.msg_iov = vectors[position].as_mut_ptr();
                messages[position].msg_hdr.msg_iovlen = 2;
            }
            let flags = libc::MSG_DONTWAIT as _;
            libc::sendmmsg(fd, messages.as_mut_ptr(), frames.len() as _, flags)
        };
        if count < 0 { Err(Error::last_os_error()) } else { Ok(count as usize) }
    }
}

/// Fill in the checksum that the kernel left to the interface, as the virtio-net header says.
fn complete(header: &VnetHeader, frame: &mut [u8]) {
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
