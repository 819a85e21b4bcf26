//! From a host into the fabric: cut, encapsulate, seal, count. The reference is opavnic/vnic/transmit.py.

use offload::segment::Segments;
use offload::vnet::VnetHeader;
use wire::flow::flow_hash;
use wire::frame::{is_tagged, parse};
use wire::{HeaderWords, MAX_FRAME, VNIC_HEADER, check, seal, sizes};

use super::{MOST_HEARD, Vnics};
use crate::api::Engine;
use crate::counters::Drop;
use crate::encap::Refusal;
use crate::outputs::PortId;
use crate::packet::{Packet, Packets, longest_burst};
use crate::port::Address;

/// Decisions made once for all segments of a frame.
struct Way {
    port: Option<PortId>,
    words: HeaderWords,
    address: Address,
    refusal: Option<Refusal>,
    multicast: bool,
    tagged: bool,
}

/// Where VNICs send their packets.
pub trait Uplink {
    /// Where packets are made.
    fn packets(&mut self) -> &mut Packets;

    /// Send a packet from an HFI port, or several that `takes_together` has allowed; return why the port refused it.
    fn send(&mut self, port: PortId, packet: Packet, address: Address) -> Option<Drop>;

    /// Whether `count` packets of `len` bytes with this header may be sent together, and none would be refused.
    fn takes_together(
        &mut self,
        _port: PortId,
        _address: Address,
        _header: &[u8],
        _len: usize,
        _count: usize,
    ) -> bool {
        false
    }
}

/// An engine at a time.
struct At<'a>(&'a mut Engine, u64);

impl Uplink for At<'_> {
    #[inline]
    fn packets(&mut self) -> &mut Packets {
        self.0.packets()
    }

    #[inline]
    fn send(&mut self, port: PortId, packet: Packet, address: Address) -> Option<Drop> {
        self.0.inject(self.1, port, packet, address)
    }

    #[inline]
    fn takes_together(
        &mut self,
        port: PortId,
        address: Address,
        header: &[u8],
        len: usize,
        count: usize,
    ) -> bool {
        self.0.may_inject_together(self.1, port, address, header, len, count)
    }
}

impl Vnics {
    /// Send one frame from the host of a vport into the fabric, as `transmit_over` does.
    pub fn transmit(
        &mut self,
        engine: &mut Engine,
        now: u64,
        vport: usize,
        header: &VnetHeader,
        frame: (&mut [u8], usize),
        hash: Option<u32>,
    ) {
        self.transmit_over(&mut At(engine, now), vport, header, frame, hash);
    }

    /// Send one frame from the host of `vport`; `header` says which offloads it needs.
    ///
    /// The first `len` bytes of `buffer` hold the frame; `buffer` has at least 60 bytes. `hash` overrides the hash
    /// of the flow.
    pub fn transmit_over(
        &mut self,
        uplink: &mut impl Uplink,
        vport: usize,
        header: &VnetHeader,
        (buffer, len): (&mut [u8], usize),
        hash: Option<u32>,
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
        let config = &*slot.config;
        let hash = hash.unwrap_or_else(|| flow_hash(padded, &parsed) >> config.hash_shift);
        let encap = config.encap(padded, &parsed, hash);
        let way = Way {
            port: slot.port,
            words: encap.words,
            address: Address {
                slid: config.slid & 0xff_ffff,
                dlid: encap.dlid & 0xff_ffff,
                pkey: config.pkey,
            },
            refusal: config.refusal(padded, encap.dlid, slot.port.is_some()),
            multicast: padded[0] & 1 != 0,
            tagged: is_tagged(padded),
        };
        if !matches!(way.refusal, Some(Refusal::State | Refusal::Source))
            && let Some(source) = slot.news(padded)
            && self.heard.len() < MOST_HEARD
            && !self.heard.contains(&(vport as u32, source))
        {
            self.heard.push((vport as u32, source));
        }
        slot.counters.tx_cut += segments.remaining() as u64 - 1;
        while self.transmit_together(uplink, vport, &way, &mut segments) {}
        while let Some(raw_len) = segments.next_len() {
            self.transmit_segment(uplink, vport, &way, &mut segments, raw_len);
        }
    }

    /// Count, build and send further segments of equal length together, if that is allowed; return whether they were sent.
    fn transmit_together(
        &mut self,
        uplink: &mut impl Uplink,
        vport: usize,
        way: &Way,
        segments: &mut Segments<'_>,
    ) -> bool {
        let (None, Some(port), false) = (way.refusal, way.port, way.multicast) else { return false };
        let Some((raw_len, equal)) = segments.next_equal().filter(|(_, equal)| *equal > 1) else {
            return false;
        };
        let len = raw_len.max(60);
        let (pad, size) = sizes(len);
        let count = equal.min(longest_burst(size));
        if len > MAX_FRAME || count < 2 {
            return false;
        }
        let mut head = [0; VNIC_HEADER];
        way.words.write(&mut head);
        if !uplink.takes_together(port, way.address, &head, size, count) {
            return false;
        }
        let icrc = self.icrc;
        let mut are_sound = icrc;
        let packet = uplink.packets().make_burst(size, count, |mut own| {
            segments.write_next(&mut own.bytes[VNIC_HEADER..VNIC_HEADER + len]);
            way.words.write(own.bytes);
            seal(own.bytes, pad, icrc);
            own.set_sealed(icrc);
            own.set_origin(segments.origin());
            // checked now, while it is in the nearest cache: at the receiver, the packets behind it have pushed it out
            are_sound = are_sound && check(own.bytes, true).is_ok();
            own.set_sound(are_sound);
        });
        uplink.send(port, packet, way.address);
        let slot = &mut self.vports[vport];
        slot.tx_balance.enter_many(count as u32, raw_len);
        slot.tx_balance.leave_many(count as u32, len);
        slot.counters.tx.attempt_many(count as u64, len);
        slot.counters.tx.kind_many(count as u64, way.multicast, way.tagged);
        true
    }

    /// Count, build and send the next segment.
    #[inline]
    fn transmit_segment(
        &mut self,
        uplink: &mut impl Uplink,
        vport: usize,
        way: &Way,
        segments: &mut Segments<'_>,
        raw_len: usize,
    ) {
        let slot = &mut self.vports[vport];
        let len = raw_len.max(60);
        if len > MAX_FRAME {
            segments.skip();
            return slot.malformed(raw_len);
        }
        slot.tx_balance.enter(raw_len);
        let (None, Some(port)) = (way.refusal, way.port) else {
            segments.skip();
            return slot.refuse(way.refusal.unwrap_or(Refusal::State), len);
        };
        slot.tx_balance.leave(len);
        let (pad, size) = sizes(len);
        let icrc = self.icrc;
        let packet = uplink.packets().make(size, |mut own| {
            segments.write_next(&mut own.bytes[VNIC_HEADER..VNIC_HEADER + len]);
            way.words.write(own.bytes);
            seal(own.bytes, pad, icrc);
            own.set_sealed(icrc);
            own.set_origin(segments.origin());
        });
        let drop = uplink.send(port, packet, way.address);
        slot.counters.tx.attempt(len);
        if drop.is_none() {
            slot.counters.tx.kind(way.multicast, way.tagged);
        } else {
            // the port has counted the drop
            slot.counters.tx_carrier_errors += 1;
        }
    }
}
