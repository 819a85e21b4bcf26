//! Native VNICs: they send frames of their hosts into the fabric, and deliver packets of the fabric to their hosts.
//!
//! They use the HFI ports of an engine, like Python programs, to inject and receive. The readable reference
//! is opavnic/vnic/transmit.py, receive.py and demux.py. All packets that reach hosts within one wake-up are merged and
//! written together, by `flush`.

pub mod demux;
pub mod transmit;
pub mod vport;

use std::ops::Deref;

use offload::gro::{Run, Span};
use offload::vnet::SIZE;
use wire::frame::is_tagged;
use wire::frame_range;

use crate::api::Engine;
use crate::burst::Burst;
use crate::counters::Drop;
use crate::outputs::{Output, PortId};
use crate::packet::Packet;
use demux::{Demux, Goal};
use vport::Vport;

/// Packets that wait to be written; with so many, they are written before the next.
const MANY: usize = 1024;

/// Sources of frames that wait for Python. Of another one, it hears by a later frame.
const MOST_HEARD: usize = 64;

/// Where received frames go.
pub trait Host {
    /// Write one frame, with its headers, to the device of `vport`; return false if the device did not take it.
    fn write(&mut self, vport: usize, parts: &[&[u8]]) -> bool;
}

/// The buffer of packets for a host, until they are written.
struct Received(Packet);

impl Deref for Received {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.buffer()
    }
}

/// See the module. Vports are numbered from 0; a number that is free again is given to another.
pub struct Vnics {
    pub vports: Vec<Vport>,
    /// Compute the ICRC of each packet, and check it. Else a packet gets its ICRC where it can be seen or can matter:
    /// in a capture, before a fault damages it, and before it leaves for Python or for another machine.
    pub icrc: bool,
    /// Merge received segments.
    pub merge: bool,
    /// Sources of frames that Python is to hear of, as `mac_key` reads them, each with its vport.
    pub heard: Vec<(u32, u64)>,
    /// By HFI port.
    demuxes: Vec<Demux>,
    /// Packets for hosts, until they are written.
    received: Vec<Received>,
    /// How many frames that is.
    frames: usize,
    /// Vports with frames to write.
    dirty: Vec<u32>,
}

impl Default for Vnics {
    fn default() -> Self {
        Vnics::new(true, true)
    }
}

impl Vnics {
    pub fn new(icrc: bool, merge: bool) -> Self {
        Vnics {
            vports: Vec::new(),
            icrc,
            merge,
            heard: Vec::new(),
            demuxes: Vec::new(),
            received: Vec::new(),
            frames: 0,
            dirty: Vec::new(),
        }
    }

    /// Return a vport that is in use.
    pub fn get(&mut self, vport: usize) -> Option<&mut Vport> {
        self.vports.get_mut(vport).filter(|slot| slot.in_use)
    }

    /// Take a vport into use, with a configuration under which nothing passes.
    pub fn add(&mut self) -> usize {
        let index = self.vports.iter().position(|vport| !vport.in_use).unwrap_or(self.vports.len());
        if index == self.vports.len() {
            self.vports.push(Vport::default());
        }
        self.vports[index].in_use = true;
        index
    }

    /// Forget a vport, of which nothing waits to be written, wherever it is named.
    pub fn remove(&mut self, engine: &mut Engine, vport: usize) {
        self.vports[vport] = Vport::default();
        self.heard.retain(|(other, _)| *other != vport as u32);
        for (demux, port) in self.demuxes.iter_mut().zip(0..) {
            demux.vports.remove(vport as u32);
            if demux.nohandler == Some(vport as u32) {
                demux.nohandler = None;
                engine.take_bursts(port, false);
            }
        }
    }

    /// Replace the table that assigns packets of an HFI port to its VNICs.
    pub fn set_demux(&mut self, engine: &mut Engine, port: PortId, demux: Demux) {
        engine.take_bursts(port, demux.is_whole());
        let index = port as usize;
        if index >= self.demuxes.len() {
            self.demuxes.resize_with(index + 1, Demux::default);
        }
        self.demuxes[index] = demux;
    }

    /// Whether a Python program may wait for the link of an HFI port.
    pub fn has_others(&self, port: PortId) -> bool {
        self.demuxes.get(port as usize).is_none_or(|demux| !demux.is_whole())
    }

    // --- from the fabric -------------------------------------------------------------------------------------

    /// Take a packet that an HFI port has received, if it is for a VNIC here; return all that is not.
    ///
    /// Its room is free again at once: a VNIC has memory of its own for frames that wait to be written.
    #[inline]
    pub fn take(&mut self, engine: &mut Engine, output: Output) -> Option<Output> {
        let Output::Delivered { time, port, ref burst, token, .. } = output else { return Some(output) };
        let goal = self.demuxes.get(port as usize).map_or(Goal::Elsewhere, |demux| demux.find(&burst.packet));
        let drop = match goal {
            // ports with Python receivers get single packets only
            Goal::Elsewhere if !burst.is_of_several() => return Some(output),
            Goal::Vport(_) => None,
            Goal::Elsewhere | Goal::NoVnic(_) => Some(Drop::VnicNoVesw),
        };
        engine.account(port, burst.count(), burst.packet.len(), drop);
        if let Output::Delivered { burst, .. } = output {
            self.receive(engine, goal, burst);
        }
        if let Some(token) = token {
            engine.release(time, token);
        }
        None
    }

    /// Give a packet to the VNICs of a port as if the port had received and checked it.
    pub fn demultiplex(&mut self, engine: &mut Engine, port: PortId, packet: Packet) {
        let goal = self.demuxes.get(port as usize).map_or(Goal::Elsewhere, |demux| demux.find(&packet));
        self.receive(engine, goal, Burst::of(packet, 0));
    }

    #[inline]
    fn receive(&mut self, engine: &mut Engine, goal: Goal, burst: Burst) {
        let (count, first) = (burst.count(), burst.first_at());
        let packet = burst.packet;
        let vport = match goal {
            Goal::Elsewhere => return engine.packets().recycle(packet),
            Goal::NoVnic(vport) => {
                self.vports[vport as usize].counters.rx_nohandler += u64::from(count);
                return engine.packets().recycle(packet);
            }
            Goal::Vport(vport) => vport,
        };
        let slot = &mut self.vports[vport as usize];
        let range = frame_range(&packet);
        slot.rx_balance.enter_many(count, packet.len());
        if !slot.admits(range.len(), count) {
            return engine.packets().recycle(packet);
        }
        if slot.coalescer.is_empty() {
            self.dirty.push(vport);
        }
        let index = self.received.len() as u32;
        let (merge, origin) = (self.merge && !slot.unmerged, packet.origin());
        let (at, step) = (first + range.start, packet.offset(1));
        self.received.push(Received(packet));
        self.frames += count as usize;
        let first = Span { packet: index, at: at as u32, len: range.len() as u32 };
        slot.coalescer.push_all(&self.received, first, step as u32, count, origin, merge);
    }

    // --- to the hosts ----------------------------------------------------------------------------------------

    /// Whether frames wait to be written.
    pub fn is_waiting(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether they are too many to wait for more.
    pub fn is_full(&self) -> bool {
        self.frames >= MANY
    }

    /// Write all frames that have been received.
    pub fn flush<H: Host + ?Sized>(&mut self, engine: &mut Engine, host: &mut H) {
        for index in self.dirty.drain(..) {
            let Vport { coalescer, counters, rx_balance, .. } = &mut self.vports[index as usize];
            coalescer.flush(&self.received, |runs, parts| {
                let taken = host.write(index as usize, parts);
                let first = parts[parts.len().min(2) - 1];
                let head = if parts.len() == 2 { first } else { &parts[0][SIZE..] };
                let (multicast, tagged) = (head[0] & 1 != 0, is_tagged(head));
                let mut merged = 0;
                for &Run { frames, len } in runs {
                    merged += frames;
                    if taken {
                        counters.rx.attempt_many(frames, len);
                        counters.rx.kind_many(frames, multicast, tagged);
                        rx_balance.leave_many(frames as u32, len);
                    } else {
                        counters.rx_fifo_errors += frames;
                        rx_balance.drop_many(frames as u32, Drop::VnicRxHost);
                    }
                }
                counters.rx_merged += if taken { merged - 1 } else { 0 };
            });
        }
        self.frames = 0;
        for packet in self.received.drain(..) {
            engine.packets().recycle(packet.0);
        }
    }
}
