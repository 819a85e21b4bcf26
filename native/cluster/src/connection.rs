//! A connection between two machines: TCP, with TLS where it is asked for. One thread may write while another reads.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::tls::{Session, begin};

/// Bytes that the kernel keeps before it sends them, at most: packets that must go ahead wait behind no more.
static UNSENT: libc::c_int = 512 << 10;
/// Parts of one write, at most (IOV_MAX).
const PARTS: usize = 1024;

/// The files of a machine's certificate.
pub struct Credentials<'a> {
    pub ca: &'a Path,
    pub certificate: &'a Path,
    pub key: &'a Path,
    /// Whether this machine has accepted the connection.
    pub accepts: bool,
}

pub struct Connection {
    socket: TcpStream,
    session: Option<Mutex<Session>>,
}

impl Connection {
    /// Take over a connected socket, and shake hands.
    pub fn open(socket: OwnedFd, credentials: Option<Credentials<'_>>) -> Result<Self> {
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        // SAFETY: the descriptor and the value live during the call
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_NOTSENT_LOWAT,
                (&raw const UNSENT).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
        let session = match credentials {
            None => None,
            Some(Credentials { ca, certificate, key, accepts }) => {
                let begun = begin(ca, certificate, key, accepts)?;
                Some(Mutex::new(Session::shake_hands(begun, &socket)?))
            }
        };
        Ok(Connection { socket, session })
    }

    fn session(&self) -> Option<MutexGuard<'_, Session>> {
        self.session.as_ref().map(|session| session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The certificate of the other machine, in DER; None: there is no TLS.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.session()?.certificate().map(<[u8]>::to_vec)
    }

    /// Write all parts. Only one thread writes at a time.
    pub fn write(&self, parts: &mut [IoSlice<'_>]) -> Result<()> {
        let Some(mut session) = self.session() else { return write_all(&self.socket, parts) };
        session.encrypt(parts)?;
        loop {
            match session.send(&mut Soon(&self.socket)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return sent,
            }
            drop(session); // the reader need not wait for the network
            self.wait(libc::POLLOUT, -1)?;
            let Some(again) = self.session() else { return Ok(()) };
            session = again;
        }
    }

    /// Write as much as the kernel takes without waiting; return what is left of it, for `write_rest`.
    pub fn write_soon(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut wire = match self.session() {
            None => bytes,
            Some(mut session) => {
                session.encrypt(&[IoSlice::new(&bytes)])?;
                let mut wire = Vec::new();
                session.send(&mut wire)?;
                wire
            }
        };
        match Soon(&self.socket).write(&wire) {
            Ok(count) => _ = wire.drain(..count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(wire)
    }

    /// Write what `write_soon` has left.
    pub fn write_rest(&self, rest: &[u8]) -> Result<()> {
        (&self.socket).write_all(rest)
    }

    /// Wait for events of the socket, so many milliseconds at most, or without limit if negative.
    fn wait(&self, events: libc::c_short, timeout_ms: libc::c_int) -> Result<bool> {
        let mut polled = libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        // SAFETY: one live structure, borrowed for writing
        match unsafe { libc::poll(&raw mut polled, 1, timeout_ms) } {
            0 => Ok(false),
            count if count > 0 => Ok(true),
            _ => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Read what is there, and wait for it so many milliseconds at most, or without limit if negative; None: nothing came.
    ///
    /// `buffer` has room for a record of TLS.
    pub fn read(&self, buffer: &mut [u8], timeout_ms: libc::c_int) -> Result<Option<usize>> {
        if self.session.is_none() {
            if timeout_ms >= 0 && !self.wait(libc::POLLIN, timeout_ms)? {
                return Ok(None);
            }
            return closed_if_none((&self.socket).read(buffer));
        }
        loop {
            if let Some(mut session) = self.session() {
                let (count, is_closed) = session.decrypt(buffer)?;
                if count > 0 {
                    return Ok(Some(count));
                }
                if is_closed {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            if !self.wait(libc::POLLIN, timeout_ms)? {
                return Ok(None);
            }
            if let Some(mut session) = self.session() {
                closed_if_none(session.arrive(|room| (&self.socket).read(room)))?;
            }
        }
    }

    /// End it: reads and writes fail from now on.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Writes what the kernel takes without waiting.
struct Soon<'a>(&'a TcpStream);

impl Write for Soon<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<usize> {
        // SAFETY: all zero is a message without address and parts
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut().cast(); // an IoSlice is an iovec
        message.msg_iovlen = parts.len().min(PARTS) as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the message and its parts live during the call, which does not write to them
        let count = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) };
        usize::try_from(count).map_err(|_| Error::last_os_error())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fn closed_if_none(read: Result<usize>) -> Result<Option<usize>> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_all(mut socket: &TcpStream, mut parts: &mut [IoSlice<'_>]) -> Result<()> {
    while !parts.is_empty() {
        let most = parts.len().min(PARTS);
        match socket.write_vectored(&parts[..most]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut parts, count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
