//! System calls on TAP file descriptors: reading frames, writing them in parts, waiting for them.

use std::io::{Error, IoSlice, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

fn checked(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// Read one frame into `buffer`; None when there is none now.
///
/// Not by libc's read(): that is a point of cancellation, which costs a small frame a tenth of its time.
#[inline]
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<Option<usize>> {
    // SAFETY: the pointer and the length are those of a live slice
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

/// Write one frame given in parts.
#[inline]
pub fn write(fd: RawFd, parts: &[&[u8]]) -> Result<()> {
    // most frames have two parts: no list of the largest size for these
    let result = if let [head, frame] = parts {
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
    // SAFETY: pointer and length of a live slice, whose entries are those of `iovec` and borrow live bytes
    unsafe { libc::syscall(libc::SYS_writev, fd, list.as_ptr(), list.len()) }
}

/// Parts of one frame at most: the coalescer's pieces and their header.
const MAX_PARTS: usize = 129;

/// A second descriptor for the same open file, so that either owner may close its own.
pub fn duplicate(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: fcntl takes any number and refuses what is no descriptor; the result is new and ours
    unsafe {
        let copy = checked(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// A counter that a waiting loop can watch (eventfd).
pub struct Signal(OwnedFd);

impl Signal {
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers; the result is new and ours
        let fd = unsafe { checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))? };
        // SAFETY: just made
        Ok(Signal(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Make it readable. Failure means that it already is.
    pub fn raise(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of a live number
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// Make it unreadable again.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes of a live number
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
    }
}

/// Waits for many descriptors at a cost that does not grow with their number.
pub struct Poller(OwnedFd);

impl Poller {
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers; the result is new and ours
        unsafe { Ok(Poller(OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?))) }
    }

    pub fn add(&self, fd: RawFd, token: u64) -> Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: the event lives during the call
        unsafe { checked(libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event))? };
        Ok(())
    }

    pub fn remove(&self, fd: RawFd) {
        // SAFETY: the event is ignored for this operation; failure means that it is gone already
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Wait without limit; return how many events were filled in.
    pub fn wait(&self, events: &mut [libc::epoll_event]) -> Result<usize> {
        // SAFETY: pointer and length of a live slice
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, -1)
        };
        match checked(count) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(0),
            Err(error) => Err(error),
        }
    }
}
