//! Coalescing: consecutive segments of a flow leave as one frame with a segmentation header, as the kernel's GRO
//! (generic receive offload) hands them up.
//!
//! A frame is merged only if the kernel's GRO would merge it and the merge can be undone exactly: equal headers except
//! length, id, sequence number and PSH/FIN, consecutive ids, equal sizes except the last, no padding, checksums known
//! or checked. All other frames pass unchanged, in order. UDP datagrams are merged only on request, since the kernel
//! does not merge them by default; sockets still get each of them as it was sent.

use std::ops::Deref;

use wire::frame::{IPV4, IPV6, Parsed, TCP, UDP, be16, parse};

use crate::checksum::{fold, get, pseudo, put, sum};
use crate::segment::Origin;
use crate::vnet::{DATA_VALID, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, SIZE, VnetHeader};

const MAX_IP_LEN: usize = 65_535;
/// The kernel's UDP_MAX_SEGMENTS of old; newer ones take twice as many.
const MAX_UDP_SEGMENTS: usize = 64;
const MAX_HEADER: usize = 192;
/// The number of flows whose frames can be extended at once; frames of older flows are not extended any more.
const OPEN_SLOTS: usize = 16;
const TCP_ACK: u8 = 0x10;
const TCP_PSH: u8 = 0x08;
const TCP_FIN: u8 = 0x01;
/// IPv6 extension headers behind which TCP or UDP may follow.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// In the byte that holds the flags of an IPv4 header.
const DONT_FRAGMENT: u8 = 0x40;

/// Where bytes lie among the packets of the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Index of the packet.
    pub packet: u32,
    pub at: u32,
    pub len: u32,
}

impl Span {
    /// `len` bytes from byte `from` of it.
    #[inline]
    fn part(&self, from: usize, len: usize) -> Span {
        Span { packet: self.packet, at: self.at + from as u32, len: len as u32 }
    }

    #[inline]
    fn of<'a>(&self, burst: &'a [impl Deref<Target = [u8]>]) -> &'a [u8] {
        &burst[self.packet as usize][self.at as usize..(self.at + self.len) as usize]
    }
}

/// One frame to be written: that of one packet, or of several merged ones.
#[derive(Default)]
pub struct Slot {
    /// The first packet's frame.
    frame: Span,
    parsed: Parsed,
    key: u64,
    open: bool,
    /// Whether the checksum is known to be right, by origin or after a check.
    verified: bool,
    header_len: usize,
    /// Payload length of the first packet: the segment size.
    size: usize,
    payload_len: usize,
    next_seq: u32,
    next_id: u16,
    last_flags: u8,
    /// Which bits of the headers all packets share; set once there is a second one.
    shared: Shared,
    /// Payloads in order; empty for a frame that is not merged.
    pieces: Vec<Span>,
}

/// A mask of headers.
struct Shared([u8; MAX_HEADER]);

impl Default for Shared {
    fn default() -> Self {
        Shared([0; MAX_HEADER])
    }
}

impl Shared {
    /// Everything but IPv4 length, id and checksum, TCP sequence number, flags and checksum, UDP length and checksum.
    fn set(&mut self, parsed: &Parsed, header_len: usize) {
        let (l3, l4) = (parsed.l3, parsed.l4);
        let mask = &mut self.0[..header_len];
        mask.fill(0xff);
        if parsed.ethertype == IPV4 {
            mask[l3 + 2..l3 + 6].fill(0);
            mask[l3 + 10..l3 + 12].fill(0);
        } else {
            mask[l3 + 4..l3 + 6].fill(0);
        }
        mask[l4 + 4..l4 + 8].fill(0);
        if parsed.protocol == TCP {
            mask[l4 + 13] = 0;
            mask[l4 + 16..l4 + 18].fill(0);
        }
    }

    /// Whether two frames are equal under the mask in their first `header_len` bytes.
    #[inline]
    fn is_same(&self, header_len: usize, a: &[u8], b: &[u8]) -> bool {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        let (mask, a, b) = (&self.0[..header_len], &a[..header_len], &b[..header_len]);
        let words = mask.chunks_exact(8).zip(a.chunks_exact(8)).zip(b.chunks_exact(8));
        let differ = words.fold(0, |differ, ((mask, a), b)| differ | (word(mask) & (word(a) ^ word(b))));
        // headers have more than 8 bytes
        let last = header_len - 8..;
        let rest = word(&mask[last.clone()]) & (word(&a[last.clone()]) ^ word(&b[last]));
        differ | rest == 0
    }
}

/// Frames in one write, as they were received: so many of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub frames: u64,
    pub len: usize,
}

/// Bursts received so far, and the sum of TCP flows in each, which is estimated and limited to a few tens a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    pub bursts: u64,
    pub flows: u64,
}

/// The frames of one burst for one vport.
#[derive(Default)]
pub struct Coalescer {
    slots: Vec<Slot>,
    used: usize,
    mix: Mix,
    /// A bit for each TCP flow in the burst; several flows may share a bit.
    flows: u64,
    /// Datagrams are merged, too.
    pub datagrams: bool,
}

/// A TCP or UDP packet that could be merged, taken apart.
struct Candidate {
    key: u64,
    header_len: usize,
    payload_len: usize,
    seq: u32,
    id: u16,
    flags: u8,
}

impl Coalescer {
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What has come so far, without frames that were not to be merged.
    pub fn mix(&self) -> Mix {
        self.mix
    }

    /// Take `count` frames of the same length that begin `step` bytes apart. Those that were cut from one large send
    /// (`Origin::Cut`) are not looked at one by one.
    pub fn push_all(
        &mut self,
        burst: &[impl Deref<Target = [u8]>],
        mut frame: Span,
        step: u32,
        mut count: u32,
        origin: Origin,
        merge: bool,
    ) {
        while count > 0 {
            let slot = self.push(burst, frame, origin, merge);
            let followed = match slot {
                Some(slot) if count > 1 && origin == Origin::Cut => {
                    self.slots[slot].follow(burst, frame, step, count - 1)
                }
                _ => 0,
            };
            frame.at += step * (1 + followed);
            count -= 1 + followed;
        }
    }

    /// Take one received frame; return the slot that it went to, if more may follow it there.
    pub fn push(
        &mut self,
        burst: &[impl Deref<Target = [u8]>],
        frame: Span,
        origin: Origin,
        merge: bool,
    ) -> Option<usize> {
        let bytes = frame.of(burst);
        let verified = origin != Origin::Unknown;
        if !merge {
            self.append(frame, Parsed::default(), verified);
            return None;
        }
        if let Some(last) = self.used.checked_sub(1)
            && self.slots[last].continues(burst, frame, verified)
        {
            return self.slots[last].open.then_some(last);
        }
        let parsed = parse(bytes);
        let alone = parsed.protocol == UDP && !self.datagrams;
        let candidate = if alone { None } else { Candidate::of(bytes, &parsed) };
        let Some(candidate) = candidate else {
            if parsed.l4 != 0 {
                let key = flow_key(bytes, &parsed);
                self.note_flow(&parsed, key);
                self.close(|slot| slot.key == key);
            } else if hides_ports(&parsed) {
                // it may belong to any flow, and must not be overtaken
                self.close(|_| true);
            }
            self.append(frame, parsed, verified);
            return None;
        };
        self.note_flow(&parsed, candidate.key);
        let mut recent = (self.used.saturating_sub(OPEN_SLOTS)..self.used).rev();
        if let Some(index) = recent.find(|&i| self.slots[i].open && self.slots[i].key == candidate.key) {
            let slot = &mut self.slots[index];
            if slot.extend(burst, frame, &parsed, &candidate, verified) {
                return slot.open.then_some(index);
            }
            slot.open = false;
        }
        let slot = self.append(frame, parsed, verified);
        slot.open = true;
        slot.key = candidate.key;
        slot.header_len = candidate.header_len;
        slot.size = candidate.payload_len;
        slot.payload_len = candidate.payload_len;
        slot.next_seq = candidate.seq.wrapping_add(candidate.payload_len as u32);
        slot.next_id = candidate.id.wrapping_add(1);
        slot.last_flags = candidate.flags;
        if candidate.flags & (TCP_PSH | TCP_FIN) != 0 && parsed.protocol == TCP {
            slot.open = false;
        }
        slot.open.then_some(self.used - 1)
    }

    fn append(&mut self, frame: Span, parsed: Parsed, verified: bool) -> &mut Slot {
        if self.used == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[self.used];
        self.used += 1;
        slot.frame = frame;
        slot.parsed = parsed;
        slot.verified = verified;
        slot.open = false;
        slot.key = 0;
        slot.pieces.clear();
        slot
    }

    fn note_flow(&mut self, parsed: &Parsed, key: u64) {
        // the upper bits depend on all of the input
        self.flows |= u64::from(parsed.protocol == TCP) << (key >> 58);
    }

    /// The frames that may still be extended.
    fn reachable(&mut self) -> &mut [Slot] {
        let from = self.used.saturating_sub(OPEN_SLOTS);
        &mut self.slots[from..self.used]
    }

    fn close(&mut self, concerns: impl Fn(&Slot) -> bool) {
        for slot in self.reachable() {
            slot.open &= !concerns(slot);
        }
    }

    /// Give each frame to `write`, in order, and forget them all.
    ///
    /// The first argument is the list of merged frames in order, or a single frame; the second is the parts to write:
    /// virtio-net header and frame, or header with frame headers, then the payloads.
    pub fn flush(&mut self, burst: &[impl Deref<Target = [u8]>], mut write: impl FnMut(&[Run], &[&[u8]])) {
        for slot in &self.slots[..self.used] {
            slot.emit(burst, &mut write);
        }
        self.used = 0;
        self.mix.bursts += 1;
        self.mix.flows += u64::from(self.flows.count_ones());
        self.flows = 0;
    }
}

impl Candidate {
    #[inline]
    fn of(frame: &[u8], parsed: &Parsed) -> Option<Candidate> {
        if parsed.l4 == 0 {
            return None;
        }
        // no options: they would have to be compared, and are rare; inet_gro_receive takes no flag but one
        if parsed.ethertype == IPV4
            && (frame[parsed.l3] != 0x45 || frame[parsed.l3 + 6] & !DONT_FRAGMENT != 0)
        {
            return None;
        }
        let header_len = if parsed.protocol == TCP {
            let data_offset = usize::from(frame[parsed.l4 + 12] >> 4) * 4;
            if data_offset < 20 {
                return None;
            }
            parsed.l4 + data_offset
        } else {
            parsed.l4 + 8
        };
        Candidate::with_headers(frame, parsed, header_len, flow_key(frame, parsed))
    }

    /// Parse the fields that differ between packets of a flow; the length of the headers is known.
    #[inline]
    fn with_headers(frame: &[u8], parsed: &Parsed, header_len: usize, key: u64) -> Option<Candidate> {
        let (l3, l4) = (parsed.l3, parsed.l4);
        let (ip_end, id) = if parsed.ethertype == IPV4 {
            (l3 + usize::from(be16(frame, l3 + 2)), be16(frame, l3 + 4))
        } else {
            (l3 + 40 + usize::from(be16(frame, l3 + 4)), 0)
        };
        // bytes behind the IP packet, such as the padding of a short frame, would be lost: inet_gro_receive flushes then
        if ip_end != frame.len() {
            return None;
        }
        let (seq, flags) = if parsed.protocol == TCP {
            let flags = frame[l4 + 13];
            if flags & !(TCP_PSH | TCP_FIN) != TCP_ACK {
                return None;
            }
            (u32::from_be_bytes(frame[l4 + 4..l4 + 8].try_into().unwrap()), flags)
        } else {
            // a zero checksum means none, which a merged frame cannot express
            if get(frame, l4 + 6) == 0 || l4 + usize::from(be16(frame, l4 + 4)) != ip_end {
                return None;
            }
            (0, 0)
        };
        if header_len >= ip_end || header_len > MAX_HEADER - SIZE {
            return None;
        }
        Some(Candidate { key, header_len, payload_len: ip_end - header_len, seq, id, flags })
    }
}

/// Whether a packet without visible ports may be TCP or UDP: a fragment, or one with IPv6 extension headers.
#[inline]
fn hides_ports(parsed: &Parsed) -> bool {
    match parsed.protocol {
        TCP | UDP => true,
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => parsed.ethertype == IPV6,
        _ => false,
    }
}

/// A number that nearly always differs between flows; the comparison of headers decides.
#[inline]
fn flow_key(frame: &[u8], parsed: &Parsed) -> u64 {
    let word = |at: usize| u64::from(u32::from_ne_bytes(frame[at..at + 4].try_into().unwrap()));
    let (l3, l4) = (parsed.l3, parsed.l4);
    let addresses = if parsed.ethertype == IPV4 {
        word(l3 + 12) << 32 | word(l3 + 16)
    } else {
        (word(l3 + 16) ^ word(l3 + 20)) << 32 | (word(l3 + 32) ^ word(l3 + 36))
    };
    (addresses ^ word(l4).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(u64::from(parsed.protocol))
}

impl Slot {
    /// Add a frame with the same headers as the frame added last, the usual case in a long send, without parsing it
    /// again. Return false if the headers differ or no frame can be added.
    #[inline]
    fn continues(&mut self, burst: &[impl Deref<Target = [u8]>], frame: Span, verified: bool) -> bool {
        let other = frame.of(burst);
        if !self.open || self.pieces.is_empty() || other.len() < self.header_len {
            return false;
        }
        let parsed = self.parsed;
        match Candidate::with_headers(other, &parsed, self.header_len, self.key) {
            Some(c) if parsed.protocol == TCP && c.seq != self.next_seq => false,
            Some(c) => self.add(burst, frame, &c, verified),
            None => false,
        }
    }

    fn extend(
        &mut self,
        burst: &[impl Deref<Target = [u8]>],
        frame: Span,
        parsed: &Parsed,
        c: &Candidate,
        verified: bool,
    ) -> bool {
        if *parsed != self.parsed
            || c.header_len != self.header_len
            || (parsed.protocol == TCP && c.seq != self.next_seq)
        {
            return false;
        }
        self.add(burst, frame, c, verified)
    }

    /// Add up to `count` frames that were cut behind `frame`, which was added last, and begin `step` bytes apart; return
    /// how many. Their headers are not checked: they differ only in what segmentation changes, and their checksums are
    /// right.
    fn follow(&mut self, burst: &[impl Deref<Target = [u8]>], frame: Span, step: u32, count: u32) -> u32 {
        let count = self.places().min(count as usize);
        if count == 0 {
            return 0;
        }
        self.prepare();
        let Slot { parsed, header_len, size, .. } = *self;
        let mut frame = frame;
        for _ in 0..count {
            frame.at += step;
            self.pieces.push(frame.part(header_len, size));
        }
        self.payload_len += count * size;
        self.next_seq = self.next_seq.wrapping_add((count * size) as u32);
        self.next_id = self.next_id.wrapping_add(count as u16);
        if parsed.protocol == TCP {
            // the last segment of a send may have PSH or FIN set
            self.last_flags = frame.of(burst)[parsed.l4 + 13];
            self.open = self.last_flags & (TCP_PSH | TCP_FIN) == 0;
        }
        count as u32
    }

    /// How many payloads of the size of the first may be added.
    fn places(&self) -> usize {
        let bytes = MAX_IP_LEN - (self.header_len - self.parsed.l3 + self.payload_len).min(MAX_IP_LEN);
        (bytes / self.size).min(self.most_pieces() - self.pieces.len().max(1))
    }

    /// Add a frame that comes next, if its headers are the same and its checksum is right.
    #[inline]
    fn add(
        &mut self,
        burst: &[impl Deref<Target = [u8]>],
        frame: Span,
        c: &Candidate,
        verified: bool,
    ) -> bool {
        if !self.has_room(c.payload_len) {
            return false;
        }
        let parsed = self.parsed;
        let (first, other) = (self.frame.of(burst), frame.of(burst));
        if self.pieces.is_empty() {
            self.shared.set(&parsed, self.header_len);
        }
        if !self.shared.is_same(self.header_len, first, other)
            || !is_next_id(first, &parsed, c.id, self.next_id)
        {
            return false;
        }
        // the first packet is checked only when there is a second one to merge
        if !self.verified && !checksum_right(first, &parsed, self.header_len + self.size) {
            return false;
        }
        self.verified = true;
        if !verified && !checksum_right(other, &parsed, c.header_len + c.payload_len) {
            return false;
        }
        self.begin_merging();
        self.merge(frame, c.payload_len, c.flags);
        self.next_id = c.id.wrapping_add(1);
        true
    }

    /// Whether a payload of `len` bytes may be added.
    #[inline]
    fn has_room(&self, len: usize) -> bool {
        len <= self.size
            && self.header_len - self.parsed.l3 + self.payload_len + len <= MAX_IP_LEN
            && self.pieces.len().max(1) < self.most_pieces()
    }

    #[inline]
    fn most_pieces(&self) -> usize {
        if self.parsed.protocol == TCP { MAX_PIECES } else { MAX_UDP_SEGMENTS }
    }

    /// Prepare for a second packet: make the first one the first piece, and set the mask of shared header bits.
    #[inline]
    fn prepare(&mut self) {
        if self.pieces.is_empty() {
            self.shared.set(&self.parsed, self.header_len);
            self.begin_merging();
        }
    }

    /// Make the first packet the first piece, if it stood alone.
    #[inline]
    fn begin_merging(&mut self) {
        if self.pieces.is_empty() {
            self.pieces.push(self.frame.part(self.header_len, self.size));
        }
    }

    /// Add the payload of `frame`; `flags` are those of its TCP header.
    #[inline]
    fn merge(&mut self, frame: Span, len: usize, flags: u8) {
        self.pieces.push(frame.part(self.header_len, len));
        self.payload_len += len;
        self.next_seq = self.next_seq.wrapping_add(len as u32);
        self.last_flags = flags;
        let ends = self.parsed.protocol == TCP && flags & (TCP_PSH | TCP_FIN) != 0;
        self.open = len == self.size && !ends;
    }

    fn emit(&self, burst: &[impl Deref<Target = [u8]>], write: &mut impl FnMut(&[Run], &[&[u8]])) {
        let frame = self.frame.of(burst);
        if self.pieces.is_empty() {
            let flags = if self.verified && self.parsed.l4 != 0 { DATA_VALID } else { 0 };
            let header = VnetHeader { flags, ..VnetHeader::default() }.build();
            write(&[Run { frames: 1, len: frame.len() }], &[&header, frame]);
            return;
        }
        let mut head = [0u8; MAX_HEADER];
        let end = SIZE + self.header_len;
        head[SIZE..end].copy_from_slice(&frame[..self.header_len]);
        let header = self.merged_headers(&mut head[SIZE..end]);
        head[..SIZE].copy_from_slice(&header.build());
        let mut parts: [&[u8]; 1 + MAX_PIECES] = [&[]; 1 + MAX_PIECES];
        parts[0] = &head[..end];
        for (part, piece) in parts[1..].iter_mut().zip(&self.pieces) {
            *part = piece.of(burst);
        }
        // all but the last one have the size of the first
        let whole = self.pieces.len() - 1;
        let last = self.payload_len - whole * self.size;
        let run = |frames: usize, len: usize| Run { frames: frames as u64, len: self.header_len + len };
        write(&[run(whole, self.size), run(1, last)], &parts[..=self.pieces.len()]);
    }

    /// Turn the first packet's headers into those of the merged frame.
    fn merged_headers(&self, head: &mut [u8]) -> VnetHeader {
        let (l3, l4) = (self.parsed.l3, self.parsed.l4);
        let total = head.len() - l3 + self.payload_len;
        let ipv4 = self.parsed.ethertype == IPV4;
        let addresses = if ipv4 {
            head[l3 + 2..l3 + 4].copy_from_slice(&(total as u16).to_be_bytes());
            head[l3 + 10..l3 + 12].fill(0);
            let value = !fold(sum(&head[l3..l4]));
            put(head, l3 + 10, value);
            l3 + 12..l3 + 20
        } else {
            head[l3 + 4..l3 + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
            l3 + 8..l3 + 40
        };
        let l4_len = head.len() - l4 + self.payload_len;
        let pseudo = pseudo(&head[addresses], self.parsed.protocol, l4_len);
        let (gso_type, csum_offset) = if self.parsed.protocol == UDP {
            head[l4 + 4..l4 + 6].copy_from_slice(&(l4_len as u16).to_be_bytes());
            (GSO_UDP_L4, 6)
        } else {
            head[l4 + 13] |= self.last_flags & (TCP_PSH | TCP_FIN);
            (if ipv4 { GSO_TCPV4 } else { GSO_TCPV6 }, 16)
        };
        // each packet's checksum was right; that of the merged frame is left to be completed, as by the kernel's GRO,
        // so that the receiver need not sum all bytes again
        put(head, l4 + csum_offset, fold(pseudo));
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: head.len() as u16,
            gso_size: self.size as u16,
            csum_start: l4 as u16,
            csum_offset: csum_offset as u16,
        }
    }
}

/// Pieces that a merged frame can have: 64 KiB at an MTU of 576.
const MAX_PIECES: usize = 128;

/// Whether the id of an IPv4 packet is the next one.
///
/// Don't-fragment with a constant id would do too, but the kernel could not restore such ids. For datagrams it need
/// not: the id of a datagram that is not fragmented has no meaning (RFC 6864).
#[inline]
fn is_next_id(first: &[u8], parsed: &Parsed, id: u16, next_id: u16) -> bool {
    let any = parsed.protocol == UDP && first[parsed.l3 + 6] & DONT_FRAGMENT != 0;
    parsed.ethertype != IPV4 || any || id == next_id
}

/// Check the TCP or UDP checksum of a frame, and for IPv4 the header's.
fn checksum_right(frame: &[u8], parsed: &Parsed, end: usize) -> bool {
    let (l3, l4) = (parsed.l3, parsed.l4);
    let addresses = if parsed.ethertype == IPV4 {
        if fold(sum(&frame[l3..l4])) != 0xffff {
            return false;
        }
        &frame[l3 + 12..l3 + 20]
    } else {
        &frame[l3 + 8..l3 + 40]
    };
    fold(pseudo(addresses, parsed.protocol, end - l4) + sum(&frame[l4..end])) == 0xffff
}
