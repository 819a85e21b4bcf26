//! The device of each vport: a TAP, an app, or Python.

use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use engine::app::{Apps, NativeApp};
use engine::vnics::Host;

use crate::{Poller, write};

/// Longer frames are written from where they are. For shorter ones a copy costs less than what the kernel does for a list of
/// parts, which is an eighth of the time of a write.
const JOINED: usize = 2048;

/// The TAP of one vport, and the reasons not to read from it.
pub struct Device {
    fd: OwnedFd,
    /// Python has stopped the queue.
    pub stopped: bool,
    /// The link stops the port of the vport for lack of credits.
    pub choked: bool,
    /// The queue for Python is full.
    pub held: bool,
    /// The device failed permanently.
    pub lost: bool,
}

impl Device {
    pub fn new(fd: OwnedFd) -> Self {
        Device { fd, stopped: false, choked: false, held: false, lost: false }
    }

    /// Return it for another worker, which checks itself whether the link or Python stops it.
    pub fn moved(self) -> Self {
        Device { choked: false, held: false, ..self }
    }

    /// Whether the link is the only reason not to read it.
    fn is_choked_only(&self) -> bool {
        self.choked && !(self.stopped || self.held || self.lost)
    }

    fn is_read(&self) -> bool {
        !(self.stopped || self.choked || self.held || self.lost)
    }
}

/// The devices of all vports, by index. Frames for a vport with neither device nor app are kept for Python.
#[derive(Default)]
pub struct Devices {
    slots: Vec<Option<Device>>,
    pub kept: Vec<(usize, Vec<u8>)>,
    /// A frame with its header, while it is written.
    joined: Vec<u8>,
    /// Apps that receive the frames of a vport instead of a device.
    pub apps: Apps,
}

impl Devices {
    pub fn fd(&self, vport: usize) -> Option<RawFd> {
        self.slots.get(vport)?.as_ref().map(|device| device.fd.as_raw_fd())
    }

    /// Whether the link is the only reason not to read the device of a vport.
    pub fn is_choked_only(&self, vport: usize) -> bool {
        self.slots.get(vport).and_then(Option::as_ref).is_some_and(Device::is_choked_only)
    }

    /// Set or clear the device of a vport, and wait for its frames.
    pub fn set(&mut self, poller: &Poller, vport: usize, device: Option<Device>) -> Result<()> {
        if self.slots.len() <= vport {
            self.slots.resize_with(vport + 1, || None);
        }
        if let Some(fd) = self.fd(vport) {
            poller.remove(fd);
        }
        if let Some(device) = device.as_ref().filter(|device| device.is_read()) {
            poller.add(device.fd.as_raw_fd(), vport as u64)?;
        }
        self.slots[vport] = device;
        Ok(())
    }

    /// Remove and return the device or app of a vport, to attach it at another worker.
    pub fn take(&mut self, poller: &Poller, vport: usize) -> (Option<Device>, Option<Arc<dyn NativeApp>>) {
        if let Some(fd) = self.fd(vport) {
            poller.remove(fd);
        }
        (self.slots.get_mut(vport).and_then(Option::take), self.apps.take_app(vport))
    }

    /// Change the reasons not to read from a device, and start or stop waiting for its frames accordingly.
    pub fn change(&mut self, poller: &Poller, vport: usize, change: impl FnOnce(&mut Device)) -> Result<()> {
        let Some(Some(device)) = self.slots.get_mut(vport) else { return Ok(()) };
        let before = device.is_read();
        change(device);
        match (before, device.is_read()) {
            (true, false) => poller.remove(device.fd.as_raw_fd()),
            (false, true) => poller.add(device.fd.as_raw_fd(), vport as u64)?,
            _ => {}
        }
        Ok(())
    }

    /// Resume reading from every held device.
    pub fn release(&mut self, poller: &Poller) -> Result<()> {
        for vport in 0..self.slots.len() {
            self.change(poller, vport, |device| device.held = false)?;
        }
        Ok(())
    }
}

impl Host for Devices {
    #[inline]
    fn write(&mut self, vport: usize, parts: &[&[u8]]) -> bool {
        match self.fd(vport) {
            Some(fd) => match parts {
                [head, frame] if frame.len() <= JOINED => {
                    self.joined.clear();
                    self.joined.extend_from_slice(head);
                    self.joined.extend_from_slice(frame);
                    write(fd, &[&self.joined]).is_ok()
                }
                _ => write(fd, parts).is_ok(),
            },
            None => {
                if !self.apps.take(vport, parts) {
                    self.kept.push((vport, parts.concat()));
                }
                true
            }
        }
    }
}
