//! Large sends are cut into frames as a NIC would cut them, and come together again without a trace.

use offload::checksum::{fold, put, sum};
use offload::gro::{Coalescer, Run, Span};
use offload::segment::{Malformed, Origin, Segments};
use offload::testing::LargeSend;
use offload::vnet::{self, VnetHeader};
use wire::frame::parse;

fn cut(header: &VnetHeader, frame: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut segments = Segments::new(frame, header, &parse(frame))?;
    let mut frames = Vec::new();
    while let Some(len) = segments.next_len() {
        let mut out = vec![0xa5; len.max(60)];
        segments.write_next(&mut out);
        frames.push(out);
    }
    Ok(frames)
}

fn merge(frames: &[Vec<u8>], origin: Origin) -> Vec<(usize, Vec<u8>)> {
    let mut coalescer = Coalescer::default();
    coalescer.datagrams = true;
    for (packet, frame) in frames.iter().enumerate() {
        let span = Span { packet: packet as u32, at: 0, len: frame.len() as u32 };
        coalescer.push(frames, span, origin, true);
    }
    let mut written = Vec::new();
    coalescer.flush(frames, |runs, parts| written.push((merged(runs), parts.concat())));
    written
}

fn merged(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.frames as usize).sum()
}

/// As `merge`, of sends whose frames of the same length stand in one buffer each, and are taken together.
fn merge_bursts(sends: &[Vec<Vec<u8>>], origin: Origin) -> Vec<(usize, Vec<u8>)> {
    let mut coalescer = Coalescer::default();
    coalescer.datagrams = true;
    let burst: Vec<Vec<u8>> = sends.iter().map(|frames| frames.concat()).collect();
    for (packet, frames) in sends.iter().enumerate() {
        let len = frames[0].len();
        let equal = frames.iter().take_while(|frame| frame.len() == len).count();
        let first = Span { packet: packet as u32, at: 0, len: len as u32 };
        coalescer.push_all(&burst, first, len as u32, equal as u32, origin, true);
        let mut at = equal * len;
        for frame in &frames[equal..] {
            let span = Span { packet: packet as u32, at: at as u32, len: frame.len() as u32 };
            coalescer.push(&burst, span, origin, true);
            at += frame.len();
        }
    }
    let mut written = Vec::new();
    coalescer.flush(&burst, |runs, parts| written.push((merged(runs), parts.concat())));
    written
}

#[test]
fn of_how_many_flows_of_tcp_bursts_are_is_counted() {
    let header = VnetHeader::default();
    let send = |port: u8| {
        let (_, mut frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 100, size: 1000 }.build();
        frame[35] = port;
        cut(&header, &frame).unwrap().remove(0)
    };
    let answer = |port: u8| {
        let (_, mut frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 0, size: 1000 }.build();
        frame[35] = port;
        frame
    };
    let mut coalescer = Coalescer::default();
    let mut bursts = |frames: &[Vec<u8>], merge| {
        for (packet, frame) in frames.iter().enumerate() {
            let span = Span { packet: packet as u32, at: 0, len: frame.len() as u32 };
            coalescer.push(frames, span, Origin::Unknown, merge);
        }
        coalescer.flush(frames, |_, _| ());
        (coalescer.mix().bursts, coalescer.mix().flows)
    };
    assert_eq!(bursts(&[send(1), send(1), send(2), send(1)], true), (1, 2));
    assert_eq!(bursts(&[send(1), send(1)], true), (2, 3));
    assert_eq!(bursts(&[answer(1), answer(2), answer(3), answer(3)], true), (3, 6));
    assert_eq!(bursts(&[send(1), send(2)], false), (4, 6));
    let (_, datagram) = LargeSend { ipv6: false, tcp: false, tags: 0, payload: 100, size: 1000 }.build();
    assert_eq!(bursts(&[datagram], true), (5, 6));
}

#[test]
fn frames_of_a_burst_are_merged_as_they_would_be_one_by_one() {
    all_kinds(|send| {
        for flags in [0x10, 0x19, 0x90] {
            for origin in [Origin::Cut, Origin::Summed, Origin::Unknown] {
                let sends: Vec<_> = [0, send.payload as u32, 17]
                    .map(|later| {
                        let (header, mut frame) = send.build();
                        let l4 = usize::from(header.csum_start);
                        if send.tcp {
                            let seq = 0xffff_ff00u32.wrapping_add(later);
                            frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
                            frame[l4 + 13] = flags;
                        }
                        cut(&header, &frame).unwrap()
                    })
                    .into();
                let one_by_one = merge(&sends.concat(), origin);
                assert!(merge_bursts(&sends, origin) == one_by_one, "{send:?} {flags:#x} {origin:?}");
            }
        }
    });
}

/// Return a frame with the checksum that its header leaves to the next sender.
fn completed(header: &VnetHeader, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let start = usize::from(header.csum_start);
    let value = !fold(sum(&frame[start..]));
    put(&mut frame, start + usize::from(header.csum_offset), value);
    frame
}

fn checksums_are_right(frame: &[u8]) -> bool {
    let parsed = parse(frame);
    let (l3, l4) = (parsed.l3, parsed.l4);
    let (addresses, end) = if parsed.ethertype == 0x0800 {
        if fold(sum(&frame[l3..l4])) != 0xffff {
            return false;
        }
        (&frame[l3 + 12..l3 + 20], l3 + usize::from(u16::from_be_bytes([frame[l3 + 2], frame[l3 + 3]])))
    } else {
        let len = usize::from(u16::from_be_bytes([frame[l3 + 4], frame[l3 + 5]]));
        (&frame[l3 + 8..l3 + 40], l3 + 40 + len)
    };
    let pseudo = sum(addresses)
        + u64::from(u16::from(parsed.protocol).to_be())
        + u64::from(((end - l4) as u16).to_be());
    fold(pseudo + sum(&frame[l4..end])) == 0xffff
}

fn all_kinds(check: impl Fn(LargeSend)) {
    for ipv6 in [false, true] {
        for tcp in [false, true] {
            for tags in 0..3 {
                for (payload, size) in
                    [(1, 1448), (1448, 1448), (1449, 1448), (40_000, 1447), (3000, 100), (64_000, 8948)]
                {
                    if tcp || payload / usize::from(size) < 64 {
                        check(LargeSend { ipv6, tcp, tags, payload, size });
                    }
                }
            }
        }
    }
}

#[test]
fn cutting_a_large_send_gives_frames_with_right_checksums() {
    all_kinds(|send| {
        let (header, frame) = send.build();
        let frames = cut(&header, &frame).unwrap();
        assert_eq!(frames.len(), send.payload.div_ceil(usize::from(send.size)));
        assert!(frames.iter().all(|frame| checksums_are_right(frame)));
    });
}

#[test]
fn only_the_last_segment_says_push_and_fin() {
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 4000, size: 1000 }.build();
    let flags: Vec<u8> = cut(&header, &frame).unwrap().iter().map(|frame| frame[47]).collect();
    assert_eq!(flags, [0x10, 0x10, 0x10, 0x19]);
}

#[test]
fn merging_gives_back_what_was_cut() {
    all_kinds(|send| {
        let (header, frame) = send.build();
        let frames = cut(&header, &frame).unwrap();
        for origin in [Origin::Summed, Origin::Unknown] {
            let written = merge(&frames, origin);
            assert_eq!(written.iter().map(|(count, _)| count).sum::<usize>(), frames.len());
            let padded = frames.iter().filter(|frame| frame.len() == 60).count();
            assert!(
                written.iter().filter(|(count, _)| *count == 1).count() >= padded,
                "padding would be lost"
            );
            if frames.len() - padded < 2 {
                continue;
            }
            // 64 KiB of small segments are more pieces than one frame takes
            let first = &written[0].1;
            let merged = &first[vnet::SIZE..];
            let back = VnetHeader::parse(first[..vnet::SIZE].try_into().unwrap());
            assert_eq!(back.gso_type, header.gso_type);
            assert_eq!(back.gso_size, header.gso_size);
            if written.len() == 1 {
                assert_eq!(merged.len(), frame.len());
                let l4 = usize::from(header.csum_start);
                assert_eq!(merged[l4 + 20..], frame[l4 + 20..]);
            }
            assert_eq!((back.flags, back.csum_start), (header.flags, header.csum_start));
            assert!(checksums_are_right(&completed(&back, merged)));
        }
    });
}

/// Two segments of a flow; `change` changes the second one, or the first with `at` 0.
fn merges_with(at: usize, change: impl Fn(&mut Vec<u8>)) -> bool {
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 1, payload: 2000, size: 1000 }.build();
    let mut frames = cut(&header, &frame).unwrap();
    frames[1][51] = 0x10;
    change(&mut frames[at]);
    merge(&frames, Origin::Summed).len() == 1
}

#[test]
fn segments_are_merged_where_the_kernel_merges_them() {
    let (tag, ip, tcp) = (14, 18, 38);
    let xor = |at: usize, bits: u8| merges_with(1, move |frame| frame[at] ^= bits);
    assert!(xor(0, 0));
    assert!(xor(tcp + 13, 0x08), "PSH ends a merged frame");
    assert!(xor(tcp + 13, 0x01), "so does FIN");
    for (flag, name) in
        [(0x02, "SYN"), (0x04, "RST"), (0x20, "URG"), (0x40, "ECE"), (0x80, "CWR"), (0x10, "no ACK")]
    {
        assert!(!xor(tcp + 13, flag), "{name}");
    }
    let first = |at: usize, bits: u8| merges_with(0, move |frame| frame[at] ^= bits);
    assert!(!first(tcp + 13, 0x08) && !first(tcp + 13, 0x01) && !first(tcp + 13, 0x80));
    let others = [
        (0, "destination MAC"),
        (11, "source MAC"),
        (tag, "priority of the tag"),
        (tag + 1, "VLAN"),
        (ip + 1, "TOS"),
        (ip + 5, "id"),
        (ip + 6, "reserved bit, DF, MF"),
        (ip + 8, "TTL"),
        (ip + 15, "source address"),
        (ip + 19, "destination address"),
        (tcp + 1, "source port"),
        (tcp + 3, "destination port"),
        (tcp + 7, "sequence number"),
        (tcp + 11, "acknowledgment"),
        (tcp + 12, "header length, reserved bits"),
        (tcp + 15, "window"),
        (tcp + 19, "urgent pointer"),
        (tcp + 31, "options"),
    ];
    for (at, name) in others {
        for bit in 0..8 {
            assert!(!xor(at, 1 << bit), "{name}, bit {bit}");
        }
    }
    assert!(!merges_with(1, |frame| frame.push(0)), "bytes behind the packet");
    assert!(!merges_with(0, |frame| frame.push(0)), "bytes behind the packet");
    let shorter = |frame: &mut Vec<u8>| {
        frame.truncate(frame.len() - 1);
        let len = (frame.len() - 18) as u16;
        frame[20..22].copy_from_slice(&len.to_be_bytes());
    };
    assert!(merges_with(1, shorter));
    assert!(!merges_with(0, shorter), "none is longer than the first");
}

#[test]
fn wrong_checksum_is_never_merged_away() {
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 3000, size: 1000 }.build();
    let mut frames = cut(&header, &frame).unwrap();
    frames[1][200] ^= 1;
    let written = merge(&frames, Origin::Unknown);
    assert_eq!(written.len(), 3);
    assert!(!checksums_are_right(&written[1].1[vnet::SIZE..]));
}

#[test]
fn frames_that_do_not_follow_each_other_stay_apart() {
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 3000, size: 1000 }.build();
    let frames = cut(&header, &frame).unwrap();
    for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        let shuffled: Vec<_> = order.iter().map(|&i| frames[i].clone()).collect();
        let written = merge(&shuffled, Origin::Summed);
        let contents: Vec<u8> = written.iter().map(|(_, bytes)| bytes[vnet::SIZE + 41]).collect();
        assert_eq!(written.len(), contents.len());
        assert!(written.len() >= 2);
    }
}

/// One datagram of `payload` bytes, sent on its own; `index` is its place in the flow.
fn datagram(ipv6: bool, payload: usize, index: u8) -> Vec<u8> {
    let (header, mut frame) = LargeSend { ipv6, tcp: false, tags: 0, payload, size: 0 }.build();
    *frame.last_mut().unwrap() = index;
    let header = VnetHeader { gso_type: vnet::GSO_NONE, ..header };
    let mut frames = cut(&header, &frame).unwrap();
    if !ipv6 {
        put_ip_sum(&mut frames[0]);
    }
    frames.remove(0)
}

fn put_ip_sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let value = !fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&value.to_ne_bytes());
}

/// Frames in each write.
fn counts(frames: &[Vec<u8>]) -> Vec<usize> {
    merge(frames, Origin::Unknown).iter().map(|(count, _)| *count).collect()
}

#[test]
fn datagrams_sent_one_by_one_are_merged_and_can_be_cut_again() {
    for ipv6 in [false, true] {
        for payload in [19, 64, 65, 1472] {
            let mut frames: Vec<_> = (0..9).map(|index| datagram(ipv6, payload, index)).collect();
            frames.push(datagram(ipv6, payload - 1, 9));
            let written = merge(&frames, Origin::Unknown);
            assert_eq!(written.len(), 1);
            let (header, merged) = written[0].1.split_at(vnet::SIZE);
            let header = VnetHeader::parse(header.try_into().unwrap());
            assert_eq!((header.gso_type, header.flags), (vnet::GSO_UDP_L4, vnet::NEEDS_CSUM));
            let mut again = cut(&header, merged).unwrap();
            if !ipv6 {
                // ids of datagrams that must not be fragmented mean nothing
                for frame in again.iter_mut().chain(&mut frames) {
                    frame[18..20].fill(0);
                    put_ip_sum(frame);
                }
            }
            assert_eq!(again, frames);
        }
    }
}

#[test]
fn datagrams_are_merged_up_to_the_first_that_is_shorter() {
    let frames: Vec<_> = [64, 64, 40, 64, 80, 80].iter().map(|&len| datagram(false, len, 0)).collect();
    assert_eq!(counts(&frames), [3, 1, 2]);
    assert_eq!(counts(&vec![datagram(true, 64, 0); 130]), [64, 64, 2]);
}

#[test]
fn datagrams_without_checksum_or_with_a_wrong_one_stay_alone() {
    let mut frames: Vec<_> = (0..5).map(|index| datagram(false, 64, index)).collect();
    frames[2][40..42].fill(0);
    assert_eq!(counts(&frames), [2, 1, 2]);
    frames[2] = datagram(false, 64, 2);
    frames[2][60] ^= 1;
    assert_eq!(counts(&frames), [2, 1, 2]);
}

#[test]
fn fragments_are_never_merged_nor_overtaken() {
    let mut frames: Vec<_> = (0..4).map(|index| datagram(false, 64, index)).collect();
    frames[1][20] = 0x20;
    put_ip_sum(&mut frames[1]);
    assert_eq!(counts(&frames), [1, 1, 2]);
}

#[test]
fn packets_with_extension_headers_are_never_merged_nor_overtaken() {
    for header in [0, 43, 44, 60] {
        let mut frames: Vec<_> = (0..4).map(|index| datagram(true, 64, index)).collect();
        frames[1][20] = header;
        assert_eq!(counts(&frames), [1, 1, 2], "next header {header}");
    }
}

#[test]
fn large_send_behind_extension_headers_is_cut() {
    for kind in [0, 60] {
        let send = LargeSend { ipv6: true, tcp: true, tags: 0, payload: 3000, size: 1000 };
        let (mut header, plain) = send.build();
        let mut frame = plain.clone();
        frame[20] = kind;
        frame[18..20].copy_from_slice(&(3032u16 + 8).to_be_bytes());
        frame.splice(54..54, [6, 0, 1, 4, 0, 0, 0, 0]);
        header.csum_start += 8;
        let expected = cut(&send.build().0, &plain).unwrap();
        for (segment, plain) in cut(&header, &frame).unwrap().iter().zip(&expected) {
            assert_eq!(segment[20], kind);
            assert_eq!(segment[18..20], (1032u16 + 8).to_be_bytes());
            assert_eq!(segment[62..], plain[54..]);
        }
    }
}

#[test]
fn ids_of_datagrams_that_may_be_fragmented_have_to_follow_each_other() {
    let mut frames: Vec<_> = (0..4).map(|index| datagram(false, 64, index)).collect();
    for (frame, id) in frames.iter_mut().zip([7, 8, 10, 11]) {
        frame[18..20].copy_from_slice(&[0, id]);
        frame[20] = 0;
        put_ip_sum(frame);
    }
    assert_eq!(counts(&frames), [2, 2]);
}

#[test]
fn datagrams_stay_alone_where_the_device_takes_no_merged_ones() {
    let burst = [datagram(false, 64, 0), datagram(false, 64, 1)];
    let mut coalescer = Coalescer::default();
    for (packet, datagram) in burst.iter().enumerate() {
        let span = Span { packet: packet as u32, at: 0, len: datagram.len() as u32 };
        coalescer.push(&burst, span, Origin::Summed, true);
    }
    let mut writes = 0;
    coalescer.flush(&burst, |_, _| writes += 1);
    assert_eq!(writes, 2);
}

#[test]
fn headers_that_lie_are_malformed() {
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 3000, size: 1000 }.build();
    let wrong = [
        VnetHeader { gso_size: 0, ..header },
        VnetHeader { csum_start: 60_000, ..header },
        VnetHeader { csum_start: 10, ..header },
        VnetHeader { gso_type: vnet::GSO_TCPV6, ..header },
        VnetHeader { gso_type: vnet::GSO_UDP_L4, ..header },
        VnetHeader { gso_type: 3, ..header },
        VnetHeader { flags: 0, ..header },
        VnetHeader { gso_type: 0, csum_start: 13, ..header },
        VnetHeader { gso_type: 0, csum_offset: 60_000, ..header },
    ];
    for header in wrong {
        assert_eq!(cut(&header, &frame).err(), Some(Malformed), "{header:?}");
    }
    for len in 14..frame.len().min(120) {
        let _ = cut(&header, &frame[..len]);
    }
}

#[test]
fn any_bytes_pass_without_a_panic() {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 1, payload: 500, size: 100 }.build();
    for _ in 0..20_000 {
        let mut bytes = frame.clone();
        for _ in 0..draw() % 6 {
            let at = draw() as usize % 90;
            bytes[at] = draw() as u8;
        }
        bytes.truncate(14 + draw() as usize % (frame.len() - 13));
        let mut raw = header.build();
        for _ in 0..draw() % 4 {
            raw[draw() as usize % vnet::SIZE] = draw() as u8;
        }
        if let Ok(frames) = cut(&VnetHeader::parse(&raw), &bytes) {
            merge(&frames, Origin::Unknown);
        }
    }
}
