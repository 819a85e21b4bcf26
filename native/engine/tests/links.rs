//! What a link does with packets that find little room: which wait, for how long, which are dropped and which are marked.

use std::sync::Arc;

use engine::api::{Counted, Engine};
use engine::burst::Burst;
use engine::config::{End, PortState, SwitchPortConfig};
use engine::counters::{Drop, Element};
use engine::link::config::{Buffers, Egress, FlowControl, LinkConfig, MAX_VLS};
use engine::link::credits::LanesStatus;
use engine::link::rule::{FaultKind, FaultRule, Match, Tally};
use engine::link::wire_counters::WireCounters;
use engine::outputs::Output;
use engine::packet::{Packet, fecn, sc};
use engine::port::Address;
use engine::random::Stream;
use engine::switch::{LinearTable, MulticastTable};
use engine::testing::line::{FAST, Line, RECEIVER, one_lane};
use engine::testing::star::{GROUP, address, packet, star};
use engine::testing::{ALWAYS, port_config};

/// A byte per nanosecond.
const STEADY: LinkConfig = LinkConfig { rate_bps: 8_000_000_000, latency_ns: LATENCY, ..FAST };
const LATENCY: u64 = 1000;
/// More than a packet takes on its way.
const STEP: u64 = 100_000;

/// The length of a packet with a frame of 8000 bytes.
fn len() -> u64 {
    Line::new(0).packet(8000).len() as u64
}

/// A packet with a frame of 8000 bytes on a service channel.
fn packet_on(line: &mut Line, sc: u32) -> Packet {
    let packet = line.packet(8000);
    line.engine.packets().with_sc(packet, sc)
}

/// Two lanes, of which each service channel takes one in turn.
fn two_lanes() -> FlowControl {
    FlowControl { weights: vec![1, 1], sc_to_vl: std::array::from_fn(|sc| sc as u8 % 2), ..one_lane() }
}

/// Return what the receiver's host is given, and the tokens of the room that it occupies.
fn given(line: &mut Line) -> (Vec<Packet>, Vec<u64>) {
    let given = std::iter::from_fn(|| line.engine.poll_output()).filter_map(|output| match output {
        Output::Delivered { burst: Burst { packet, .. }, token, port: RECEIVER, .. } => Some((packet, token)),
        _ => None,
    });
    let (packets, tokens): (_, Vec<_>) = given.unzip();
    (packets, tokens.into_iter().flatten().collect())
}

/// Let the receiver's host take all that comes from `now` on.
fn taken(line: &mut Line, mut now: u64) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        now += STEP;
        line.engine.handle_timeout(now);
        let (packets, tokens) = given(line);
        if packets.is_empty() {
            return all;
        }
        all.extend(packets);
        for token in tokens {
            assert!(line.engine.release(now, token));
        }
    }
}

fn drops(line: &mut Line, direction: u32, reason: Drop) -> u64 {
    let of = |counted: Counted| match counted {
        Counted::Direction { direction: here, counted, .. } if here == direction => {
            counted.element.drops[reason as usize]
        }
        _ => 0,
    };
    line.engine.take_counted().into_iter().map(of).sum()
}

fn lanes(line: &Line, direction: u32) -> LanesStatus {
    line.engine.lanes(direction).expect("it has credits")
}

#[test]
fn idle_wire_takes_any_packet_and_the_queue_of_a_busy_one_what_fits_exactly() {
    for (queue_bytes, dropped) in [(0, 2), (2 * len() - 1, 2), (2 * len(), 1), (3 * len(), 0)] {
        let mut line = Line::with(0, &STEADY, None);
        line.engine.set_link(0, 0, &LinkConfig { queue_bytes, ..STEADY });
        for _ in 0..3 {
            assert_eq!(line.send(0, line.packet(8000)), None);
        }
        assert_eq!(drops(&mut line, 0, Drop::LinkOverflow), dropped, "with {queue_bytes} bytes");
        line.send(3 * len(), line.packet(8000));
        assert_eq!(drops(&mut line, 0, Drop::LinkOverflow), 0, "it is idle again");
    }
}

#[test]
fn packets_without_credits_wait_up_to_the_limit_of_the_queue_and_no_further() {
    for (queue_bytes, dropped) in [(2 * len(), 1), (2 * len() - 1, 2)] {
        let flow = FlowControl { buffer_bytes: len(), ..one_lane() };
        let mut line = Line::with(0, &LinkConfig { queue_bytes, ..STEADY }, Some(&flow));
        for _ in 0..4 {
            assert_eq!(line.send(0, line.packet(8000)), None);
        }
        assert_eq!(drops(&mut line, 0, Drop::LinkOverflow), dropped, "with {queue_bytes} bytes");
    }
}

#[test]
fn packets_that_keep_their_room_before_a_switch_wait_without_a_limit() {
    let flow = FlowControl { buffer_bytes: len(), ..one_lane() };
    let mut line = Line::with(1, &STEADY, Some(&flow));
    let last = line.way[1];
    line.engine.set_link(0, last, &LinkConfig { queue_bytes: 0, ..STEADY });
    for _ in 0..2 {
        line.send(0, line.packet(8000));
    }
    line.engine.handle_timeout(STEP);
    assert_eq!(lanes(&line, last).waiting, [len()]);
    assert_eq!(drops(&mut line, last, Drop::LinkOverflow), 0);
}

#[test]
fn buffer_takes_what_fits_exactly_and_when_empty_one_packet_of_any_size() {
    for (buffer_bytes, fit) in [(2 * len(), 2), (2 * len() - 1, 1), (len() - 1, 1)] {
        let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes, ..one_lane() }));
        for _ in 0..3 {
            assert_eq!(line.send(0, line.packet(8000)), None);
        }
        line.engine.handle_timeout(STEP);
        assert_eq!(given(&mut line).1.len(), fit, "in {buffer_bytes} bytes");
    }
}

#[test]
fn packet_that_would_fit_does_not_overtake_one_of_its_lane_that_waits() {
    let flow = FlowControl { buffer_bytes: len() + 100, ..one_lane() };
    let mut line = Line::with(0, &STEADY, Some(&flow));
    for frame in [8000, 8000, 60] {
        line.send(0, line.packet(frame));
    }
    assert_eq!((lanes(&line, 0).waiting, lanes(&line, 0).blocked), (vec![len() + 88], vec![true]));
    line.engine.set_flow(0, 0, &FlowControl { fecn_bytes: 1, ..flow });
    assert_eq!(lanes(&line, 0).waiting, [len() + 88], "nor when the lanes look for what can go on");
    let lengths: Vec<u64> = taken(&mut line, 0).iter().map(|packet| packet.len() as u64).collect();
    assert_eq!(lengths, [len(), len(), 88]);
}

#[test]
fn lane_takes_its_own_room_first_then_of_what_all_share_and_no_more() {
    let len = len();
    let flow = FlowControl { buffer_bytes: len, shared_bytes: len, ..two_lanes() };
    let mut line = Line::with(0, &STEADY, Some(&flow));
    let mut now = 0;
    for (sc, credits, waiting) in [
        (0, [len, 2 * len], [0, 0]),
        (0, [0, len], [0, 0]),
        (0, [0, len], [len, 0]),
        (1, [0, 0], [len, 0]),
        (1, [0, 0], [len, len]),
    ] {
        let packet = packet_on(&mut line, sc);
        line.send(now, packet);
        now += STEP;
        line.engine.handle_timeout(now);
        let LanesStatus { credits: found, waiting: waits, blocked, .. } = lanes(&line, 0);
        assert_eq!((&found[..], &waits[..]), (&credits[..], &waiting[..]));
        assert_eq!(blocked, waiting.map(|bytes| bytes > 0));
    }
    let (_, tokens) = given(&mut line);
    line.engine.release(now, tokens[0]);
    let LanesStatus { waiting, occupied, .. } = lanes(&line, 0);
    assert_eq!((waiting, occupied), (vec![0, len], vec![2 * len, len]), "there is room for one of both");
    assert_eq!(taken(&mut line, now).len(), 2, "the second takes the room that the first has left");
    for token in &tokens[1..] {
        line.engine.release(now + 10 * STEP, *token);
    }
    assert_eq!(lanes(&line, 0).credits, [2 * len, 2 * len]);
}

#[test]
fn host_gives_room_back_before_what_happens_later_inside() {
    let mut engine = Engine::default();
    for port in [0, 1] {
        engine.add_port();
        engine.set_port(0, port, port_config(port + 1));
    }
    let switch = engine.add_switch();
    engine.set_tables(
        0,
        switch,
        LinearTable { entries: [0, 1, 2].into(), groups: vec![] },
        MulticastTable::default(),
    );
    for port in [1, 2] {
        engine.set_switch_port(0, switch, port, SwitchPortConfig::plain(PortState::Active));
    }
    let streams = [(Stream::new(1), Stream::new(2)); 2];
    // only what leads to the receiver has credits
    let narrow = FlowControl { buffer_bytes: len(), ..one_lane() };
    let [to_host, plain] = [(&STEADY, Some(&narrow)), (&STEADY, None)];
    engine.add_link([End::Hfi(0), End::Switch(switch, 1)], [plain; 2], streams);
    engine.add_link([End::Switch(switch, 2), End::Hfi(RECEIVER)], [to_host, plain], streams);
    let sent = packet(engine.packets(), address(0, 1), 8000, 0);
    // when the first is at the host, the second is on its way to the switch
    for now in [0, 10_000] {
        engine.inject(now, 0, sent.clone(), address(0, 1));
    }
    let mut times = Vec::new();
    while engine.handle_until_lent(STEP) {
        while let Some(output) = engine.poll_output() {
            if let Output::Delivered { time, token: Some(token), .. } = output {
                engine.release(time, token);
                times.push(time);
            }
        }
    }
    assert_eq!(times, [0, 10_000].map(|sent| sent + 2 * (len() + LATENCY)));
}

#[test]
fn lane_has_no_more_of_what_all_share_than_its_part() {
    let of_lanes = |bytes: u64| std::array::from_fn(|lane| if lane < 2 { bytes } else { 0 });
    let buffers = Buffers { dedicated: of_lanes(0), shared: of_lanes(2 * len()), overall_shared: 3 * len() };
    let mut line = Line::with(0, &STEADY, Some(&two_lanes()));
    let mut config = port_config(1);
    config.egress.buffers = Some(buffers.into());
    line.engine.set_port(0, 0, config);
    for (now, channels, waits, holds, left) in [
        (0, &[0, 0, 0][..], [len(), 0], [2 * len(), 0], [0, len()]),
        (STEP, &[1, 1], [len(); 2], [2 * len(), len()], [0, 0]),
    ] {
        for sc in channels {
            let packet = packet_on(&mut line, *sc);
            line.send(now, packet);
        }
        line.engine.handle_timeout(now + STEP);
        let LanesStatus { waiting, occupied, credits, .. } = lanes(&line, 0);
        assert_eq!((&waiting[..], &occupied[..], &credits[..]), (&waits[..], &holds[..], &left[..]));
    }
}

#[test]
fn switch_marks_what_has_so_much_ahead_of_it_and_a_host_marks_nothing() {
    // ahead of the four packets are 0, 1, 2 and 3 others, of which two fit into the buffer
    for (fecn_bytes, marked) in
        [(0, 4), (len(), 3), (len() + 1, 2), (2 * len(), 2), (3 * len(), 1), (3 * len() + 1, 0)]
    {
        let flow = FlowControl { buffer_bytes: 2 * len(), fecn_bytes, ..one_lane() };
        let mut line = Line::with(1, &STEADY, Some(&flow));
        for _ in 0..4 {
            line.send(0, line.packet(8000));
        }
        line.engine.handle_timeout(STEP);
        let found = [0, 1].map(|link| lanes(&line, line.way[link]).fecn_marked);
        assert_eq!(found, [0, marked], "from {fecn_bytes} bytes on");
        let (mut received, tokens) = given(&mut line);
        for token in tokens {
            line.engine.release(STEP, token);
        }
        received.extend(taken(&mut line, STEP));
        let is_marked: Vec<bool> = received.iter().map(|packet| fecn(packet)).collect();
        assert_eq!(is_marked, [4, 3, 2, 1].map(|last| marked >= last));
    }
}

#[test]
fn switch_drops_the_first_of_a_lane_when_its_lifetime_is_over_and_a_host_waits() {
    let flow = FlowControl { buffer_bytes: len(), hoq_code: 0, ..one_lane() };
    let mut line = Line::with(1, &STEADY, Some(&flow));
    for _ in 0..3 {
        line.send(0, line.packet(8000));
    }
    let (last, hop) = (line.way[1], len() + LATENCY);
    let second = 2 * hop; // when it finds the buffer behind the switch full
    let third = second + 4096 + hop;
    for (now, dropped) in [(second + 4095, 0), (second + 4096, 1), (third + 4095, 0), (third + 4096, 1)] {
        line.engine.handle_timeout(now);
        assert_eq!(drops(&mut line, last, Drop::LinkHoq), dropped, "at {now}");
    }
    assert_eq!(taken(&mut line, third + 4096).len(), 1);
    assert_eq!(line.engine.vl_counters(10 * STEP, last).1[0].wait_ns, 2 * 4096);
    assert_eq!(lanes(&line, line.way[0]).credits, [len()]);
}

#[test]
fn sender_is_stopped_when_a_buffer_full_waits_and_goes_on_at_half_of_it() {
    for lanes in [one_lane(), two_lanes()] {
        let flow = FlowControl { buffer_bytes: 2 * len(), ..lanes };
        let mut line = Line::with(0, &STEADY, Some(&flow));
        for stopped in [false, false, false, true] {
            line.send(0, line.packet(8000));
            line.engine.handle_timeout(STEP);
            assert_eq!(line.engine.is_stopped(0), stopped);
        }
        line.send(STEP, line.packet(8000));
        let (_, tokens) = given(&mut line);
        for (token, stopped) in tokens.into_iter().zip([true, false]) {
            line.engine.release(STEP, token);
            line.engine.handle_timeout(2 * STEP);
            assert_eq!(line.engine.is_stopped(0), stopped);
        }
        assert_eq!(taken(&mut line, 2 * STEP).len(), 3);
        let stops = line.engine.take_counted().into_iter().filter_map(|counted| match counted {
            Counted::Congestion { port: 0, counted } => Some(counted.tx_stops),
            _ => None,
        });
        assert_eq!(stops.collect::<Vec<_>>(), [1]);
    }
}

#[test]
fn cut_link_forgets_what_waits_and_begins_anew() {
    let (mut line, waits) = queue_at_switch(0);
    let last = line.way[1];
    line.engine.set_link(waits + 2000, last, &LinkConfig { up: false, ..STEADY });
    assert_eq!(drops(&mut line, last, Drop::LinkDown), 2);
    assert_eq!(lanes(&line, line.way[0]).credits, [1 << 20], "what waited held room before the switch");
    line.engine.set_link(waits + 3000, last, &STEADY);
    assert_eq!(line.engine.vl_counters(STEP, last).1[0].wait_ns, 2000);
    assert_eq!(drops(&mut line, last, Drop::LinkHoq), 0);
    let (_, tokens) = given(&mut line);
    line.engine.release(STEP, tokens[0]);
    line.send(STEP, line.packet(8000));
    line.send(STEP, line.packet(8000));
    line.engine.handle_timeout(STEP + waits + 4096);
    assert_eq!(drops(&mut line, last, Drop::LinkHoq), 1);

    let flow = FlowControl { buffer_bytes: len(), ..two_lanes() };
    let mut line = Line::with(0, &STEADY, Some(&flow));
    for sc in [0, 0, 1] {
        let packet = packet_on(&mut line, sc);
        line.send(0, packet);
    }
    assert!(line.engine.is_stopped(0));
    line.engine.set_link(10, 0, &LinkConfig { up: false, ..STEADY });
    assert!(!line.engine.is_stopped(0));
    line.engine.set_link(20, 0, &STEADY);
    line.send(20, line.packet(8000));
    line.engine.handle_timeout(20 + len() + LATENCY);
    assert_eq!(given(&mut line).0.len(), 1, "it waits for nothing that was on the wire before");
}

#[test]
fn lane_waits_while_it_has_packets_and_sends_none() {
    let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes: len(), ..one_lane() }));
    for _ in 0..2 {
        line.send(0, line.packet(8000));
    }
    let waited = |line: &mut Line, now: u64| -> Vec<u64> {
        line.engine.vl_counters(now, 0).1.iter().map(|vl| vl.wait_ns).collect()
    };
    assert_eq!(waited(&mut line, len()), [0], "its first packet is being sent");
    assert_eq!(waited(&mut line, len() + 7000), [7000]);
    let (_, tokens) = given(&mut line);
    line.engine.release(len() + 7000, tokens[0]);
    assert_eq!(waited(&mut line, STEP), [7000]);

    let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes: 2 * len(), ..two_lanes() }));
    for sc in [0, 0, 1] {
        let packet = packet_on(&mut line, sc);
        line.send(0, packet);
    }
    assert_eq!(waited(&mut line, STEP), [len(), len()], "each for a packet of the other");
    let packets =
        line.engine.vl_counters(STEP, 0).1.iter().map(|vl| (vl.packets, vl.bytes)).collect::<Vec<_>>();
    assert_eq!(packets[1], (1, len()));

    let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes: len(), ..two_lanes() }));
    for (now, sc) in [(0, 0), (0, 0), (20_000, 1)] {
        let packet = packet_on(&mut line, sc);
        line.send(now, packet);
    }
    assert_eq!(waited(&mut line, 50_000), [50_000 - len(), 0], "its wait began when its first had left");
}

#[test]
fn packets_that_wait_go_on_when_their_buffer_grows() {
    let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes: len(), ..one_lane() }));
    for _ in 0..3 {
        line.send(0, line.packet(8000));
    }
    line.engine.set_flow(STEP, 0, &FlowControl { buffer_bytes: 2 * len(), ..one_lane() });
    assert_eq!((lanes(&line, 0).waiting, line.engine.waiting_on(0, 0)), (vec![len()], len()));
    line.engine.set_flow(
        STEP,
        0,
        &FlowControl { buffer_bytes: 2 * len(), shared_bytes: len(), ..one_lane() },
    );
    assert_eq!((lanes(&line, 0).waiting, line.engine.waiting_on(0, 0)), (vec![0], 0));
    assert_eq!(lanes(&line, 0).occupied, [3 * len()]);
}

/// Send packets on these service channels at once, and return those that have arrived, in order.
fn order(line: &mut Line, now: u64, channels: &[u32]) -> Vec<u32> {
    for sc in channels {
        let packet = packet_on(line, *sc);
        line.send(now, packet);
    }
    taken(line, now).iter().map(|packet| sc(packet)).collect()
}

#[test]
fn lanes_share_the_wire_by_their_weights_and_a_high_one_goes_first_up_to_its_limit() {
    let limit = |bytes| (vec![1, 1], 0b10, Some(bytes), [1, 1, 1, 0, 0, 0]);
    for ((weights, high, high_limit_bytes, sent), arrive) in [
        ((vec![1, 1], 0, None, [0, 0, 0, 1, 1, 1]), [0, 1, 0, 1, 0, 1]),
        ((vec![2, 1], 0, None, [0, 0, 0, 1, 1, 1]), [0, 1, 0, 0, 1, 1]),
        ((vec![1, 1], 0b10, None, [0, 0, 0, 1, 1, 1]), [0, 1, 1, 1, 0, 0]),
        (limit(len()), [1, 1, 0, 1, 0, 0]),
        (limit(len() - 1), [1, 0, 1, 0, 1, 0]),
    ] {
        let flow = FlowControl { weights, high, high_limit_bytes, buffer_bytes: 1 << 20, ..two_lanes() };
        assert_eq!(order(&mut Line::with(0, &STEADY, Some(&flow)), 0, &sent), arrive);
    }
}

#[test]
fn new_shares_act_on_what_waits_and_other_settings_forget_nothing() {
    let flow = FlowControl { buffer_bytes: 1 << 20, ..two_lanes() };
    let with = |changed: &FlowControl| {
        let mut line = Line::with(0, &STEADY, Some(&flow));
        for sc in [0, 0, 1, 1] {
            let packet = packet_on(&mut line, sc);
            line.send(0, packet);
        }
        line.engine.set_flow(10, 0, changed);
        order(&mut line, 10, &[])
    };
    assert_eq!(with(&FlowControl { high: 0b10, ..flow.clone() }), [0, 1, 1, 0]);
    assert_eq!(with(&FlowControl { high: 0b01, ..flow.clone() }), [0, 0, 1, 1]);
    assert_eq!(with(&FlowControl { fecn_bytes: 1, ..flow.clone() }), [0, 1, 0, 1], "lane 0 has had its turn");
    let more = FlowControl { weights: vec![1; 3], ..flow.clone() };
    assert_eq!(with(&more), [0, 0, 1, 1], "all begin anew where there is one more");
}

#[test]
fn packets_stay_on_their_lane_when_lanes_come_and_go() {
    let one = FlowControl { buffer_bytes: len(), ..one_lane() };
    let two = FlowControl { buffer_bytes: len(), ..two_lanes() };
    let mut line = Line::with(0, &STEADY, Some(&one));
    let send = |line: &mut Line, now: u64, sc: u32| {
        let packet = packet_on(line, sc);
        line.send(now, packet);
        line.engine.handle_timeout(now + STEP);
        let LanesStatus { occupied, waiting, .. } = lanes(line, 0);
        (occupied, waiting)
    };
    assert_eq!(send(&mut line, 0, 1), (vec![len()], vec![0]));
    assert_eq!(send(&mut line, STEP, 1), (vec![len()], vec![len()]));
    line.engine.set_flow(2 * STEP, 0, &two);
    assert_eq!(send(&mut line, 2 * STEP, 1), (vec![len(); 2], vec![len(), 0]));
    assert_eq!(send(&mut line, 3 * STEP, 1), (vec![len(); 2], vec![len(); 2]));
    line.engine.set_flow(4 * STEP, 0, &one);
    assert_eq!(send(&mut line, 4 * STEP, 1), (vec![len(); 2], vec![2 * len(), len()]));
    assert_eq!(lanes(&line, 0).credits, [0, 0]);
    assert_eq!(taken(&mut line, 5 * STEP).len(), 5, "nothing is lost");
    assert_eq!(lanes(&line, 0).credits, [len(), 0]);

    // the table of the port is of 16 VLs: here they are taken modulo two
    let mut line = Line::with(0, &STEADY, Some(&two));
    let mut config = port_config(1);
    config.egress.sc_to_vl = Some([3; 32]);
    line.engine.set_port(0, 0, config);
    assert_eq!(send(&mut line, 0, 0), (vec![0, len()], vec![0, 0]));
}

#[test]
fn new_settings_mark_stop_and_drop_from_now_on() {
    let flow = FlowControl { buffer_bytes: len(), ..one_lane() };
    let mut line = Line::with(1, &STEADY, Some(&flow));
    for _ in 0..2 {
        line.send(0, line.packet(8000));
    }
    line.engine.handle_timeout(STEP);
    let last = line.way[1];
    let held = [(0, line.way[0], 0, 0, len())];
    assert_eq!((lanes(&line, last).held, lanes(&line, last).fecn_marked), (held.to_vec(), 0));
    line.send(STEP, line.packet(8000)); // it waits at the sender
    line.engine.set_flow(STEP, last, &FlowControl { fecn_bytes: 1, ..flow.clone() });
    let third = 2 * STEP + len() + LATENCY; // when it comes to the switch
    // of a lifetime of 32 us nothing is left, and then of one of 4 us
    for (at, hoq_code) in [(2 * STEP, 3), (third + 10_000, 0)] {
        line.engine.set_flow(at, last, &FlowControl { fecn_bytes: 1, hoq_code, ..flow.clone() });
        line.engine.handle_timeout(at);
        assert_eq!(drops(&mut line, last, Drop::LinkHoq), 1, "at {at}");
    }
    assert_eq!(lanes(&line, last).fecn_marked, 1);

    for lanes in [one_lane(), two_lanes()] {
        let none = Buffers { dedicated: [0; MAX_VLS], shared: [0; MAX_VLS], overall_shared: 0 };
        let flow = FlowControl { buffer_bytes: len(), ..lanes };
        let mut line = Line::with(0, &STEADY, Some(&flow));
        let mut config = port_config(1);
        config.egress.buffers = Some(none.into());
        line.engine.set_port(0, 0, config);
        for _ in 0..2 {
            line.send(0, line.packet(8000)); // one at a time, where there is no room
        }
        for (buffer_bytes, stopped) in
            [(len(), true), (2 * len() - 1, true), (2 * len(), false), (len() + 1, false), (len() - 1, true)]
        {
            line.engine.set_flow(STEP, 0, &FlowControl { buffer_bytes, ..flow.clone() });
            assert_eq!(line.engine.is_stopped(0), stopped, "with {buffer_bytes} bytes");
        }
    }
}

#[test]
fn lifetimes_are_of_each_lane_by_itself() {
    let mut line = Line::with(1, &STEADY, Some(&FlowControl { buffer_bytes: len(), ..two_lanes() }));
    let mut hoq_codes = [20; MAX_VLS]; // no lifetime
    hoq_codes[1] = 1;
    let egress = Egress { hoq_codes: Some(hoq_codes), ..Egress::default() };
    line.engine.set_switch_port(
        0,
        0,
        2,
        SwitchPortConfig { egress, ..SwitchPortConfig::plain(PortState::Active) },
    );
    for sc in [0, 1, 0, 1] {
        let packet = packet_on(&mut line, sc);
        line.send(0, packet);
    }
    let last = line.way[1];
    line.engine.handle_timeout(STEP);
    assert_eq!(lanes(&line, last).waiting, [len(), 0]);
    assert_eq!(drops(&mut line, last, Drop::LinkHoq), 1);
    assert_eq!(taken(&mut line, STEP).iter().map(|packet| sc(packet)).collect::<Vec<_>>(), [0, 1, 0]);
}

/// A line over a switch where three packets, the last with a frame of 60 bytes, come one after the other to a buffer with
/// room for the first, and 100 bytes. Return when the second of them is the first that waits at the switch.
fn queue_at_switch(hoq_code: u8) -> (Line, u64) {
    let flow = FlowControl { buffer_bytes: 1 << 20, ..one_lane() };
    let mut line = Line::with(1, &STEADY, Some(&flow));
    line.engine.set_flow(0, line.way[1], &FlowControl { buffer_bytes: len() + 100, hoq_code, ..flow });
    for frame in [8000, 8000, 60] {
        line.send(0, line.packet(frame));
    }
    let waits = 2 * len() + LATENCY;
    line.engine.handle_timeout(waits + 200);
    (line, waits)
}

#[test]
fn lifetimes_end_one_after_the_other_and_an_idle_lane_waits_for_nothing() {
    let flow = FlowControl { weights: vec![1; 3], buffer_bytes: 1 << 20, ..two_lanes() };
    let mut line = Line::with(1, &STEADY, Some(&flow));
    let last = line.way[1];
    line.engine.set_flow(0, last, &FlowControl { buffer_bytes: len(), ..flow });
    let mut hoq_codes = [0; MAX_VLS];
    (hoq_codes[0], hoq_codes[1]) = (3, 1);
    let egress = Egress { hoq_codes: Some(hoq_codes), ..Egress::default() };
    let config = SwitchPortConfig { egress, ..SwitchPortConfig::plain(PortState::Active) };
    line.engine.set_switch_port(0, 0, 2, config);
    for sc in [0, 1, 0, 1, 1] {
        let packet = packet_on(&mut line, sc);
        line.send(0, packet);
    }
    // the last three find the room taken that the first two have got
    let (third, fourth) = (3 * len() + LATENCY + 32_768, 4 * len() + LATENCY + 8192);
    for (now, [after, before]) in [(fourth, [1, 2]), (fourth + 8192, [0, 1])] {
        line.engine.handle_timeout(now - 1);
        assert_eq!(lanes(&line, last).waiting, [len(), before * len(), 0], "before {now}");
        line.engine.handle_timeout(now);
        assert_eq!(lanes(&line, last).waiting, [len(), after * len(), 0], "at {now}");
    }
    line.engine.handle_timeout(third - 1);
    assert_eq!(lanes(&line, last).waiting, [len(), 0, 0]);
    line.engine.handle_timeout(third);
    assert_eq!((lanes(&line, last).waiting, drops(&mut line, last, Drop::LinkHoq)), (vec![0; 3], 3));
    let waited: Vec<u64> = line.engine.vl_counters(STEP, last).1.iter().map(|vl| vl.wait_ns).collect();
    assert_eq!(waited, [32_768, 2 * 8192, 0]);
}

#[test]
fn lifetime_begins_when_a_packet_becomes_the_first_and_the_next_one_goes_on_if_it_can() {
    let (mut line, waits) = queue_at_switch(0);
    let last = line.way[1];
    line.engine.handle_timeout(waits + 4096);
    assert_eq!(drops(&mut line, last, Drop::LinkHoq), 1);
    assert_eq!((lanes(&line, last).waiting, lanes(&line, last).occupied), (vec![0], vec![len() + 88]));

    for (then, lives) in [(10_000, true), (16_385, false)] {
        let (mut line, waits) = queue_at_switch(2);
        line.send(0, line.packet(8000));
        line.engine.handle_timeout(waits + 9000); // all are at the switch
        let (_, tokens) = given(&mut line);
        line.engine.release(waits + then, tokens[0]);
        // the fourth packet is the first that waits since the two before it have left the switch
        line.engine.handle_timeout(waits + 10_000 + 16_383);
        assert_eq!(drops(&mut line, last, Drop::LinkHoq), u64::from(!lives), "released after {then}");
        line.engine.handle_timeout(waits + 10_000 + 16_384);
        assert_eq!(drops(&mut line, last, Drop::LinkHoq), u64::from(lives));
    }
}

#[test]
fn lane_that_had_no_credits_has_saved_nothing() {
    let flow = FlowControl { buffer_bytes: 4 * len(), ..two_lanes() };
    let mut line = Line::with(0, &STEADY, Some(&flow));
    for _ in 0..8 {
        let packet = packet_on(&mut line, 0);
        line.send(0, packet);
    }
    line.engine.handle_timeout(STEP);
    let (_, blocked) = given(&mut line);
    for _ in 0..8 {
        let packet = packet_on(&mut line, 1);
        line.send(STEP, packet);
        line.engine.handle_timeout(2 * STEP);
    }
    assert_eq!(blocked.len(), 4);
    assert_eq!(taken(&mut line, 2 * STEP).len(), 8);
    for token in blocked {
        line.engine.release(20 * STEP, token);
    }
    assert_eq!(order(&mut line, 20 * STEP, &[1; 4]), [0, 0, 1, 0, 1, 0, 1, 1]);
}

#[test]
fn packets_wait_for_the_wire_as_it_is_after_a_change_of_its_rate() {
    let flow = FlowControl { high: 0b10, buffer_bytes: 1 << 20, ..two_lanes() };
    let with = |rate_bps: u64, channels: &[u32]| {
        let mut line = Line::with(0, &STEADY, Some(&flow));
        for _ in 0..2 {
            let packet = packet_on(&mut line, 0);
            line.send(0, packet);
        }
        line.engine.set_link(len() / 2, 0, &LinkConfig { rate_bps, ..STEADY });
        for sc in channels {
            let packet = packet_on(&mut line, *sc);
            line.send(len() + 100, packet);
        }
        line.engine.handle_timeout(STEP);
        let outputs = std::iter::from_fn(|| line.engine.poll_output());
        outputs
            .filter_map(|output| match output {
                Output::Delivered { time, burst, .. } => Some((time - LATENCY, sc(&burst.packet))),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let len = len();
    assert_eq!(with(16_000_000_000, &[]), [(len * 3 / 4, 0), (len * 5 / 4, 0)]);
    // the wire is still busy when the packet comes that has priority
    assert_eq!(with(4_000_000_000, &[1]), [(len * 3 / 2, 0), (len * 7 / 2, 1), (len * 11 / 2, 0)]);
}

#[test]
fn copies_that_wait_tell_which_packet_holds_the_room() {
    let mut engine = Engine::default();
    star(&mut engine, 3, &STEADY, Some(&FlowControl { buffer_bytes: 2 * len(), ..one_lane() }));
    let address = Address { dlid: GROUP, ..address(0, 1) };
    for mark in 0..4 {
        let packet = packet(engine.packets(), address, 8000, mark);
        engine.inject(0, 0, packet, address);
    }
    engine.handle_timeout(STEP);
    for direction in [3, 5] {
        let lanes = engine.lanes(direction).unwrap();
        assert_eq!(lanes.held, [(0, 0, 0, 3, len()), (0, 0, 0, 4, len())]);
    }
}

#[test]
fn egress_says_on_which_lane_packets_are_and_how_long_they_may_be() {
    let mtu = |most: u64| (most - 124) as u32;
    let mtus = |lane: u32| std::array::from_fn::<_, MAX_VLS, _>(|vl| if vl as u32 == 3 { lane } else { 0 });
    for (vl_mtus, too_long) in [
        (None, false),
        (Some(mtus(mtu(len()))), false),
        (Some(mtus(mtu(len()) - 1)), true),
        (Some([0; MAX_VLS]), true),
    ] {
        let mut line = Line::with(0, &STEADY, None);
        let mut config = port_config(1);
        config.egress = Egress { sc_to_vl: Some([3; 32]), vl_mtus, ..Egress::default() };
        line.engine.set_port(0, 0, config);
        let refused = line.send(0, line.packet(8000));
        assert_eq!(refused, too_long.then_some(Drop::TxMtu));
        let (uncounted, vls) = line.engine.vl_counters(STEP, 0);
        let (packets, discards) = (vls[3].packets, vls[3].discards);
        assert_eq!((packets, discards, uncounted.too_long), if too_long { (0, 1, 1) } else { (1, 0, 0) });
    }
}

/// The times at which packets are received that were sent at 0, 1000 and so on, where faults disturb them; and how many
/// packets the first of these has seen, and how many the far end missed or found damaged.
fn judged(packets: u64, rules: Vec<FaultRule>) -> (Vec<u64>, u64, u64) {
    let mut line = Line::with(0, &STEADY, None);
    let tally = Arc::<Tally>::default();
    for tally in 1..rules.len() as u32 {
        line.engine.set_tally(tally, Arc::default());
    }
    line.engine.set_tally(0, Arc::clone(&tally));
    line.engine.set_rules(0, 0, rules);
    for number in 0..packets {
        line.send(number * 1000, line.packet(60));
    }
    line.engine.handle_timeout(STEP);
    let outputs = std::iter::from_fn(|| line.engine.poll_output());
    let times = outputs.filter_map(|output| match output {
        Output::Delivered { time, .. } => Some(time - LATENCY - 88),
        _ => None,
    });
    (times.collect(), tally.seen(), line.engine.wire_counters(STEP, 0).errors)
}

fn arrivals(packets: u64, rule: FaultRule) -> Vec<u64> {
    judged(packets, vec![rule]).0
}

#[test]
fn fault_sees_what_it_selects_until_it_is_over_and_the_far_end_notices_loss_and_damage() {
    let plain = |kind, tally| FaultRule::plain(7, kind, ALWAYS, tally);
    let never = |kind| FaultRule { chance: 0, ..plain(kind, 0) };
    for (rules, expected) in [
        (vec![plain(FaultKind::Loss, 0)], (vec![], 3, 3)),
        (vec![never(FaultKind::Loss), plain(FaultKind::Loss, 1)], (vec![], 3, 3)),
        (vec![never(FaultKind::Delay), plain(FaultKind::Loss, 1)], (vec![], 3, 3)),
        (vec![FaultRule { count: Some(1), ..plain(FaultKind::Loss, 0) }], (vec![1000, 2000], 1, 1)),
        (vec![plain(FaultKind::Corrupt, 0)], (vec![], 3, 3)),
        (vec![plain(FaultKind::Duplicate, 0)], (vec![0, 88, 1000, 1088, 2000, 2088], 3, 0)),
    ] {
        assert_eq!(judged(3, rules), expected);
    }
    let others = Match { sc: Some(1), ..Match::default() };
    let of_others = FaultRule { fits: others, ..plain(FaultKind::Loss, 0) };
    assert_eq!(judged(3, vec![of_others]), (vec![0, 1000, 2000], 0, 0));
}

#[test]
fn deadline_is_at_once_where_a_fault_may_be_over_or_let_a_packet_go() {
    let loss = FaultRule { chance: 0, ..FaultRule::plain(7, FaultKind::Loss, ALWAYS, 0) };
    let at_switch = 88 + LATENCY;
    for (rule, deadline) in [
        (loss.clone(), at_switch + LATENCY),
        (FaultRule { count: Some(1), ..loss.clone() }, at_switch),
        (FaultRule { kind: FaultKind::Reorder, ..loss }, at_switch),
    ] {
        let mut line = Line::with(1, &STEADY, None);
        line.engine.set_tally(0, Arc::default());
        line.engine.set_rules(0, line.way[1], vec![rule]);
        line.send(0, line.packet(60));
        assert_eq!(line.engine.deadline(), Some(deadline));
    }
}

#[test]
fn fault_spares_what_it_is_to_skip_and_hits_as_often_as_it_is_to() {
    let rule = |kind| FaultRule { skip: 1, count: Some(2), ..FaultRule::plain(7, kind, ALWAYS, 0) };
    assert_eq!(arrivals(5, rule(FaultKind::Loss)), [0, 3000, 4000]);
    let delay = FaultRule { delay_ns: 300, ..rule(FaultKind::Delay) };
    assert_eq!(arrivals(5, delay), [0, 1300, 2300, 3000, 4000]);
    let twice = FaultRule { copies: 2, ..rule(FaultKind::Duplicate) };
    assert_eq!(arrivals(4, twice), [0, 1000, 1088, 1176, 2000, 2088, 2176, 3000]);
    let late = FaultRule { behind: 2, hold_ns: 2500, ..rule(FaultKind::Reorder) };
    assert_eq!(arrivals(6, late.clone()), [0, 3000, 3500, 4000, 4088, 5000]);
    assert_eq!(arrivals(3, late), [0, 3500, 4500]);
    let never = FaultRule { chance: 0, ..rule(FaultKind::Loss) };
    assert_eq!(arrivals(2, never), [0, 1000]);
}

#[test]
fn packets_that_arrive_count_on_the_lane_of_each() {
    let mut line = Line::with(0, &STEADY, Some(&two_lanes()));
    for sc in [1, 0, 0] {
        let packet = packet_on(&mut line, sc);
        line.send(0, packet);
    }
    let counted = |line: &mut Line, now: u64| {
        line.engine.handle_timeout(now);
        line.engine.vl_counters(now, 0).1.iter().map(|vl| vl.packets).collect::<Vec<_>>()
    };
    let found = [1, 2, 3].map(|number| counted(&mut line, number * len() + LATENCY));
    assert_eq!(found, [[0, 1], [1, 1], [2, 1]]);
    let three = std::array::from_fn(|sc| sc as u8 % 3);
    line.engine.set_flow(STEP, 0, &FlowControl { weights: vec![1; 3], sc_to_vl: three, ..two_lanes() });
    let packet = packet_on(&mut line, 2);
    line.send(STEP, packet);
    assert_eq!(counted(&mut line, 2 * STEP), [2, 1, 1]);
    line.engine.set_tally(0, Arc::default());
    line.engine.set_rules(2 * STEP, 0, vec![FaultRule::plain(7, FaultKind::Loss, ALWAYS, 0)]);
    line.send(2 * STEP, line.packet(60));
    assert_eq!(drops(&mut line, 0, Drop::LinkFault), 1);
    assert!(line.engine.vl_counters(3 * STEP, 0).1.iter().all(|vl| vl.discards == 0), "it was sent");

    let mut line = Line::with(0, &STEADY, None);
    line.engine.set_flow(0, 0, &two_lanes());
    assert_eq!(counted(&mut line, 0), [0], "a link without credits has one lane");
}

#[test]
fn groups_and_marks_of_what_arrives_are_counted() {
    let mut engine = Engine::default();
    star(&mut engine, 3, &STEADY, None);
    let to_group = Address { dlid: GROUP, ..address(0, 1) };
    let pool = engine.packets();
    let [plain, other] = [to_group, address(0, 1)].map(|address| packet(pool, address, 60, 0));
    let marked = pool.with_fecn(other.clone());
    let noted = pool.with_becn(other.clone());
    for (packet, address) in [(plain, to_group), (other, address(0, 1)), (marked, address(0, 1))] {
        engine.inject(0, 0, packet, address);
    }
    engine.inject(0, 0, noted, address(0, 1));
    engine.handle_timeout(LATENCY);
    assert_eq!(engine.wire_counters(LATENCY, 0), WireCounters::default(), "none has arrived");
    let WireCounters { multicast, fecn, becn, errors, .. } = engine.wire_counters(STEP, 0);
    assert_eq!((multicast, fecn, becn, errors), (1, 1, 1, 0));
}

/// Return how many random words the jitter of a direction has drawn, if the direction is among those that have changed.
fn drawn(line: &mut Line, direction: u32) -> Option<usize> {
    let of = |counted: Counted| match counted {
        Counted::Direction { direction: here, streams, .. } if here == direction => streams,
        _ => None,
    };
    let (_, jitter) = line.engine.take_counted().into_iter().find_map(of)?;
    let mut stream = Stream::new(!0);
    (0..100).find(|_| {
        let is_here = stream.state() == jitter;
        stream.word();
        is_here
    })
}

#[test]
fn direction_has_changed_when_a_packet_that_waited_goes_on() {
    let config = LinkConfig { jitter_ns: 1, ..STEADY };
    let narrow = FlowControl { buffer_bytes: len(), ..one_lane() };
    let mut line = Line::with(0, &config, Some(&narrow));
    for _ in 0..3 {
        line.send(0, line.packet(8000));
    }
    assert_eq!(drawn(&mut line, 0), Some(1));
    line.engine.handle_timeout(STEP);
    assert_eq!(drawn(&mut line, 0), Some(1), "one has arrived");
    let (_, tokens) = given(&mut line);
    line.engine.release(STEP, tokens[0]);
    assert_eq!(drawn(&mut line, 0), Some(2), "there is room for the second");
    line.engine.set_flow(STEP, 0, &FlowControl { buffer_bytes: 2 * len(), ..one_lane() });
    assert_eq!(drawn(&mut line, 0), Some(3), "there is room for the third");

    let mut line = Line::with(0, &config, Some(&FlowControl { buffer_bytes: 1 << 20, ..two_lanes() }));
    for _ in 0..2 {
        line.send(0, line.packet(8000));
    }
    assert_eq!(drawn(&mut line, 0), Some(1));
    line.engine.handle_timeout(len());
    assert_eq!(drawn(&mut line, 0), Some(2), "the wire is free for the second");
    assert_eq!(passing(&mut line, 0), [0; 5]);
    line.engine.set_link(len(), 0, &LinkConfig { up: false, ..config });
    assert_eq!(passing(&mut line, 0), [0, 0, 0, 2, -2]);
}

#[test]
fn links_hold_a_quarter_of_a_gibibyte_in_all() {
    let mut line = Line::with(0, &LinkConfig { queue_bytes: u64::MAX, ..STEADY }, None);
    let packet = line.packet(8167);
    assert_eq!(packet.len(), 8192);
    let most = (256 << 20) / 8192;
    line.engine.set_tally(0, Arc::default());
    let twice = FaultRule::plain(7, FaultKind::Duplicate, ALWAYS, 0);
    let mut now = 0;
    for rules in [vec![], vec![twice], vec![]] {
        let fit = most >> rules.len();
        line.engine.set_rules(now, 0, rules);
        for (sent, dropped) in [(fit, 0), (2, 2)] {
            (0..sent).for_each(|_| assert_eq!(line.send(now, packet.clone()), None));
            assert_eq!(drops(&mut line, 0, Drop::LinkOverflow), dropped);
        }
        now += most * 8192 + LATENCY;
        line.engine.handle_timeout(now);
        assert_eq!(given(&mut line).0.len() as u64, most);
    }
}

/// Return what a direction has counted: in, copies, out, dropped, and what is inside.
fn passing(line: &mut Line, direction: u32) -> [i64; 5] {
    let of = |counted: Counted| match counted {
        Counted::Direction { direction: here, counted, .. } if here == direction => {
            let Element { in_packets, copies, out_packets, .. } = counted.element;
            let dropped = counted.element.dropped();
            Some([in_packets as i64, copies as i64, out_packets as i64, dropped as i64, counted.in_flight])
        }
        _ => None,
    };
    line.engine.take_counted().into_iter().find_map(of).unwrap_or_default()
}

#[test]
fn copies_and_packets_that_were_held_back_need_room_and_are_counted() {
    let twice = FaultRule { copies: 2, ..FaultRule::plain(7, FaultKind::Duplicate, ALWAYS, 0) };
    for (queue_bytes, overflows) in [(3 * len(), 0), (3 * len() - 1, 1), (0, 2)] {
        let mut line = Line::with(0, &LinkConfig { queue_bytes, ..STEADY }, None);
        line.engine.set_tally(0, Arc::default());
        line.engine.set_rules(0, 0, vec![twice.clone()]);
        line.send(0, line.packet(8000));
        assert_eq!(passing(&mut line, 0), [1, 2, 0, overflows, 3 - overflows]);
        line.engine.handle_timeout(STEP);
        assert_eq!(passing(&mut line, 0), [0, 0, 3 - overflows, 0, overflows - 3]);
    }

    let late = FaultRule { hold_ns: 100, ..FaultRule::plain(7, FaultKind::Reorder, ALWAYS, 0) };
    let mut line = Line::with(0, &LinkConfig { queue_bytes: 0, ..STEADY }, None);
    line.engine.set_tally(0, Arc::default());
    line.engine.set_rules(0, 0, vec![FaultRule { count: Some(1), ..late }]);
    line.send(0, line.packet(8000));
    line.engine.set_rules(0, 0, vec![]);
    assert_eq!(passing(&mut line, 0), [1, 0, 0, 0, 1]);
    line.engine.observe(0, 0, true);
    line.engine.set_link(0, 0, &LinkConfig { queue_bytes: len(), ..STEADY });
    line.engine.handle_timeout(99);
    assert!(line.engine.is_holding(0));
    line.engine.set_link(99, 0, &LinkConfig { rate_bps: 1, queue_bytes: 0, ..STEADY });
    line.send(99, line.packet(60));
    line.engine.handle_timeout(STEP);
    assert_eq!(passing(&mut line, 0), [1, 0, 0, 1, 0], "the one that comes back finds the wire busy");
    let drops: Vec<_> = std::iter::from_fn(|| line.engine.poll_output())
        .filter_map(|output| match output {
            Output::Observed { time, drop, .. } => Some((time, drop)),
            _ => None,
        })
        .collect();
    assert_eq!(drops, [(99, None), (99, Some(Drop::LinkOverflow))]);
}

#[test]
fn packet_that_is_held_back_is_overtaken_lost_or_let_go_although_its_fault_is_gone() {
    let late = FaultRule { hold_ns: STEP, ..FaultRule::plain(7, FaultKind::Reorder, ALWAYS, 0) };
    let held = |config: &LinkConfig| {
        let mut line = Line::with(0, config, None);
        line.engine.set_tally(0, Arc::default());
        line.engine.set_rules(0, 0, vec![late.clone()]);
        line.send(0, line.packet(8000));
        line.engine.set_rules(0, 0, vec![]);
        assert_eq!(passing(&mut line, 0), [1, 0, 0, 0, 1]);
        line
    };
    let mut line = held(&STEADY);
    line.send(0, line.packet(60));
    line.engine.handle_timeout(STEP / 2);
    let lengths: Vec<_> = given(&mut line).0.iter().map(|packet| packet.len() as u64).collect();
    assert_eq!(lengths, [88, len()]);

    let mut line = held(&STEADY);
    assert_eq!(line.engine.deadline(), Some(STEP), "it may be shown as it goes on");
    line.engine.handle_timeout(STEP);
    assert_eq!(drawn(&mut line, 0), Some(0), "it has changed");
    line.engine.handle_timeout(STEP + len() + LATENCY);
    assert_eq!(given(&mut line).0.len(), 1);

    let mut line = held(&STEADY);
    line.engine.set_link(0, 0, &LinkConfig { up: false, ..STEADY });
    assert_eq!(passing(&mut line, 0), [0, 0, 0, 1, -1]);
    assert_eq!(line.engine.vl_counters(0, 0).1.len(), 1);
    line.engine.handle_timeout(2 * STEP);
    assert_eq!(passing(&mut line, 0), [0; 5], "nothing is left of it");
}

#[test]
fn what_is_sent_on_a_link_that_is_gone_is_lost() {
    let mut line = Line::with(0, &STEADY, None);
    line.engine.forget(0, &[], &[0]);
    assert_eq!(line.send(0, line.packet(60)), None);
    line.engine.handle_timeout(STEP);
    assert!(line.engine.poll_output().is_none());
}

#[test]
fn faults_go_on_when_a_link_has_been_down() {
    let mut line = Line::with(0, &STEADY, None);
    line.engine.set_tally(0, Arc::default());
    line.engine.set_rules(0, 0, vec![FaultRule::plain(7, FaultKind::Loss, ALWAYS, 0)]);
    for (up, drop) in [(true, Drop::LinkFault), (false, Drop::LinkDown), (true, Drop::LinkFault)] {
        line.engine.set_link(0, 0, &LinkConfig { up, ..STEADY });
        line.send(0, line.packet(60));
        assert_eq!(drops(&mut line, 0, drop), 1);
    }
}

#[test]
fn what_is_lost_is_no_longer_in_the_pool_and_counts_on_its_lane() {
    let mut line = Line::with(0, &STEADY, Some(&FlowControl { buffer_bytes: len(), ..two_lanes() }));
    line.engine.set_link(0, 0, &LinkConfig { up: false, ..STEADY });
    let packet = packet_on(&mut line, 1);
    for _ in 0..(256 << 20) / len() + 1 {
        line.send(0, packet.clone());
    }
    let discards = line.engine.vl_counters(0, 0).1[1].discards;
    assert_eq!(discards, (256 << 20) / len() + 1);
    line.engine.set_link(0, 0, &LinkConfig { queue_bytes: len(), ..STEADY });
    for _ in 0..3 {
        line.send(0, packet.clone());
    }
    line.engine.handle_timeout(STEP);
    assert_eq!(given(&mut line).0.len(), 1);
    let vl = line.engine.vl_counters(STEP, 0).1[1];
    assert_eq!((vl.discards - discards, vl.overflows, vl.packets, vl.fecn), (1, 1, 1, 0));
    let marked = line.engine.packets().with_fecn(packet);
    line.engine.set_flow(STEP, 0, &FlowControl { buffer_bytes: 1 << 20, ..two_lanes() });
    line.send(STEP, marked);
    line.engine.handle_timeout(2 * STEP);
    let vl = line.engine.vl_counters(2 * STEP, 0).1[1];
    assert_eq!((vl.packets, vl.fecn, vl.becn), (3, 1, 0));
}
