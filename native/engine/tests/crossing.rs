//! Packets go from one engine to another in frames, together where they can be: what arrives and what is counted is the
//! same as for packets that go one by one. Anything else that a member sends is refused.

use engine::api::{Counted, Engine};
use engine::burst::Burst;
use engine::config::{End, PortState, SwitchPortConfig};
use engine::counters::Drop;
use engine::crossing::{Frame, HEAD, Head, Kind, MOST_BODY, MOST_PACKET, MOST_PACKETS, Malformed, head_of};
use engine::link::config::{FlowControl, LinkConfig};
use engine::link::rule::FaultKind;
use engine::outputs::Output;
use engine::random::Stream;
use engine::share::Share;
use engine::testing::line::{FAST, one_lane};
use engine::testing::star::{self, address};
use engine::testing::{ALWAYS, Kept, TwoHosts, dropped};
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;
use wire::check;

/// Two hosts on a switch of which port 3 goes on at another engine; LID 1 is here and LID 2 there, or the other way round.
fn half(port_of: [u16; 2]) -> TwoHosts {
    half_over(Engine::default(), port_of, &FAST, None)
}

/// The same on an empty engine, over a link that is set up like this.
fn half_over(engine: Engine, port_of: [u16; 2], config: &LinkConfig, flow: Option<&FlowControl>) -> TwoHosts {
    let mut bed = TwoHosts::on(engine, true);
    bed.engine.add_switch(); // that of the other engine: packets may visit as many as there are
    bed.engine.set_switch_port(0, 0, 3, SwitchPortConfig::plain(PortState::Active));
    let streams = [5, 6].map(|seed| (Stream::new(seed), Stream::new(!seed)));
    let first = bed.engine.add_link([End::Switch(0, 3), End::Boundary], [(config, flow); 2], streams);
    assert_eq!(first, LEAVES);
    bed.route(&[0, port_of[0], port_of[1]]);
    bed
}

const LEAVES: u32 = 4;
const ARRIVES: u32 = 5;

fn frame(stream: &mut Stream) -> (VnetHeader, Vec<u8>) {
    let size = [1448, 536, 100][(stream.word() % 3) as usize];
    let mut payload = 1 + (stream.word() % 60_000) as usize;
    if stream.word().is_multiple_of(2) {
        payload = payload.next_multiple_of(usize::from(size)); // nothing shorter tells one send from the next
    }
    let send = LargeSend { ipv6: false, tcp: !stream.word().is_multiple_of(4), tags: 0, payload, size };
    let (header, mut frame) = if payload > usize::from(size) {
        send.build()
    } else {
        (VnetHeader::default(), vec![0x06; 60 + payload % 1400])
    };
    frame[..6].copy_from_slice(&[0x06, 0x2c, 0, 2, 0, 0]);
    (header, frame)
}

/// Frames that leave in one message, of which some are like those of another send in all that a switch looks at.
fn frames(stream: &mut Stream) -> Vec<(VnetHeader, Vec<u8>)> {
    let first = frame(stream);
    let mut all = vec![first.clone()];
    for _ in 0..stream.word() % 4 {
        let (header, mut other) = if stream.word().is_multiple_of(4) { frame(stream) } else { first.clone() };
        let l4 = usize::from(header.csum_start);
        match stream.word() % 3 {
            _ if l4 == 0 => {}
            0 => other[l4 + 1] ^= 4,    // another port
            1 => other[l4 + 6] ^= 0x10, // a gap in its sequence; of a datagram, another checksum
            _ => other[l4 + 9] ^= 1,    // another acknowledgement; of a datagram, another payload
        }
        all.push((header, other));
    }
    all
}

/// Take what has left an engine.
fn left(engine: &mut Engine) -> Vec<Burst> {
    let taken = std::iter::from_fn(|| engine.poll_output()).map(|output| match output {
        Output::Departed { direction: LEAVES, burst, token: None, .. } => burst,
        output => panic!("{output:?}"),
    });
    taken.collect()
}

/// Return the frames of bursts: those that follow each other and are alike are one frame.
fn packed(bursts: &[Burst]) -> Vec<u8> {
    let mut heads: Vec<(Head, Vec<u8>)> = Vec::new();
    for burst in bursts {
        let (head, packets) = (head_of(0, burst), burst.packets().flatten().copied().collect::<Vec<_>>());
        match heads.last_mut() {
            Some((last, body))
                if (Head { count: last.count, ..head }) == *last
                    && body.len() + packets.len() <= MOST_BODY =>
            {
                last.count += head.count;
                body.extend(packets);
            }
            _ => heads.push((head, packets)),
        }
    }
    heads.into_iter().flat_map(|(head, body)| [head.build().to_vec(), body].concat()).collect()
}

/// Return the frames in some bytes, which are whole.
fn unpacked(mut bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while let Some(frame) = Frame::first(bytes).expect("as it was packed") {
        bytes = &bytes[frame.len()..];
        frames.push(frame);
    }
    assert!(bytes.is_empty());
    frames
}

fn bytes(bursts: &[Burst]) -> Vec<Vec<u8>> {
    bursts.iter().flat_map(|burst| burst.packets().map(<[u8]>::to_vec)).collect()
}

/// Let what another engine has sent enter, as the bursts it came in or one by one.
fn cross(engine: &mut Engine, now: u64, frames: &[Frame<'_>], together: bool) {
    for frame in frames {
        if together {
            engine.cross_all(now, ARRIVES, frame);
            continue;
        }
        for record in frame.records() {
            let packet = record.packet(engine.packets());
            engine.cross(now, ARRIVES, packet, record.hops());
        }
    }
}

/// Send frames, from seeds, over two engines; return what was written and counted there, and how many went together.
fn carried(seed: u64, together: bool) -> (Vec<Vec<u8>>, Vec<Counted>, usize) {
    let mut stream = Stream::new(seed);
    let (mut near, mut far, mut host) = (half([1, 3]), half([3, 2]), Kept::default());
    near.engine.let_bursts_depart(together);
    near.vnics.icrc = seed.is_multiple_of(2);
    let mut longest = 0;
    for _ in 0..4 {
        for (header, frame) in frames(&mut stream) {
            near.send(0, &header, &frame);
        }
        near.now += 1_000_000;
        near.engine.handle_timeout(near.now);
        let bursts = left(&mut near.engine);
        longest = bursts.iter().map(|burst| burst.count() as usize).max().unwrap_or(0).max(longest);
        assert!(bytes(&bursts).iter().all(|packet| check(packet, true).is_ok()), "all have their ICRC");
        let packed = packed(&bursts);
        let frames = unpacked(&packed);
        let records = frames.iter().flat_map(Frame::records);
        assert_eq!(records.map(|one| one.bytes.to_vec()).collect::<Vec<_>>(), bytes(&bursts));
        cross(&mut far.engine, far.now, &frames, together);
        far.settle(&mut host);
    }
    let mut counted = near.counted();
    counted.extend(far.counted());
    counted.sort_by_key(|element| format!("{element:?}"));
    (host.frames.into_iter().map(|(_, frame)| frame).collect(), counted, longest)
}

#[test]
fn packets_that_cross_together_arrive_and_count_as_one_by_one() {
    let mut longest = 0;
    for seed in 0..40 {
        let (singles, counted, none) = carried(seed, false);
        let (bursts, counted_together, count) = carried(seed, true);
        assert_eq!(none, 1);
        assert!(!singles.is_empty(), "{counted:#?}");
        assert_eq!(singles, bursts, "seed {seed}");
        assert_eq!(format!("{counted:?}"), format!("{counted_together:?}"), "seed {seed}");
        longest = longest.max(count);
    }
    assert!(longest > 30, "large sends stay together: {longest}");
}

/// A large send of whole segments that begins with a sequence number.
fn send_from(seq: u32, segments: usize) -> (VnetHeader, Vec<u8>) {
    let send = LargeSend { ipv6: false, tcp: true, tags: 0, payload: segments * 1448, size: 1448 };
    let (header, mut frame) = send.build();
    let l4 = usize::from(header.csum_start);
    frame[..6].copy_from_slice(&[0x06, 0x2c, 0, 2, 0, 0]);
    frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
    frame[l4 + 13] = 0x10; // no PSH: more may follow
    (header, frame)
}

/// Return what one engine gives another of large sends, each by its first sequence number and its segments.
fn departed(sends: &[(u32, usize)]) -> Vec<Burst> {
    let mut near = half([1, 3]);
    near.engine.let_bursts_depart(true);
    for &(seq, segments) in sends {
        let (header, frame) = send_from(seq, segments);
        near.send(0, &header, &frame);
    }
    near.now += 1_000_000;
    near.engine.handle_timeout(near.now);
    left(&mut near.engine)
}

#[test]
fn sends_in_one_frame_are_merged_only_where_one_continues_the_other() {
    // what was sent later, what had been lost, and what continues it
    let packed = packed(&departed(&[(900_000, 4), (1_000, 4), (1_000 + 4 * 1448, 3)]));
    let frames = unpacked(&packed);
    assert_eq!(frames.iter().map(|frame| frame.head.count).collect::<Vec<_>>(), [11]);
    let mut written = Vec::new();
    for together in [false, true] {
        let (mut far, mut host) = (half([3, 2]), Kept::default());
        cross(&mut far.engine, far.now, &frames, together);
        far.settle(&mut host);
        written.push(host.frames);
    }
    let lengths =
        |frames: &[(usize, Vec<u8>)]| frames.iter().map(|(_, frame)| frame.len()).collect::<Vec<_>>();
    assert_eq!(lengths(&written[1]), lengths(&written[0]));
    assert!(written[0] == written[1]);
}

#[test]
fn packets_that_cross_go_one_by_one_where_each_finds_its_own_way_or_is_looked_at() {
    let packed = packed(&departed(&[(0, 10)]));
    let frames = unpacked(&packed);
    let received = |far: &TwoHosts| far.vnics.vports[1].counters.rx.packets;

    let mut far = half([3, 2]);
    far.disturb(ARRIVES, &[(FaultKind::Loss, ALWAYS)]);
    cross(&mut far.engine, far.now, &frames, true);
    assert_eq!((far.settle(&mut Kept::default()), received(&far)), (0, 10), "faults act where a link begins");
    let passed = far.counted().into_iter().find_map(|counted| match counted {
        Counted::Direction { direction: ARRIVES, counted, .. } => {
            Some((counted.element.in_packets, counted.element.out_packets))
        }
        _ => None,
    });
    assert_eq!(passed, Some((10, 10)));
    far.engine.observe(far.now, ARRIVES, true);
    cross(&mut far.engine, far.now, &frames, true);
    assert_eq!((far.settle(&mut Kept::default()), received(&far)), (10, 20), "each is shown");
    far.engine.set_link(far.now, ARRIVES, &LinkConfig { up: false, ..FAST });
    cross(&mut far.engine, far.now, &frames, true);
    far.settle(&mut Kept::default());
    assert_eq!((dropped(&far.counted(), Drop::LinkDown), received(&far)), (10, 20));

    let mut far = half_over(Engine::default(), [3, 2], &FAST, Some(&one_lane()));
    cross(&mut far.engine, far.now, &frames, true);
    far.settle(&mut Kept::default());
    assert_eq!(received(&far), 10, "each has room of its own");

    // worker 0 carries the link
    let mut far = half_over(Engine::with_share(Share::new(1, 2)), [3, 2], &FAST, None);
    cross(&mut far.engine, far.now, &frames, true);
    let handed: Vec<_> = far.engine.outbox(0).take();
    let counts: Vec<_> =
        handed.iter().map(|handover| (handover.burst.count(), handover.later.len())).collect();
    assert_eq!(counts, [(1, 0); 10]);
}

#[test]
fn packets_that_cross_together_find_no_more_room_than_one_by_one() {
    let packed = packed(&departed(&[(0, 10)]));
    for together in [false, true] {
        let mut far = half([3, 2]);
        let to_host = 3;
        far.engine.set_link(0, to_host, &LinkConfig { queue_bytes: 5000, ..FAST });
        cross(&mut far.engine, 0, &unpacked(&packed), together);
        // of packets of some 1500 bytes one is sent, and two wait
        assert_eq!(dropped(&far.engine.take_counted(), Drop::LinkOverflow), 7, "together: {together}");
    }

    // each packet that leaves over a link with credits has room of its own at the other engine
    let mut near = half_over(Engine::default(), [1, 3], &FAST, Some(&one_lane()));
    near.engine.let_bursts_depart(true);
    let (header, frame) = send_from(0, 10);
    near.send(0, &header, &frame);
    near.engine.handle_timeout(1_000_000);
    let crossing: Vec<_> = std::iter::from_fn(|| near.engine.poll_output())
        .map(|output| match output {
            Output::Departed { burst, token, .. } => (burst.count(), token.is_some()),
            output => panic!("{output:?}"),
        })
        .collect();
    assert_eq!(crossing, [(1, true); 10]);
}

#[test]
fn damaged_packet_among_others_that_crossed_is_the_only_one_refused() {
    let bursts = departed(&[(0, 10)]);
    assert!(bursts.iter().all(|burst| burst.hops() == 1));
    let whole = packed(&bursts);
    for (is_damaged, outputs) in [(false, 1), (true, 9)] {
        let mut packed = whole.clone();
        let at = packed.len() / 2;
        packed[at] ^= u8::from(is_damaged);
        let mut far = half([3, 2]);
        cross(&mut far.engine, far.now, &unpacked(&packed), true);
        far.engine.handle_timeout(1_000_000);
        let all = std::iter::from_fn(|| far.engine.poll_output()).collect::<Vec<_>>();
        assert_eq!(all.len(), outputs);
        assert_eq!(dropped(&far.engine.take_counted(), Drop::RxIcrc), u64::from(is_damaged));
    }
}

#[test]
fn packet_that_crosses_has_passed_wire_and_faults_and_finds_the_state_and_the_room_of_the_link() {
    let slow = LinkConfig { rate_bps: 8, latency_ns: 1 << 40, jitter_ns: 1 << 40, ..FAST };
    let address = address(1, 0);
    let len = 88;
    let flow = FlowControl { buffer_bytes: len, ..one_lane() };
    for (config, taken, lost) in [
        (slow, 3, 0),
        (LinkConfig { queue_bytes: len, ..slow }, 2, 1),
        (LinkConfig { up: false, ..slow }, 0, 3),
    ] {
        let mut bed = half_over(Engine::default(), [1, 3], &config, Some(&flow));
        bed.disturb(ARRIVES, &[(FaultKind::Loss, ALWAYS)]);
        for number in 0..3 {
            let packet = star::packet(bed.engine.packets(), address, 60, number);
            assert_eq!(packet.len() as u64, len);
            bed.engine.cross(0, ARRIVES, packet, 0);
        }
        bed.engine.handle_timeout(1_000_000);
        let times: Vec<_> = std::iter::from_fn(|| bed.engine.poll_output())
            .filter_map(|output| match output {
                Output::Delivered { time, .. } => Some(time),
                _ => None,
            })
            .collect();
        // each enters when the one before has left its room, and takes 7.04 ns and 300 ns to the host
        assert_eq!(times, [309, 316, 323][..taken]);
        let counted = bed.engine.take_counted();
        let reason = if config.up { Drop::LinkOverflow } else { Drop::LinkDown };
        assert_eq!(dropped(&counted, reason), lost);
    }
}

#[test]
fn head_whose_sizes_are_not_those_of_its_kind_is_malformed() {
    let frame = |kind: u8, count: usize, size: usize| {
        let head = Head { count: count as u16, size: size as u16, ..Head::alone(Kind::Packets, 7, 3) };
        let mut bytes = head.build().to_vec();
        bytes[0] = kind;
        bytes.resize(HEAD + count * size, 7);
        bytes
    };
    for (kind, count, size) in
        [(1, 2, 3), (1, 1, MOST_PACKET), (1, MOST_PACKETS, 1), (2, 1, 8), (3, 0, 0), (4, 0, 0)]
    {
        let bytes = frame(kind, count, size);
        let found = Frame::first(&bytes).unwrap().unwrap();
        assert_eq!((found.head.kind as u8, found.head.link, found.head.sc), (kind, 7, 3));
        assert_eq!((found.len(), found.body.len()), (bytes.len(), count * size));
        for len in 0..bytes.len().min(40) {
            assert_eq!(Frame::first(&bytes[..len]), Ok(None));
        }
    }
    let too_long = MOST_BODY / 9000 + 1;
    for (kind, count, size) in [
        (0, 1, 1),
        (5, 1, 1),
        (1, 0, 9),
        (1, 9, 0),
        (1, 1, MOST_PACKET + 1),
        (1, MOST_PACKETS + 1, 1),
        (1, too_long, 9000),
        (2, 1, 7),
        (2, 2, 8),
        (3, 1, 1),
        (4, 1, 0),
    ] {
        assert_eq!(Frame::first(&frame(kind, count, size)), Err(Malformed), "{kind} {count} {size}");
    }
}

#[test]
fn damaged_frames_are_refused_or_counted_packet_by_packet() {
    let mut stream = Stream::new(7);
    let mut near = half([1, 3]);
    near.engine.let_bursts_depart(true);
    let (header, frame) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 9000, size: 1448 }.build();
    let mut to_there = frame;
    to_there[..6].copy_from_slice(&[0x06, 0x2c, 0, 2, 0, 0]);
    near.send(0, &header, &to_there);
    near.now += 1_000_000;
    near.engine.handle_timeout(near.now);
    let good = packed(&left(&mut near.engine));
    for _ in 0..400 {
        let (mut bad, mut far, mut host) = (good.clone(), half([3, 2]), Kept::default());
        for _ in 0..=stream.word() % 4 {
            // heads are hit more often than what is in the frames
            let at = stream.word() as usize % bad.len();
            let at = if stream.word().is_multiple_of(2) { at % 80 } else { at };
            bad[at] = stream.word() as u8;
        }
        bad.truncate(bad.len() - (stream.word() % 20) as usize / 19);
        let mut rest = &bad[..];
        while let Ok(Some(frame)) = Frame::first(rest) {
            rest = &rest[frame.len()..];
            if frame.head.kind == Kind::Packets {
                far.engine.cross_all(far.now, ARRIVES, &frame);
                far.settle(&mut host);
                far.counted();
            }
        }
    }
}
