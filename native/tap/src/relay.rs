//! The simplest possible forwarder between two TAPs: wait, read one frame, write it to the other side, without
//! offloads, encapsulation or batching. It is the baseline of `opavnic bench datapath`.

use std::io::Result;
use std::os::fd::RawFd;

use crate::{read, write};

/// Forward between `a` and `b` (TAPs without a virtio-net header, not blocking) until `stop` becomes readable.
pub fn relay(a: RawFd, b: RawFd, stop: RawFd) -> Result<()> {
    let mut buffer = vec![0u8; 16 << 10];
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = [entry(a), entry(b), entry(stop)];
    loop {
        // SAFETY: pointer and length of a live array, borrowed for writing
        if unsafe { libc::poll(entries.as_mut_ptr(), 3, -1) } < 0 {
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
            continue;
        }
        if entries[2].revents != 0 {
            return Ok(());
        }
        for (from, to) in [(0, b), (1, a)] {
            if entries[from].revents != 0 {
                while let Some(count) = read(entries[from].fd, &mut buffer)? {
                    // a device that is down refuses the frame, which is lost as on a cable
                    let _ = write(to, &[&buffer[..count]]);
                }
            }
        }
    }
}
