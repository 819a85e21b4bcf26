//! Threads between a station and one interface: a TAP, or packet sockets (AF_PACKET) with virtio-net headers.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tap::{self, Signal};

use crate::packet::Worker;
use crate::station::{Burst, Station};

/// Frames of a TAP that are taken without a break.
const BURST: usize = 64;
/// The largest frame that an interface can hand over.
const FRAME: usize = (64 << 10) + 256;
/// How long to wait for a full queue of the interface before a frame is lost.
pub const QUEUE_MS: i32 = 10;
/// How long to wait before an interface that is down is tried again.
pub const DOWN_MS: i32 = 50;
pub const FOREVER: i32 = -1;

/// One descriptor, and how frames are read and written there.
enum Place {
    Tap(OwnedFd),
    Packet(OwnedFd),
}

/// What the threads share.
pub struct Inside<S> {
    station: Arc<S>,
    stop: AtomicBool,
    pub wake: Signal,
    lost: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// The threads and their interface.
pub struct Port<S: Station> {
    inside: Arc<Inside<S>>,
    places: Mutex<Vec<Place>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<S: Station> Port<S> {
    /// Take over the descriptor of a TAP, which does not block.
    pub fn of_tap(station: Arc<S>, fd: OwnedFd) -> Result<Self> {
        Self::new(station, vec![Place::Tap(fd)])
    }

    /// Take over packet sockets of one interface; each gets a thread.
    pub fn of_packets(station: Arc<S>, fds: Vec<OwnedFd>) -> Result<Self> {
        Self::new(station, fds.into_iter().map(Place::Packet).collect())
    }

    fn new(station: Arc<S>, places: Vec<Place>) -> Result<Self> {
        let inside = Inside {
            station,
            stop: AtomicBool::new(false),
            wake: Signal::new()?,
            lost: AtomicU64::new(0),
            failure: Mutex::new(None),
        };
        Ok(Port { inside: Arc::new(inside), places: Mutex::new(places), threads: Mutex::default() })
    }

    pub fn start(&self) -> Result<()> {
        let places = std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner));
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, place) in places.into_iter().enumerate() {
            let inside = Arc::clone(&self.inside);
            let thread = std::thread::Builder::new().name(format!("ejfat{number}"));
            threads.push(thread.spawn(move || inside.run_and_tell(number, place))?);
        }
        Ok(())
    }

    /// End the threads after their bursts, and wait for that.
    pub fn stop(&self) {
        self.inside.stop.store(true, Ordering::Release);
        self.inside.station.release();
        self.inside.wake.raise();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // a panic inside was caught and reported there
            let _ = thread.join();
        }
    }

    /// Frames that the interface did not take.
    pub fn lost(&self) -> u64 {
        self.inside.lost.load(Ordering::Relaxed)
    }

    /// Why a thread died, if one did.
    pub fn failure(&self) -> Option<String> {
        self.inside.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S: Station> Drop for Port<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Wait until `fd` can be used or `wake` is raised; false after `timeout` ms.
pub fn wait(fd: RawFd, events: libc::c_short, wake: &Signal, timeout: i32) -> Result<bool> {
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

pub fn gone() -> Error {
    Error::other("it is gone")
}

/// Whether the interface of a packet socket has been removed, not only set down.
pub fn is_gone(fd: RawFd) -> bool {
    // SAFETY: all zero bytes are a valid value of this plain C structure, whose size the call is given
    unsafe {
        let mut name: libc::sockaddr_ll = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::getsockname(fd, (&raw mut name).cast(), &raw mut len) == 0 && name.sll_ifindex <= 0
    }
}

impl<S: Station> Inside<S> {
    /// Carry frames until the port stops; if that fails, stop it all and say why.
    fn run_and_tell(&self, number: usize, place: Place) {
        let failure = match catch_unwind(AssertUnwindSafe(|| self.run(number, place))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the native pipeline broke".to_string(),
        };
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.stop.store(true, Ordering::Release);
        self.wake.raise();
        self.station.tell_failure();
    }

    fn run(&self, number: usize, place: Place) -> Result<()> {
        match place {
            Place::Tap(fd) => self.run_tap(fd.as_raw_fd()),
            Place::Packet(fd) => Worker::new(self, number, fd.as_raw_fd()).run(),
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Begin a worker's next burst.
    pub fn begin(&self, worker: usize) -> S::Burst<'_> {
        self.station.begin(worker, &self.stop)
    }

    pub fn lose(&self, frames: usize) {
        self.lost.fetch_add(frames as u64, Ordering::Relaxed);
    }

    /// Go on after an error of the interface: one that is down may come up again.
    pub fn endure(&self, fd: RawFd, error: Error) -> Result<()> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(()),
            Some(libc::ENETDOWN) if is_gone(fd) => Err(gone()),
            Some(libc::EIO | libc::ENETDOWN) => wait(-1, 0, &self.wake, DOWN_MS).map(|_| ()),
            _ => Err(gone()),
        }
    }

    fn run_tap(&self, fd: RawFd) -> Result<()> {
        let mut buffer = vec![0u8; FRAME];
        loop {
            wait(fd, libc::POLLIN, &self.wake, FOREVER)?;
            if self.is_stopped() {
                return Ok(());
            }
            let mut burst = self.begin(0);
            let mut trouble = None;
            for _ in 0..BURST {
                match tap::read(fd, &mut buffer) {
                    Ok(None) => break,
                    Ok(Some(0)) => {
                        trouble = Some(gone());
                        break;
                    }
                    Ok(Some(len)) => {
                        if let Some(range) = burst.take(&mut buffer[..len])
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
            drop(burst);
            trouble.map_or(Ok(()), |error| self.endure(fd, error))?;
        }
    }
}
