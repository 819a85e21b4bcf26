//! The shell around the engine: system calls on TAPs here; in the modules the carriers, which join the engine of a worker
//! with the devices of its VNICs, what they share, and the threads that drive them.

pub mod alarm;
pub mod carrier;
pub mod clock;
pub mod departures;
pub mod devices;
pub mod neighbours;
pub mod outbox;
mod preemption_backoff;
pub mod processor;
pub mod relay;
pub mod shared;
pub mod thread;

use std::io::{Error, IoSlice, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

fn checked(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// Read one frame into `buffer`; return None if none is waiting.
///
/// This avoids libc's `read()`: being a cancellation point, it takes a tenth longer for a small frame.
#[inline]
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<Option<usize>> {
    // SAFETY: pointer and length of a live slice, borrowed for writing
    let count = unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) };
    if count >= 0 {
        return Ok(Some(count as usize));
    }
    let error = Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        _ => Err(error),
    }
}

/// Write one frame from its parts.
#[inline]
pub fn write(fd: RawFd, parts: &[&[u8]]) -> Result<()> {
    // most frames have one part or two: do not initialize the longest list for them
    let result = if let [whole] = parts {
        // SAFETY: pointer and length of a live slice
        unsafe { libc::syscall(libc::SYS_write, fd, whole.as_ptr(), whole.len()) }
    } else if let [head, frame] = parts {
        write_parts(fd, &[IoSlice::new(head), IoSlice::new(frame)])
    } else {
        let mut list = [IoSlice::new(&[]); MAX_PARTS];
        let count = parts.len().min(MAX_PARTS);
        for (entry, part) in list.iter_mut().zip(&parts[..count]) {
            *entry = IoSlice::new(part);
        }
        write_parts(fd, &list[..count])
    };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

#[inline]
fn write_parts(fd: RawFd, list: &[IoSlice<'_>]) -> libc::c_long {
    // SAFETY: pointer and length of a live slice; an IoSlice has the layout of an iovec and borrows live bytes
    unsafe { libc::syscall(libc::SYS_writev, fd, list.as_ptr(), list.len()) }
}

/// The most parts that a frame can have: the pieces of the coalescer and their header.
const MAX_PARTS: usize = 129;

/// Duplicate a descriptor, so that each owner can close its own.
pub fn duplicate(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: fcntl refuses a number that is not a descriptor; the new descriptor has no other owner
    unsafe {
        let copy = checked(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// A counter that a waiting loop can watch (eventfd).
pub struct Signal(OwnedFd);

impl Signal {
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes no pointers
        let fd = unsafe { checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? };
        // SAFETY: the descriptor is new and has no other owner
        Ok(Signal(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Make it readable. Failure means that it already is.
    pub fn raise(&self) {
        let one = 1u64;
        // SAFETY: the eight bytes of a live integer
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// Wait until it is readable, so many milliseconds at most, without limit if negative; return whether it is.
    pub fn wait(&self, timeout_ms: libc::c_int) -> bool {
        let mut polled = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live structure, borrowed for writing
        unsafe { libc::poll(&raw mut polled, 1, timeout_ms) > 0 }
    }

    /// Make it unreadable again.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: the eight bytes of a live integer, borrowed for writing
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
    }
}

/// Waits for any number of descriptors at a constant cost (epoll).
pub struct Poller(OwnedFd);

impl Poller {
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes no pointers; the new descriptor has no other owner
        unsafe { Ok(Poller(OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?))) }
    }

    /// Report a descriptor for as long as it is readable.
    pub fn add(&self, fd: RawFd, token: u64) -> Result<()> {
        self.watch(fd, token, libc::EPOLLIN)
    }

    /// Report a descriptor once each time that it becomes readable.
    pub fn add_edges(&self, fd: RawFd, token: u64) -> Result<()> {
        self.watch(fd, token, libc::EPOLLIN | libc::EPOLLET)
    }

    fn watch(&self, fd: RawFd, token: u64, events: libc::c_int) -> Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the event is live during the call
        unsafe { checked(libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event))? };
        Ok(())
    }

    pub fn remove(&self, fd: RawFd) {
        // SAFETY: this operation ignores the event, which may be null; failure means that it is gone already
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Look for events, or wait for one without a timeout; return their number.
    pub fn wait(&self, events: &mut [libc::epoll_event], patiently: bool) -> Result<usize> {
        let timeout = if patiently { -1 } else { 0 };
        // SAFETY: pointer and length of a live slice, borrowed for writing
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, timeout)
        };
        match checked(count) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(0),
            Err(error) => Err(error),
        }
    }
}
