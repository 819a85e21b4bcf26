//! Segmentation: a frame from the kernel, possibly one large send without checksums, becomes frames as on a wire:
//! MTU-sized, complete, with all checksums.

use wire::frame::{IPV4, IPV6, Parsed, TCP, UDP, be16};

use crate::checksum::{be, copy_and_sum, fold, get, pseudo, put, sum};
use crate::vnet::{GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, VnetHeader};

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// A frame whose virtio-net header makes no sense: the caller counts it as malformed.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// How one frame from the host becomes frames on the wire.
pub struct Segments<'a> {
    frame: &'a [u8],
    kind: Kind,
    /// Bytes of headers in front of the payload, repeated in each segment.
    header_len: usize,
    size: usize,
    next: usize,
    count: usize,
    origin: Origin,
}

/// What is known about a frame because of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing: its checksum may be wrong.
    Unknown,
    /// The TCP or UDP checksum was computed here.
    Summed,
    /// That, and frames in one buffer were cut from one large send, one after the other.
    Cut,
}

enum Kind {
    /// The frame as it is.
    Plain,
    /// The frame as it is, with one checksum to fill in.
    Checksum {
        start: usize,
        field: usize,
    },
    Cut(Cut),
}

/// What is the same for all segments of one send, summed up once.
struct Cut {
    l3: usize,
    l4: usize,
    ipv4: bool,
    tcp: bool,
    /// IPv4 header without length, id and checksum.
    ip_sum: u64,
    /// Addresses, protocol and the L4 header without sequence number, flags, length and checksum.
    l4_sum: u64,
    id: u16,
    seq: u32,
}

impl<'a> Segments<'a> {
    /// Parse `frame` (14 bytes or more) and its virtio-net header.
    pub fn new(frame: &'a [u8], header: &VnetHeader, parsed: &Parsed) -> Result<Self, Malformed> {
        let mut segments = Segments {
            frame,
            kind: Kind::Plain,
            header_len: 0,
            size: frame.len(),
            next: 0,
            count: 1,
            origin: origin(header, parsed),
        };
        if header.gso() == GSO_NONE {
            if header.needs_csum() {
                let start = usize::from(header.csum_start);
                let field = start + usize::from(header.csum_offset);
                if start < 14 || field + 2 > frame.len() {
                    return Err(Malformed);
                }
                segments.kind = Kind::Checksum { start, field };
            }
            return Ok(segments);
        }
        let cut = Cut::new(frame, header, parsed)?;
        segments.header_len = cut.l4 + if cut.tcp { usize::from(frame[cut.l4 + 12] >> 4) * 4 } else { 8 };
        segments.size = usize::from(header.gso_size);
        let payload = frame.len().checked_sub(segments.header_len).ok_or(Malformed)?;
        if segments.size == 0 || payload == 0 || segments.header_len < cut.l4 + if cut.tcp { 20 } else { 8 } {
            return Err(Malformed);
        }
        segments.count = payload.div_ceil(segments.size);
        segments.kind = Kind::Cut(cut);
        if segments.origin == Origin::Summed {
            segments.origin = Origin::Cut;
        }
        Ok(segments)
    }

    /// What is known of the frames that come out.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The number of frames left.
    pub fn remaining(&self) -> usize {
        self.count - self.next
    }

    /// Return the length of the next frame, before it is padded; None after the last.
    pub fn next_len(&self) -> Option<usize> {
        (self.next < self.count).then(|| match self.kind {
            Kind::Cut(_) => self.header_len + self.piece().len(),
            _ => self.frame.len(),
        })
    }

    /// Return the length of the next frame, and how many in a row from it on have this length; None: there is none, or the
    /// frame is not cut.
    pub fn next_equal(&self) -> Option<(usize, usize)> {
        let Kind::Cut(_) = self.kind else { return None };
        let whole = (self.frame.len() - self.header_len) / self.size;
        Some((self.header_len + self.size, whole.checked_sub(self.next)?))
    }

    fn piece(&self) -> &'a [u8] {
        let payload = &self.frame[self.header_len..];
        let start = self.next * self.size;
        &payload[start..payload.len().min(start + self.size)]
    }

    /// Write the next frame to `out`, which has the length that `next_len` said, or more: the rest becomes zeros.
    #[inline]
    pub fn write_next(&mut self, out: &mut [u8]) {
        match &self.kind {
            Kind::Plain => copy_padded(self.frame, out),
            Kind::Checksum { start, field } => {
                copy_padded(self.frame, out);
                let value = !fold(sum(&out[*start..self.frame.len()]));
                put(out, *field, if value == 0 { 0xffff } else { value });
            }
            Kind::Cut(cut) => {
                let piece = self.piece();
                let used = self.header_len + piece.len();
                out[..self.header_len].copy_from_slice(&self.frame[..self.header_len]);
                let sum = fold(copy_and_sum(&mut out[self.header_len..used], piece));
                out[used..].fill(0);
                cut.finish(&mut out[..used], sum, self.next, self.size, self.count);
            }
        }
        self.next += 1;
    }
}

impl Segments<'_> {
    /// Skip the next frame.
    pub fn skip(&mut self) {
        self.next += 1;
    }
}

/// Whether the requested checksum is that of TCP or UDP: its offset in the header is exactly theirs.
fn origin(header: &VnetHeader, parsed: &Parsed) -> Origin {
    let field = match parsed.protocol {
        TCP => 16,
        UDP => 6,
        _ => return Origin::Unknown,
    };
    let there = parsed.l4 != 0 && usize::from(header.csum_start) == parsed.l4;
    let asked = header.needs_csum() && there && usize::from(header.csum_offset) == field;
    if asked { Origin::Summed } else { Origin::Unknown }
}

fn copy_padded(frame: &[u8], out: &mut [u8]) {
    out[..frame.len()].copy_from_slice(frame);
    out[frame.len()..].fill(0);
}

impl Cut {
    fn new(frame: &[u8], header: &VnetHeader, parsed: &Parsed) -> Result<Self, Malformed> {
        let (l3, l4) = (parsed.l3, usize::from(header.csum_start));
        let tcp = matches!(header.gso(), GSO_TCPV4 | GSO_TCPV6);
        let ipv4 = match (header.gso(), parsed.ethertype) {
            (GSO_TCPV4 | GSO_UDP_L4, IPV4) => true,
            (GSO_TCPV6 | GSO_UDP_L4, IPV6) => false,
            _ => return Err(Malformed),
        };
        let (ip_min, l4_min) = (if ipv4 { 20 } else { 40 }, if tcp { 20 } else { 8 });
        if !header.needs_csum() || l4 < l3 + ip_min || frame.len() < l4 + l4_min {
            return Err(Malformed);
        }
        let protocol = if tcp { TCP } else { UDP };
        let (addresses, ip_sum, id) = if ipv4 {
            if l3 + usize::from(frame[l3] & 0xf) * 4 != l4 || parsed.protocol != protocol {
                return Err(Malformed);
            }
            let ip = &frame[l3..l4];
            // version to ttl without length and id, then what follows the checksum
            let ip_sum = u64::from(get(ip, 0)) + sum(&ip[6..10]) + sum(&ip[12..]);
            (&ip[12..20], ip_sum, be16(ip, 4))
        } else {
            (&frame[l3 + 8..l3 + 40], 0, 0)
        };
        let mut l4_sum = pseudo(addresses, protocol, 0);
        let mut seq = 0;
        if tcp {
            let data_offset = usize::from(frame[l4 + 12] >> 4) * 4;
            if data_offset < 20 || frame.len() < l4 + data_offset {
                return Err(Malformed);
            }
            let th = &frame[l4..l4 + data_offset];
            seq = u32::from_be_bytes(th[4..8].try_into().unwrap());
            // all but the sequence number, the word with the flags and the checksum
            l4_sum += sum(&th[0..4]) + sum(&th[8..12]) + sum(&th[14..16]) + sum(&th[18..]);
        } else {
            l4_sum += sum(&frame[l4..l4 + 4]);
        }
        Ok(Cut { l3, l4, ipv4, tcp, ip_sum, l4_sum, id, seq })
    }

    /// Put lengths, id, sequence number, flags and checksums of segment `index` into `out`.
    #[inline]
    fn finish(&self, out: &mut [u8], payload_sum: u16, index: usize, size: usize, count: usize) {
        let (l3, l4) = (self.l3, self.l4);
        let l4_len = out.len() - l4;
        if self.ipv4 {
            let total = (out.len() - l3) as u16;
            let id = self.id.wrapping_add(index as u16);
            out[l3 + 2..l3 + 4].copy_from_slice(&total.to_be_bytes());
            out[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            put(out, l3 + 10, !fold(self.ip_sum + be(total) + be(id)));
        } else {
            let payload = (out.len() - l3 - 40) as u16;
            out[l3 + 4..l3 + 6].copy_from_slice(&payload.to_be_bytes());
        }
        let mut total = self.l4_sum + be(l4_len as u16) + u64::from(payload_sum);
        let field = if self.tcp {
            let seq = self.seq.wrapping_add((index * size) as u32);
            out[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            let last = if index + 1 < count { !TCP_FIN_PSH } else { 0xff };
            let first = if index > 0 { !TCP_CWR } else { 0xff };
            let flags = out[l4 + 13] & last & first;
            out[l4 + 13] = flags;
            // not read back as a word: a load right after the store of one byte stalls
            let word = u16::from_be_bytes([out[l4 + 12], flags]);
            total += be((seq >> 16) as u16) + be(seq as u16) + be(word);
            l4 + 16
        } else {
            out[l4 + 4..l4 + 6].copy_from_slice(&(l4_len as u16).to_be_bytes());
            total += be(l4_len as u16);
            l4 + 6
        };
        let value = !fold(total);
        put(out, field, if value == 0 && !self.tcp { 0xffff } else { value });
    }
}
