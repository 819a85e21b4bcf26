//! Trains: the segments of one large send, forwarded together.
//!
//! Their headers differ only in length, id, sequence number and checksums, so every table lookup on the path has the
//! same result for all of them and is done once. Each segment is still a packet of its own, with its own bytes and
//! ICRC, and is checked at the far end; every counter shows what it would if they had been sent one by one. Where
//! something on the path handles packets individually (Python, a fault, a multicast group, a refusal), the segments
//! are sent one by one.

use std::sync::Arc;

use offload::gro::Span;
use offload::segment::Segments;
use wire::{self, VNIC_HEADER};

use super::{Core, Way, address_refusal, drop_reason, egress_refusal};
use crate::core::fabric::{Direction, End, Fabric, NO_ROUTE};
use crate::counters::Element;

/// The most switches on the path of a train; for longer paths, segments are sent one by one.
const HOPS: usize = 16;

/// The common path.
struct Track {
    directions: [Direction; HOPS + 1],
    switches: [u32; HOPS],
    /// Number of switches; there is one more direction.
    hops: usize,
    /// The destination: index of the HFI port and index of the vport.
    port: u32,
    vport: u32,
}

/// What was sent along the track, in packets and bytes.
#[derive(Default)]
struct Tally {
    packets: u64,
    /// Complete packets: sent, and those that passed the check at the far end.
    sent: u64,
    admitted: u64,
    admitted_packets: u64,
    /// Frames: as the host sent them, and padded.
    raw: u64,
    padded: u64,
}

impl Core {
    /// Send the remaining segments together if their path allows it; otherwise do nothing.
    pub(super) fn transmit_train(&mut self, vport: usize, way: &Way, segments: &mut Segments<'_>) {
        let (Some(port), Some(raw_len)) = (way.port, segments.next_len()) else { return };
        // no remaining segment is longer than the next
        if way.refusal.is_some() || raw_len.max(60) > wire::MAX_FRAME {
            return;
        }
        let fabric = Arc::clone(&self.fabric);
        let Some(track) = self.track(&fabric, port, way, raw_len.max(60)) else { return };
        let target = &mut self.vports[track.vport as usize];
        let merge = self.options.merge && !target.unmerged;
        if target.coalescer.is_empty() {
            self.dirty.push(track.vport);
        }
        let mut tally = Tally::default();
        let mut merged_into = None;
        while let Some(raw_len) = segments.next_len() {
            let len = raw_len.max(60);
            let (pad, size) = wire::sizes(len);
            let span = self.reserve(size);
            let packet = &mut self.arena[span.at as usize..][..size];
            let payload = segments.write_next(&mut packet[VNIC_HEADER..VNIC_HEADER + len]);
            way.words.write(packet);
            wire::seal(packet, pad, self.options.icrc);
            tally.packets += 1;
            tally.sent += size as u64;
            tally.raw += raw_len as u64;
            tally.padded += len as u64;
            self.vports[vport].counters.tx.attempt(len);
            if let Err(fault) = wire::check(packet, self.options.icrc) {
                self.port_rx[track.port as usize].drop(drop_reason(fault));
                continue;
            }
            tally.admitted_packets += 1;
            tally.admitted += size as u64;
            let frame = Span { at: span.at + VNIC_HEADER as u32, len: len as u32 };
            let coalescer = &mut self.vports[track.vport as usize].coalescer;
            let follows =
                merged_into.is_some_and(|slot| coalescer.follow(slot, &self.arena, frame, &payload));
            if !follows {
                merged_into = coalescer.push(&self.arena, frame, way.origin, merge);
            }
        }
        self.account(vport, port, way, &track, &tally);
    }

    /// Find the path of these packets; return None if something on it handles packets individually.
    fn track(&self, fabric: &Fabric, from: u32, way: &Way, len: usize) -> Option<Track> {
        let mut header = [0; wire::MIN_PACKET];
        way.words.write(&mut header);
        let dlid = wire::dlid(&header);
        let hfi = &fabric.ports[from as usize];
        if wire::is_multicast(dlid) || (self.options.enforce && egress_refusal(hfi, &header).is_some()) {
            return None;
        }
        let mut direction = hfi.direction?;
        let mut track =
            Track { directions: [direction; HOPS + 1], switches: [0; HOPS], hops: 0, port: 0, vport: 0 };
        track.port = loop {
            let link = &fabric.links[direction.link as usize];
            if link.slow || !link.up || !link.faults[usize::from(direction.from)].is_empty() {
                return None;
            }
            track.directions[track.hops] = direction;
            match link.ends[usize::from(direction.from ^ 1)] {
                End::Hfi(port) => break port,
                End::Switch(index, in_port) => {
                    let switch = &fabric.switches[index as usize];
                    let out = switch.lft.get(dlid as usize).filter(|&&out| out != NO_ROUTE)?;
                    let out = &switch.ports[usize::from(*out)];
                    if !switch.up
                        || !switch.ports[in_port as usize].active
                        || !out.active
                        || track.hops == HOPS
                    {
                        return None;
                    }
                    direction = out.direction?;
                    track.switches[track.hops] = index;
                    track.hops += 1;
                }
            }
        };
        let hfi = &fabric.ports[track.port as usize];
        if !hfi.active || hfi.demux.mask == 0 || address_refusal(hfi, &header).is_some() {
            return None;
        }
        track.vport = *hfi.demux.vports.get(&u32::from(wire::vesw_id(&header) & hfi.demux.mask))?;
        let config = &self.vports[track.vport as usize].config;
        (config.oper_up && len <= config.longest_frame()).then_some(track)
    }

    /// Update the counters of every element along `track`.
    fn account(&mut self, vport: usize, port: u32, way: &Way, track: &Track, tally: &Tally) {
        let slot = &mut self.vports[vport];
        slot.counters.tx.kinds(way.multicast, way.tagged, tally.packets);
        slot.tx_balance.enter_many(tally.packets, tally.raw);
        slot.tx_balance.leave_many(tally.packets, tally.padded);
        let crossed = |element: &mut Element| {
            element.enter_many(tally.packets, tally.sent);
            element.leave_many(tally.packets, tally.sent);
        };
        crossed(&mut self.port_tx[port as usize]);
        for direction in &track.directions[..=track.hops] {
            crossed(&mut self.directions[direction.link as usize][usize::from(direction.from)]);
        }
        for &switch in &track.switches[..track.hops] {
            crossed(&mut self.switches[switch as usize]);
        }
        let far = &mut self.port_rx[track.port as usize];
        far.enter_many(tally.packets, tally.sent);
        far.leave_many(tally.admitted_packets, tally.admitted);
        self.vports[track.vport as usize].rx_balance.enter_many(tally.admitted_packets, tally.admitted);
    }
}
