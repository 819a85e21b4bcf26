//! For any frames, merging them and cutting the result gives the same frames, byte for byte and in the order of
//! their flow: lost, doubled, late, damaged ones among them. The number of cases: `CASES=100000 cargo test`.

use offload::checksum::{fold, put, sum};
use offload::gro::{Coalescer, Span};
use offload::segment::{Origin, Segments};
use offload::testing::LargeSend;
use offload::vnet::{self, VnetHeader};
use wire::frame::parse;

/// Xorshift: the same frames for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

fn cut(header: &VnetHeader, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = Segments::new(frame, header, &parse(frame)).expect("what was merged can be cut");
    let mut frames = Vec::new();
    while let Some(len) = segments.next_len() {
        let mut out = vec![0xa5; len.max(60)];
        segments.write_next(&mut out);
        frames.push(out);
    }
    frames
}

/// A flow's frames: sends that follow one another, some with headers that differ from the one before.
fn flow(chance: &mut Chance, port: u8) -> Vec<Vec<u8>> {
    let (ipv6, tcp, tags) = (chance.below(2) == 0, chance.below(3) > 0, chance.below(2));
    let mut seq = chance.below(1 << 32) as u32;
    let mut id = chance.below(1 << 16) as u16;
    let mut frames = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let size = [40, 100, 1000][chance.below(3)];
        let payload = 1 + chance.below(usize::from(size) * 6);
        let (header, mut frame) = LargeSend { ipv6, tcp, tags, payload, size }.build();
        let (l3, l4) = (parse(&frame).l3, usize::from(header.csum_start));
        frame[l4 + 1] = port;
        if tcp {
            frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            seq = seq.wrapping_add(payload as u32);
            frame[l4 + 13] = [0x10, 0x10, 0x19, 0x18, 0x11, 0x90, 0x12][chance.below(7)];
            if chance.below(4) == 0 {
                frame[l4 + 15] ^= 1; // another window
            }
        }
        if !ipv6 {
            frame[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            frame[l3 + 6] = [0x40, 0][chance.below(2)];
        }
        if chance.below(4) == 0 {
            frame[l3 + if ipv6 { 7 } else { 8 }] = 63; // another hop limit
        }
        for at in (0..payload).step_by(97) {
            let end = frame.len();
            frame[end - 1 - at] = chance.below(256) as u8;
        }
        let sent = cut(&header, &frame);
        id = id.wrapping_add(sent.len() as u16 + chance.below(2) as u16);
        frames.extend(sent);
    }
    frames
}

/// What a network makes of the frames of several flows; and which of them it has damaged.
fn arrive(chance: &mut Chance, mut flows: Vec<Vec<Vec<u8>>>) -> Vec<(Vec<u8>, bool)> {
    let mut frames = Vec::new();
    while flows.iter().any(|flow| !flow.is_empty()) {
        let which = chance.below(flows.len());
        for _ in 0..(1 + chance.below(6)).min(flows[which].len()) {
            frames.push((flows[which].remove(0), false));
        }
    }
    for _ in 0..chance.below(4) {
        let at = chance.below(frames.len());
        match chance.below(5) {
            0 if frames.len() > 1 => drop(frames.remove(at)),
            1 => {
                let double = frames[at].clone();
                let to = chance.below(frames.len() + 1);
                frames.insert(to, double);
            }
            2 => {
                let late = frames.remove(at);
                let to = chance.below(frames.len() + 1);
                frames.insert(to, late);
            }
            3 if !frames[at].1 => {
                let parsed = parse(&frames[at].0);
                let (l3, l4, ipv4) = (parsed.l3, parsed.l4, parsed.ethertype == 0x0800);
                let end = if ipv4 {
                    l3 + usize::from(u16::from_be_bytes([frames[at].0[l3 + 2], frames[at].0[l3 + 3]]))
                } else {
                    l3 + 40 + usize::from(u16::from_be_bytes([frames[at].0[l3 + 4], frames[at].0[l3 + 5]]))
                };
                let from = l4 + if parsed.protocol == 6 { 20 } else { 8 };
                frames[at].0[from + chance.below(end - from)] ^= 1 << chance.below(8);
                frames[at].1 = true;
            }
            4 => {
                let kept = 60 + chance.below(frames[at].0.len() - 59);
                frames[at].1 |= kept < frames[at].0.len();
                frames[at].0.truncate(kept);
            }
            _ => (),
        }
    }
    frames
}

fn port_of(frame: &[u8]) -> u8 {
    let tags = if frame[12..14] == [0x81, 0] { 4 } else { 0 };
    let ip = if frame[12 + tags..14 + tags] == [8, 0] { 20 } else { 40 };
    frame[14 + tags + ip + 1]
}

/// A frame without its IPv4 id, where that means nothing: a whole datagram that stays so (RFC 6864).
fn without_id(frame: &[u8]) -> Vec<u8> {
    let (parsed, mut frame) = (parse(frame), frame.to_vec());
    let l3 = parsed.l3;
    if parsed.ethertype == 0x0800 && parsed.protocol == 17 && frame[l3 + 6] & 0x40 != 0 {
        frame[l3 + 4..l3 + 6].fill(0);
        frame[l3 + 10..l3 + 12].fill(0);
    }
    frame
}

/// Return a frame with the checksum that its header leaves to the next sender.
fn completed(header: &VnetHeader, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if header.flags & vnet::NEEDS_CSUM != 0 {
        let start = usize::from(header.csum_start);
        let value = !fold(sum(&frame[start..]));
        put(&mut frame, start + usize::from(header.csum_offset), value);
    }
    frame
}

#[test]
fn merging_is_undone_by_cutting_whatever_frames_come() {
    let cases = std::env::var("CASES").map_or(400, |text| text.parse().expect("a number"));
    let mut merged = 0;
    for seed in 1..=cases {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let flows = (0..1 + chance.below(4)).map(|port| flow(&mut chance, port as u8)).collect();
        let arrived = arrive(&mut chance, flows);
        let frames: Vec<Vec<u8>> = arrived.iter().map(|(frame, _)| frame.clone()).collect();
        let mut coalescer = Coalescer::default();
        coalescer.datagrams = true;
        for (packet, frame) in frames.iter().enumerate() {
            let span = Span { packet: packet as u32, at: 0, len: frame.len() as u32 };
            coalescer.push(&frames, span, Origin::Unknown, true);
        }
        let mut back: Vec<Vec<u8>> = Vec::new();
        let mut trusted: Vec<Vec<u8>> = Vec::new();
        coalescer.flush(&frames, |_, parts| {
            let bytes = parts.concat();
            let header = VnetHeader::parse(bytes[..vnet::SIZE].try_into().unwrap());
            let frame = &bytes[vnet::SIZE..];
            let several = if header.gso_type == vnet::GSO_NONE {
                vec![completed(&header, frame)]
            } else {
                cut(&header, frame)
            };
            merged += usize::from(several.len() > 1);
            if several.len() > 1 || header.flags & vnet::DATA_VALID != 0 {
                trusted.extend(several.iter().map(|frame| without_id(frame)));
            }
            back.extend(several);
        });
        for port in 0..4 {
            let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                all.iter().filter(|frame| port_of(frame) == port).map(|frame| without_id(frame)).collect()
            };
            let (back, sent) = (of(&back), of(&frames));
            let differs = back.iter().zip(&sent).position(|(back, sent)| back != sent);
            assert!(
                differs.is_none(),
                "seed {seed}, flow {port}: {:?}",
                differs.map(|at| (&back[at], &sent[at]))
            );
            assert_eq!(back.len(), sent.len(), "seed {seed}, flow {port}");
        }
        for (frame, damaged) in &arrived {
            assert!(
                !damaged || !trusted.contains(&without_id(frame)),
                "seed {seed}: a damaged frame is said to be good"
            );
        }
    }
    assert!(merged > cases as usize / 2, "{merged} of {cases} cases merge anything");
}
