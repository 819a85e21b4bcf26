//! The plain forwarder of `opavnic bench ejfat`: each IPv4 frame goes back to where it came from, without any lookup.

use std::io::Result;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tap::Signal;
use wire::frame::{IPV4, be16};

use crate::station::{Burst, Station};

pub struct Reflector {
    /// Readable when a thread has died.
    pub notice: Signal,
}

pub struct Back;

impl Reflector {
    pub fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Reflector { notice: Signal::new()? }))
    }
}

impl Station for Reflector {
    type Burst<'a> = Back;

    fn begin(&self, _worker: usize, _stop: &AtomicBool) -> Back {
        Back
    }

    fn release(&self) {}

    fn tell_failure(&self) {
        self.notice.raise();
    }
}

impl Burst for Back {
    /// Swapped addresses have the same checksums.
    #[inline]
    fn take(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        if frame.len() < 34 || be16(frame, 12) != IPV4 {
            return None;
        }
        let (to, from) = frame[..12].split_at_mut(6);
        to.swap_with_slice(from);
        let (from, to) = frame[26..34].split_at_mut(4);
        from.swap_with_slice(to);
        Some(0..frame.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_goes_back_and_all_else_stays() {
        let mut frame: Vec<u8> = (0..60).collect();
        frame[12..14].copy_from_slice(&[8, 0]);
        let range = Back.take(&mut frame);
        assert_eq!(range, Some(0..60));
        assert_eq!(frame[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(frame[26..34], [30, 31, 32, 33, 26, 27, 28, 29]);
        frame[12] = 0x86;
        assert_eq!(Back.take(&mut frame), None);
        assert_eq!(Back.take(&mut frame[..33]), None);
    }
}
