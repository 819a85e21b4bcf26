//! The datapath itself, without threads or I/O: frames in, packets through the fabric, frames out.
//!
//! All packets of a burst share one arena, where each is built, sealed, checked and taken apart in place. Frames to
//! be written refer to the arena until the burst is flushed. Once the buffers have grown to the size of a burst,
//! nothing is allocated any more.
//!
//! The rules of forwarding that both datapaths keep are stated in hfi_sim/engine/forwarding.py.

pub mod fabric;
mod train;

use std::collections::VecDeque;
use std::sync::Arc;

use offload::gro::{Coalescer, Span};
use offload::segment::{Origin, Segments};
use offload::vnet::{SIZE, VnetHeader};
use wire::flow::hash15;
use wire::frame::{is_tagged, parse};
use wire::{self, Fault, HeaderWords, VNIC_HEADER};

use crate::core::fabric::{Direction, End, Fabric, HfiPort, NO_ROUTE};
use crate::counters::{Drop, Element, FaultCount, Vnic};
use crate::encap::{Refusal, VportConfig};
use crate::random::Stream;

/// The most packets that may wait for Python; more are dropped as link_overflow.
pub const MAX_UPCALLS: usize = 8192;
const ARENA: usize = 1 << 20;
/// A burst that has filled this much of the arena is flushed before the next frame.
const ARENA_FULL: usize = ARENA - (160 << 10);

/// A packet that Python is to carry, from the end where it enters a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcall {
    pub direction: Direction,
    /// Number of switches that it has entered.
    pub hops: u32,
    pub packet: Vec<u8>,
}

/// The destination of received frames.
pub trait Host {
    /// Write one frame, with its headers, to the device of `vport`; return false if the device did not take it.
    fn write(&mut self, vport: usize, parts: &[&[u8]]) -> bool;
}

#[derive(Clone, Copy)]
struct Packet {
    span: Span,
    origin: Origin,
    /// Whether it has an ICRC, which is then checked.
    sealed: bool,
    /// Number of switches that it has entered.
    hops: u32,
}

/// One VNIC.
#[derive(Default)]
pub struct Vport {
    pub config: Arc<VportConfig>,
    /// Index of its HFI port in the current fabric; None while it has no port.
    pub port: Option<u32>,
    pub counters: Vnic,
    /// The same traffic as packets in and packets out or dropped, which must balance: from the host, and to it.
    pub tx_balance: Element,
    pub rx_balance: Element,
    coalescer: Coalescer,
    pub in_use: bool,
    /// Do not merge received frames: the host wants each as it was sent, or they go to an app.
    pub unmerged: bool,
}

/// Settings for all packets.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compute and check the ICRC on links inside the process.
    pub icrc: bool,
    /// Coalesce received segments.
    pub merge: bool,
    /// Let ports refuse packets that they must not send. Conformance runs test the VNIC alone and turn this off.
    pub enforce: bool,
}

pub struct Core {
    pub options: Options,
    pub fabric: Arc<Fabric>,
    pub vports: Vec<Vport>,
    pub port_tx: Vec<Element>,
    pub port_rx: Vec<Element>,
    pub switches: Vec<Element>,
    /// By link and by the end that packets enter.
    pub directions: Vec<[Element; 2]>,
    /// By link and end, in the order of the faults.
    pub fault_counts: Vec<[Vec<FaultCount>; 2]>,
    /// By link and end: the random streams that the faults draw from.
    pub streams: Vec<[Stream; 2]>,
    pub upcalls: VecDeque<Upcall>,
    arena: Vec<u8>,
    used: usize,
    queue: VecDeque<(Direction, Packet)>,
    dirty: Vec<u32>,
}

impl Core {
    pub fn new(options: Options) -> Self {
        Core {
            options,
            fabric: Arc::default(),
            vports: Vec::new(),
            port_tx: Vec::new(),
            port_rx: Vec::new(),
            switches: Vec::new(),
            directions: Vec::new(),
            fault_counts: Vec::new(),
            streams: Vec::new(),
            upcalls: VecDeque::new(),
            arena: vec![0; ARENA],
            used: 0,
            queue: VecDeque::new(),
            dirty: Vec::new(),
        }
    }

    /// Replace the fabric. The counters of its elements start at zero, so collect the old ones first.
    pub fn set_fabric(&mut self, fabric: Fabric) -> Result<(), String> {
        fabric.validate(self.vports.len())?;
        self.port_tx = vec![Element::default(); fabric.ports.len()];
        self.port_rx = vec![Element::default(); fabric.ports.len()];
        self.switches = vec![Element::default(); fabric.switches.len()];
        self.directions = vec![<[Element; 2]>::default(); fabric.links.len()];
        self.fault_counts = fabric.no_fault_counts();
        self.streams = fabric.links.iter().map(|link| link.streams.map(Stream::new)).collect();
        for vport in &mut self.vports {
            // the port may be gone; whoever removed it also says where the vport is now
            vport.port = vport.port.filter(|&port| (port as usize) < fabric.ports.len());
        }
        self.fabric = Arc::new(fabric);
        Ok(())
    }

    /// Whether the burst must be flushed before the next frame.
    pub fn is_full(&self) -> bool {
        self.used >= ARENA_FULL
    }

    // --- from the host -------------------------------------------------------------------------------------

    /// Send one frame from the host of `vport`; `header` says which offloads it needs.
    ///
    /// The first `len` bytes of `buffer` hold the frame; `buffer` has at least 60 bytes. `bucket` overrides the hash
    /// of the flow.
    pub fn transmit(
        &mut self,
        vport: usize,
        header: &VnetHeader,
        buffer: &mut [u8],
        len: usize,
        bucket: Option<u16>,
    ) {
        let Some(slot) = self.vports.get_mut(vport) else { return };
        if len < 14 {
            return slot.malformed(len);
        }
        if len < 60 {
            buffer[len..60].fill(0);
        }
        let padded = &buffer[..len.max(60)];
        let parsed = parse(padded);
        let Ok(mut segments) = Segments::new(&buffer[..len], header, &parsed) else {
            return slot.malformed(len);
        };
        let config = Arc::clone(&slot.config);
        let bucket = bucket.unwrap_or_else(|| hash15(padded, &parsed));
        let encap = config.encap(padded, &parsed, bucket);
        let way = Way {
            port: slot.port,
            words: encap.words,
            refusal: config.refusal(padded, encap.dlid, slot.port.is_some()),
            multicast: padded[0] & 1 != 0,
            tagged: is_tagged(padded),
            origin: segments.origin(),
        };
        slot.counters.tx_cut += segments.remaining() as u64 - 1;
        if segments.remaining() > 1 {
            self.transmit_train(vport, &way, &mut segments);
        }
        while let Some(raw_len) = segments.next_len() {
            self.transmit_segment(vport, &way, &mut segments, raw_len);
        }
    }

    /// Count, build and send the next segment.
    #[inline]
    fn transmit_segment(&mut self, vport: usize, way: &Way, segments: &mut Segments<'_>, raw_len: usize) {
        let slot = &mut self.vports[vport];
        let len = raw_len.max(60);
        if len > wire::MAX_FRAME {
            segments.skip();
            return slot.malformed(raw_len);
        }
        slot.tx_balance.enter(raw_len);
        if let Some(refusal) = way.refusal {
            segments.skip();
            return slot.refuse(refusal, len);
        }
        slot.tx_balance.leave(len);
        let (pad, size) = wire::sizes(len);
        let span = self.reserve(size);
        let packet = &mut self.arena[span.at as usize..][..size];
        segments.write_next(&mut packet[VNIC_HEADER..VNIC_HEADER + len]);
        way.words.write(packet);
        wire::seal(packet, pad, self.options.icrc);
        let packet = Packet { span, origin: way.origin, sealed: self.options.icrc, hops: 0 };
        let sent = way.port.is_some_and(|port| self.send(port, packet));
        let counters = &mut self.vports[vport].counters;
        counters.tx.attempt(len);
        if sent {
            counters.tx.kind(way.multicast, way.tagged);
        } else {
            counters.tx_carrier_errors += 1;
        }
    }

    fn reserve(&mut self, size: usize) -> Span {
        let at = self.used;
        // align packets, so that few share a cache line
        self.used = (at + size + 31) & !31;
        if self.used > self.arena.len() {
            self.arena.resize(self.used.next_power_of_two(), 0);
        }
        Span { at: at as u32, len: size as u32 }
    }

    // --- through the fabric --------------------------------------------------------------------------------

    /// Send a packet from an HFI port; return false if the port refused it.
    fn send(&mut self, port: u32, packet: Packet) -> bool {
        let bytes = &self.arena[packet.span.at as usize..][..packet.span.len as usize];
        let hfi = &self.fabric.ports[port as usize];
        let tx = &mut self.port_tx[port as usize];
        tx.enter(bytes.len());
        let refusal = if self.options.enforce { egress_refusal(hfi, bytes) } else { None };
        match (refusal, hfi.direction) {
            (None, Some(direction)) => {
                tx.leave(bytes.len());
                self.queue.push_back((direction, packet));
                self.run();
                true
            }
            (refusal, _) => {
                tx.drop(refusal.unwrap_or(Drop::TxPortDown));
                false
            }
        }
    }

    /// Receive a complete packet at an HFI port, as if a link had delivered it.
    pub fn receive(&mut self, port: u32, packet: &[u8]) {
        let span = self.reserve(packet.len());
        self.arena[span.at as usize..][..packet.len()].copy_from_slice(packet);
        let fabric = Arc::clone(&self.fabric);
        self.arrive(
            &fabric,
            port,
            Packet { span, origin: Origin::Unknown, sealed: self.options.icrc, hops: 0 },
        );
    }

    /// Give a complete packet to the VNICs of a port without the port's own checks, for conformance runs.
    pub fn demultiplex(&mut self, port: u32, packet: &[u8]) {
        let span = self.reserve(packet.len());
        self.arena[span.at as usize..][..packet.len()].copy_from_slice(packet);
        let fabric = Arc::clone(&self.fabric);
        let packet = Packet { span, origin: Origin::Unknown, sealed: self.options.icrc, hops: 0 };
        self.deliver(&fabric.ports[port as usize], packet);
    }

    fn run(&mut self) {
        let fabric = Arc::clone(&self.fabric);
        while let Some((direction, packet)) = self.queue.pop_front() {
            let Some(packet) = self.cross(&fabric, direction, packet) else { continue };
            let far = fabric.links[direction.link as usize].ends[usize::from(direction.from ^ 1)];
            match far {
                End::Hfi(port) => self.arrive(&fabric, port, packet),
                End::Switch(switch, port) => self.forward(&fabric, switch, port, packet),
            }
        }
    }

    /// Carry a packet over a link; return None if it ended there or went to Python.
    fn cross(&mut self, fabric: &Fabric, direction: Direction, mut packet: Packet) -> Option<Packet> {
        let link = &fabric.links[direction.link as usize];
        let size = packet.span.len as usize;
        if link.slow {
            if self.upcalls.len() < MAX_UPCALLS {
                let mut bytes = self.arena[packet.span.at as usize..][..size].to_vec();
                if !packet.sealed {
                    wire::put_icrc(&mut bytes);
                }
                self.upcalls.push_back(Upcall { direction, hops: packet.hops, packet: bytes });
                return None;
            }
            let counters = &mut self.directions[direction.link as usize][usize::from(direction.from)];
            counters.enter(size);
            counters.drop(Drop::LinkOverflow);
            return None;
        }
        let (index, from) = (direction.link as usize, usize::from(direction.from));
        let counters = &mut self.directions[index][from];
        counters.enter(size);
        if !link.up {
            counters.drop(Drop::LinkDown);
            return None;
        }
        for (number, fault) in link.faults[from].iter().enumerate() {
            let hit = self.streams[index][from].hits(fault.chance);
            let count = &mut self.fault_counts[index][from][number];
            count.seen += 1;
            if !hit {
                continue;
            }
            count.hits += 1;
            if fault.bits == 0 {
                self.directions[index][from].drop(Drop::LinkFault);
                return None;
            }
            packet = self.damage(packet, fault.bits, index, from);
        }
        self.directions[index][from].leave(size);
        Some(packet)
    }

    /// Flip bits between the header and the tail, in a copy, because replicas of a multicast packet share their bytes.
    ///
    /// `_flip` in hfi_sim/faults/manager.py says which bits are eligible, and `RandomStream.sample` how they are
    /// chosen. Here the packet itself shows which bits have been chosen before.
    fn damage(&mut self, packet: Packet, bits: u32, link: usize, from_end: usize) -> Packet {
        let len = packet.span.len as usize;
        let span = self.reserve(len);
        let stream = &mut self.streams[link][from_end];
        let (from, to) = (packet.span.at as usize, span.at as usize);
        if !packet.sealed {
            // a packet sent without an ICRC needs one now, or the damage would go unnoticed
            wire::put_icrc(&mut self.arena[from..from + len]);
        }
        self.arena.copy_within(from..from + len, to);
        let end = (len - 1).max(wire::HEADER + 1);
        let range = ((end - wire::HEADER) * 8) as u64;
        let place = |bit: u64| (wire::HEADER + (bit / 8) as usize, 1u8 << (bit % 8));
        for last in range - u64::from(bits).min(range)..range {
            let (mut at, mut mask) = place(stream.word() % (last + 1));
            if (self.arena[from + at] ^ self.arena[to + at]) & mask != 0 {
                (at, mask) = place(last);
            }
            self.arena[to + at] ^= mask;
        }
        Packet { span, origin: Origin::Unknown, sealed: true, hops: packet.hops }
    }

    fn forward(&mut self, fabric: &Fabric, index: u32, in_port: u32, mut packet: Packet) {
        packet.hops = packet.hops.saturating_add(1);
        // a packet that has visited more switches than exist is in a forwarding loop: hfi_sim/engine/forwarding.py
        let astray = packet.hops as usize > fabric.switches.len();
        let bytes = &self.arena[packet.span.at as usize..][..packet.span.len as usize];
        let switch = &fabric.switches[index as usize];
        let counters = &mut self.switches[index as usize];
        counters.enter(bytes.len());
        if !switch.up {
            return counters.drop(Drop::SwDown);
        }
        if !switch.ports[in_port as usize].active {
            return counters.drop(Drop::SwPortDown);
        }
        if wire::l2(bytes) != 2 {
            return counters.drop(Drop::SwMalformed);
        }
        let dlid = wire::dlid(bytes);
        let mut out = |counters: &mut Element, port: u32| match &switch.ports[port as usize] {
            port if port.active && port.direction.is_some() => {
                counters.leave(bytes.len());
                self.queue.push_back((port.direction.unwrap(), packet));
            }
            _ => counters.drop(Drop::SwPortDown),
        };
        if !wire::is_multicast(dlid) {
            return match switch.lft.get(dlid as usize) {
                Some(&port) if port != NO_ROUTE && !astray => out(counters, u32::from(port)),
                _ => counters.drop(Drop::SwNoRoute),
            };
        }
        // a port outside the tree must not inject packets into it
        let group = switch.mft.get(&dlid).map_or(&[][..], Vec::as_slice);
        if group.len() < 2 || !group.contains(&in_port) || astray {
            return counters.drop(Drop::SwNoGroup);
        }
        counters.copies += group.len() as u64 - 2;
        for &port in group.iter().filter(|&&port| port != in_port) {
            out(counters, port);
        }
    }

    // --- to the host ---------------------------------------------------------------------------------------

    fn arrive(&mut self, fabric: &Fabric, index: u32, packet: Packet) {
        let bytes = &self.arena[packet.span.at as usize..][..packet.span.len as usize];
        let port = &fabric.ports[index as usize];
        self.port_rx[index as usize].enter(bytes.len());
        let refusal = match ingress_refusal(port, bytes, packet.sealed) {
            None => self.deliver(port, packet),
            refusal => refusal,
        };
        let rx = &mut self.port_rx[index as usize];
        match refusal {
            None => rx.leave(packet.span.len as usize),
            Some(reason) => rx.drop(reason),
        }
    }

    /// Find the VNIC of a packet and deliver the frame to it. The VNIC itself counts what it drops.
    fn deliver(&mut self, port: &HfiPort, packet: Packet) -> Option<Drop> {
        let start = packet.span.at as usize;
        let bytes = &self.arena[start..start + packet.span.len as usize];
        if bytes.len() < VNIC_HEADER || wire::l4(bytes) != wire::L4_ETHERNET || port.demux.mask == 0 {
            return Some(Drop::RxL4);
        }
        let id = u32::from(wire::vesw_id(bytes) & port.demux.mask);
        let Some(&vport) = port.demux.vports.get(&id) else {
            if let Some(vport) = port.demux.nohandler {
                self.vports[vport as usize].counters.rx_nohandler += 1;
            }
            return Some(Drop::VnicNoVesw);
        };
        let slot = &mut self.vports[vport as usize];
        let range = wire::frame_range(bytes);
        slot.rx_balance.enter(bytes.len());
        if slot.admits(range.len()) {
            if slot.coalescer.is_empty() {
                self.dirty.push(vport);
            }
            let frame = Span { at: (start + range.start) as u32, len: range.len() as u32 };
            let merge = self.options.merge && !slot.unmerged;
            slot.coalescer.push(&self.arena, frame, packet.origin, merge);
        }
        None
    }

    /// Write all frames that the burst delivered, and start a new burst.
    pub fn flush<H: Host + ?Sized>(&mut self, host: &mut H) {
        for index in self.dirty.drain(..) {
            let Vport { coalescer, counters, rx_balance, .. } = &mut self.vports[index as usize];
            coalescer.flush(&self.arena, |lengths, parts| {
                let taken = host.write(index as usize, parts);
                let first = parts[parts.len().min(2) - 1];
                let head = if parts.len() == 2 { first } else { &parts[0][SIZE..] };
                let (multicast, tagged) = (head[0] & 1 != 0, is_tagged(head));
                let mut frames = 0;
                for len in lengths {
                    frames += u64::from(taken);
                    if taken {
                        counters.rx.attempt(len);
                        counters.rx.kind(multicast, tagged);
                        rx_balance.leave(len);
                    } else {
                        counters.rx_fifo_errors += 1;
                        rx_balance.drop(Drop::VnicRxHost);
                    }
                }
                counters.rx_merged += frames.saturating_sub(1);
            });
        }
        self.used = 0;
    }
}

/// Decisions made once for all segments of a frame.
struct Way {
    port: Option<u32>,
    words: HeaderWords,
    refusal: Option<Refusal>,
    multicast: bool,
    tagged: bool,
    origin: Origin,
}

impl Vport {
    /// Set whether the device takes merged datagrams.
    pub fn take_datagrams_merged(&mut self, merged: bool) {
        self.coalescer.datagrams = merged;
    }

    fn malformed(&mut self, len: usize) {
        self.tx_balance.enter(len);
        self.tx_balance.drop(Drop::VnicTxMalformed);
    }

    /// Count a frame that is not sent. Like the driver, include headers that were already in front of it.
    fn refuse(&mut self, refusal: Refusal, len: usize) {
        let counters = &mut self.counters;
        let (field, extra, reason) = match refusal {
            Refusal::State => (&mut counters.tx_drop_state, VNIC_HEADER + 4, Drop::VnicTxState),
            Refusal::Source => (&mut counters.tx_smac_filt, 0, Drop::VnicTxSmac),
            Refusal::NoDlid => (&mut counters.tx_dlid_zero, VNIC_HEADER, Drop::VnicTxDlid),
        };
        *field += 1;
        self.tx_balance.drop(reason);
        counters.tx.attempt(len + extra);
    }

    /// Check a received frame as the driver does, and count it if it ends here.
    #[inline]
    fn admits(&mut self, len: usize) -> bool {
        let counters = &mut self.counters;
        let reason = if !self.config.oper_up {
            counters.rx_drop_state += 1;
            Drop::VnicRxState
        } else if len > self.config.longest_frame() {
            counters.rx_oversize += 1;
            counters.rx.attempt(len);
            Drop::VnicRxOversize
        } else if len < 60 {
            counters.rx_runt += 1;
            counters.rx.attempt(len);
            Drop::VnicRxRunt
        } else {
            return true;
        };
        self.rx_balance.drop(reason);
        false
    }
}

fn egress_refusal(port: &HfiPort, packet: &[u8]) -> Option<Drop> {
    if !port.active {
        return Some(Drop::TxPortDown);
    }
    if wire::l2(packet) != 2 || wire::length(packet) != packet.len() {
        return Some(Drop::TxMalformed);
    }
    if wire::slid(packet) >> port.lmc != port.lid >> port.lmc {
        return Some(Drop::TxSlid);
    }
    if wire::dlid(packet) == 0 {
        return Some(Drop::TxDlid);
    }
    (!port.sendable.contains(wire::pkey(packet))).then_some(Drop::TxPkey)
}

fn ingress_refusal(port: &HfiPort, packet: &[u8], icrc: bool) -> Option<Drop> {
    if !port.active {
        return Some(Drop::RxPortDown);
    }
    match wire::check(packet, icrc) {
        Ok(()) => address_refusal(port, packet),
        Err(fault) => Some(drop_reason(fault)),
    }
}

fn drop_reason(fault: Fault) -> Drop {
    match fault {
        Fault::Truncated => Drop::RxTruncated,
        Fault::L2 => Drop::RxL2,
        Fault::Length => Drop::RxLength,
        Fault::Icrc => Drop::RxIcrc,
    }
}

/// Return why a port refuses a well-formed packet: its destination or its partition is another.
fn address_refusal(port: &HfiPort, packet: &[u8]) -> Option<Drop> {
    let dlid = wire::dlid(packet);
    if wire::is_multicast(dlid) {
        if !port.groups.contains_key(&dlid) {
            return Some(Drop::RxDlid);
        }
    } else if dlid >> port.lmc != port.lid >> port.lmc && dlid != wire::LID_PERMISSIVE {
        return Some(Drop::RxDlid);
    }
    (!port.admitted.contains(wire::pkey(packet))).then_some(Drop::RxPkey)
}
