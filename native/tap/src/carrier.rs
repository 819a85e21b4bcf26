//! The carrier: one worker's part of a fabric with native VNICs. It joins an engine, the VNICs, their devices, and the
//! queue for Python. The caller gives it the time; `thread` drives it in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::api::Engine;
use engine::app::{NativeApp, Outlet};
use engine::outputs::Output;
use engine::share::{Handover, WorkerId};
use engine::vnics::Vnics;
use offload::vnet::{SIZE, VnetHeader};

use crate::departures::{Departure, Departures};
use crate::devices::{Device, Devices};
use crate::neighbours::Neighbours;
use crate::outbox::Outbox;
use crate::{Poller, read};

/// The most frames and bytes that are read from one device before the next device is read, and before what has arrived
/// is written although a device must be read at once because its link has restarted its port.
const BURST_FRAMES: usize = 64;
/// Four large sends: a host that is receiving the first one must not be woken again for the others.
const BURST_BYTES: usize = 256 << 10;
/// The largest frame that a TAP can deliver, with its header.
pub const BUFFER: usize = SIZE + (64 << 10) + 256;
/// Frames that have arrived wait for a next packet that is due this soon, because it belongs to the same burst.
const NEAR_NS: u64 = 4_000;
/// The longest time that frames wait to be written.
const HOLD_NS: u64 = 50_000;
/// The number of packets of a passing burst after which its next arrival is checked again.
const GAPS: u64 = 8;
/// The most bytes of a frame that a read copies in a nanosecond.
const COPIED_PER_NS: u64 = 16;

/// See the module.
pub struct Carrier {
    pub engine: Engine,
    pub vnics: Vnics,
    pub devices: Devices,
    pub outbox: Outbox,
    /// Devices that failed permanently, with the errno, to be reported to Python.
    pub lost: Vec<(usize, i32)>,
    /// While set, the thread is idle.
    pub paused: bool,
    /// Packets for other machines.
    departures: Arc<Departures>,
    worker: WorkerId,
    poller: Arc<Poller>,
    neighbours: Arc<Neighbours>,
    /// Reused buffer for packets handed over by other workers.
    list: Vec<Handover>,
    /// Whether devices are not read because Python is behind.
    held: Arc<AtomicBool>,
    /// Vports whose devices are not read because the link stops their ports.
    stopped: Vec<usize>,
    /// Those whose ports may send again and that must be read: epoll does not watch them yet.
    restarted: Vec<usize>,
    /// The time since which frames wait to be written.
    waiting_since: Option<u64>,
    /// The frames and bytes that have been read since frames were last written.
    read: (usize, usize),
    /// The time up to which all events have been handled.
    latest: u64,
}

impl Carrier {
    /// Make the carrier of a worker. `held` shows other threads whether its devices are not read because Python is
    /// behind.
    pub fn new(
        engine: Engine,
        vnics: Vnics,
        worker: WorkerId,
        poller: Arc<Poller>,
        neighbours: Arc<Neighbours>,
        departures: Arc<Departures>,
        held: Arc<AtomicBool>,
    ) -> Self {
        Carrier {
            engine,
            vnics,
            devices: Devices::default(),
            outbox: Outbox::new(Arc::clone(&neighbours.backlog)),
            lost: Vec::new(),
            paused: false,
            departures,
            worker,
            poller,
            neighbours,
            list: Vec::new(),
            held,
            stopped: Vec::new(),
            restarted: Vec::new(),
            waiting_since: None,
            read: (0, 0),
            latest: 0,
        }
    }

    /// Set or clear the device of a vport, and wait for its frames.
    pub fn set_device(&mut self, vport: usize, device: Option<Device>) -> std::io::Result<()> {
        self.devices.set(&self.poller, vport, device)
    }

    /// Change the reasons not to read from a device.
    pub fn change_device(&mut self, vport: usize, change: impl FnOnce(&mut Device)) -> std::io::Result<()> {
        self.devices.change(&self.poller, vport, change)
    }

    /// Set or clear the app of a vport; return false if there is no such vport. While a vport has an app, its frames
    /// are not merged.
    pub fn set_app(&mut self, vport: usize, app: Option<Arc<dyn NativeApp>>) -> bool {
        let Some(slot) = self.vnics.get(vport) else { return false };
        slot.unmerged = app.is_some();
        self.devices.apps.set(vport, app);
        true
    }

    /// Move a vport to another worker, where its index exists already, with its counters and its device or app.
    pub fn give_vport(&mut self, now: u64, vport: usize, other: &mut Carrier) -> std::io::Result<()> {
        self.flush(now);
        std::mem::swap(&mut self.vnics.vports[vport], &mut other.vnics.vports[vport]);
        let (device, app) = self.devices.take(&self.poller, vport);
        other.devices.apps.set(vport, app);
        other.devices.set(&other.poller, vport, device.map(Device::moved))
    }

    // --- from and to other workers ---------------------------------------------------------------------------

    /// Take packets that other workers have handed over.
    #[inline]
    pub fn receive(&mut self) {
        self.neighbours.receive(self.worker, &mut self.engine, &mut self.list);
    }

    /// Hand over packets for other workers.
    #[inline]
    pub fn hand_over(&mut self) {
        self.neighbours.hand_over(self.worker, &mut self.engine);
    }

    // --- from the fabric -------------------------------------------------------------------------------------

    /// Handle events that are due at `now`, before any input at that time.
    ///
    /// However late the call is, hosts return the credits of packets at the arrival times of the packets.
    pub fn pass(&mut self, now: u64) {
        self.receive();
        self.advance(now);
    }

    /// The same without taking packets from other workers.
    pub fn advance(&mut self, now: u64) {
        self.latest = now;
        while self.engine.handle_until_lent(now) {
            self.sort(now);
        }
        self.sort(now);
    }

    /// Process the outputs of the engine.
    pub fn sort(&mut self, now: u64) {
        while let Some(output) = self.engine.poll_output() {
            let Some(output) = self.vnics.take(&mut self.engine, output) else {
                if self.vnics.is_full() {
                    self.vnics.flush(&mut self.engine, &mut self.devices);
                }
                continue;
            };
            if let Output::FlowChanged { port, stopped, .. } = output {
                if !stopped {
                    self.wake_stopped();
                }
                if !self.vnics.has_others(port) {
                    continue;
                }
            }
            match output {
                Output::Departed { direction, burst, token, .. } if self.departures.is_open() => {
                    self.departures.push(self.engine.packets(), direction, Departure { burst, token });
                }
                output => self.outbox.push(&mut self.engine, now, output),
            }
        }
    }

    /// Write the frames that have arrived and hand over packets for other workers and machines, unless more of the same
    /// burst are due very soon, or a device must be read at once. Return the next deadline; None: no time is set.
    pub fn finish(&mut self, now: u64) -> Option<u64> {
        let next = self.engine.deadline();
        if self.vnics.is_waiting() || self.engine.hands_over() || self.departures.is_untold() {
            let since = *self.waiting_since.get_or_insert(now);
            if self.has_restarted() && self.read.0 < BURST_FRAMES && self.read.1 < BURST_BYTES {
                return Some(now);
            }
            let until = since + HOLD_NS;
            if let Some(next) = next
                && next <= now + NEAR_NS
                && now < until
            {
                return Some(until.min(now + next.saturating_sub(now) * GAPS));
            }
            self.flush(now);
            return self.engine.deadline();
        }
        next
    }

    /// Whether frames that have arrived wait to be written.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Write the frames that have arrived, run the apps on their frames, and hand over packets for other workers.
    pub fn flush(&mut self, now: u64) {
        self.waiting_since = None;
        self.read = (0, 0);
        self.hand_over();
        self.vnics.flush(&mut self.engine, &mut self.devices);
        while let Some((vport, app, mut batch)) = self.devices.apps.next_batch() {
            let (engine, vnics) = (&mut self.engine, &mut self.vnics);
            app.run(&mut batch, &mut Outlet { engine, vnics, now, vport });
            self.devices.apps.give_back(vport, batch);
        }
        self.sort(now);
        self.hand_over();
        self.departures.tell();
    }

    /// Return the deadline of the engine, of frames that wait to be written, or of a device that may be read again;
    /// None: nothing will happen without an input.
    pub fn deadline(&mut self) -> Option<u64> {
        let is_new = self.vnics.is_waiting() && self.waiting_since.is_none();
        if is_new || self.has_restarted() { Some(0) } else { self.engine.deadline() }
    }

    /// Read again from the devices that were held because Python was behind.
    pub fn release_held(&mut self) -> std::io::Result<()> {
        self.held.store(false, Ordering::SeqCst);
        self.devices.release(&self.poller)
    }

    // --- from the hosts --------------------------------------------------------------------------------------

    /// Read a burst from the device of a vport; return whether the burst was full. `clock` returns the time; `ready_at`
    /// is a time at which a frame is known to have waited.
    ///
    /// A frame enters the fabric at `ready_at` or, at the latest, when the read begins, not after reading and
    /// segmentation: both overlap with the time on the wire. The receiver does not get it early, since writing takes as
    /// long as reading.
    pub fn drain(
        &mut self,
        vport: usize,
        buffer: &mut [u8],
        clock: impl Fn() -> u64,
        mut ready_at: Option<u64>,
    ) -> bool {
        let Some(fd) = self.devices.fd(vport) else { return false };
        let port = self.vnics.vports.get(vport).and_then(|slot| slot.port);
        let mut bytes = 0;
        for _ in 0..BURST_FRAMES {
            if self.outbox.has_enough() {
                self.hold(vport);
                return false;
            }
            let is_stopped = |engine: &Engine| port.is_some_and(|port| engine.is_stopped(port));
            if is_stopped(&self.engine) {
                // by now the link may have room again
                self.pass(clock());
                if is_stopped(&self.engine) {
                    self.stop(vport);
                    return false;
                }
            }
            match read(fd, buffer) {
                Ok(None) => return false,
                Ok(Some(count)) => {
                    let (head, frame) = buffer.split_at_mut(SIZE);
                    let header = VnetHeader::parse((&*head).try_into().expect("split at SIZE"));
                    let len = count.saturating_sub(SIZE);
                    let begun = clock().saturating_sub(count as u64 / COPIED_PER_NS);
                    let now = ready_at.take().unwrap_or(begun).max(self.latest);
                    self.pass(now);
                    self.vnics.transmit(&mut self.engine, now, vport, &header, (frame, len), None);
                    self.sort(now);
                    bytes += count;
                    self.read.0 += 1;
                    self.read.1 += count;
                    if bytes >= BURST_BYTES {
                        return false;
                    }
                }
                Err(error) => {
                    // the device is gone, or its namespace: it will not come back
                    let errno = error.raw_os_error().unwrap_or(0);
                    if errno != libc::EIO {
                        let _ = self.change_device(vport, |device| device.lost = true);
                        self.lost.push((vport, errno));
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Stop reading from a device until Python has emptied its queue.
    fn hold(&mut self, vport: usize) {
        // removing a descriptor cannot fail
        let _ = self.change_device(vport, |device| device.held = true);
        self.held.store(true, Ordering::SeqCst);
        // Python may have emptied the queue meanwhile without seeing this flag
        if !self.outbox.has_enough()
            && let Err(error) = self.release_held()
        {
            self.lost.push((vport, error.raw_os_error().unwrap_or(0)));
        }
    }

    /// Stop reading from a device until its link restarts the port.
    fn stop(&mut self, vport: usize) {
        self.stopped.push(vport);
        let _ = self.change_device(vport, |device| device.choked = true);
    }

    /// Collect the ports that may send again; `resume` reads from their devices.
    pub fn wake_stopped(&mut self) {
        let (engine, vnics, restarted) = (&self.engine, &self.vnics, &mut self.restarted);
        self.stopped.retain(|&vport| {
            let port = vnics.vports.get(vport).and_then(|slot| slot.port);
            let is_stopped = port.is_some_and(|port| engine.is_stopped(port));
            if !is_stopped {
                restarted.push(vport);
            }
            is_stopped
        });
    }

    /// Whether devices may be read again.
    pub fn has_restarted(&self) -> bool {
        !self.restarted.is_empty()
    }

    /// Read from devices whose ports may send again, and watch them with epoll unless the link stops them again; return
    /// whether a burst was full.
    ///
    /// A fast sender is stopped by each large frame; an epoll call for each of them would take longer than the read.
    pub fn resume(&mut self, buffer: &mut [u8], clock: impl Fn() -> u64) -> bool {
        let mut is_full = false;
        for _ in 0..self.restarted.len() {
            let vport = self.restarted.remove(0);
            if self.devices.is_choked_only(vport) {
                is_full |= self.drain(vport, buffer, &clock, None);
            }
            if !self.stopped.contains(&vport) {
                self.wait_for(vport);
            }
        }
        is_full
    }

    /// Watch devices whose ports may send again with epoll, instead of reading them now.
    pub fn wait_for_restarted(&mut self) {
        while let Some(vport) = self.restarted.pop() {
            self.wait_for(vport);
        }
    }

    fn wait_for(&mut self, vport: usize) {
        if let Err(error) = self.change_device(vport, |device| device.choked = false) {
            self.lost.push((vport, error.raw_os_error().unwrap_or(0)));
        }
    }
}
