//! What is subtle in the engine: order at one instant, cuts, credits, reordering, and that packets allocate nothing.

mod allocations;

use std::sync::Arc;

use engine::api::{Counted, Engine};
use engine::burst::Burst;
use engine::config::{PortConfig, PortState};
use engine::counters::Drop;
use engine::link::capture::{CaptureConfig, CaptureRing};
use engine::link::config::LinkConfig;
use engine::link::rule::{FaultKind, FaultRule, Match};
use engine::outputs::Output;
use engine::packet::{Packet, fecn};
use engine::port::Address;
use engine::testing::line::{FAST, Line, RECEIVER, one_lane};
use engine::testing::star::{self, address, packet, star};

/// A byte per nanosecond.
const STEADY: LinkConfig = LinkConfig { rate_bps: 8_000_000_000, latency_ns: 1000, ..FAST };

fn outputs(line: &mut Line) -> Vec<Output> {
    std::iter::from_fn(|| line.engine.poll_output()).collect()
}

/// Return the times and sizes of what was delivered.
fn delivered(line: &mut Line) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    for output in outputs(line) {
        if let Output::Delivered { time, burst: Burst { packet, .. }, .. } = output {
            found.push((time, packet.len()));
        }
    }
    found
}

fn drops(line: &mut Line, direction: u32, reason: Drop) -> u64 {
    let counted = line.engine.take_counted();
    let of = |counted: &Counted| match counted {
        Counted::Direction { direction: here, counted, .. } if *here == direction => {
            counted.element.drops[reason as usize]
        }
        _ => 0,
    };
    counted.iter().map(of).sum()
}

fn rule(kind: FaultKind) -> FaultRule {
    FaultRule::plain(7, kind, 1 << 53, 0)
}

fn set_rule(line: &mut Line, rule: FaultRule) {
    line.engine.set_tally(rule.tally, Arc::default());
    line.engine.set_rules(0, line.way[0], vec![rule]);
}

#[test]
fn arrival_comes_before_a_change_at_the_same_instant() {
    let mut line = Line::with(0, &STEADY, None);
    let packet = line.packet(200);
    let arrival = packet.len() as u64 + 1000;
    line.send(0, packet.clone());
    line.send(0, packet);
    line.engine.set_link(arrival, line.way[0], &LinkConfig { up: false, ..STEADY });
    line.engine.handle_timeout(u64::MAX);
    assert_eq!(delivered(&mut line), [(arrival, 232)]);
    assert_eq!(drops(&mut line, 0, Drop::LinkDown), 1);
}

#[test]
fn packets_of_one_instant_arrive_in_the_order_in_which_they_were_sent() {
    let instant = LinkConfig { rate_bps: 1 << 62, latency_ns: 0, ..FAST };
    let mut line = Line::with(3, &instant, None);
    let sizes = [300, 100, 200, 60];
    for size in sizes {
        let packet = line.packet(size);
        line.send(5, packet);
    }
    line.engine.handle_timeout(u64::MAX);
    let found: Vec<usize> = delivered(&mut line).into_iter().map(|(_, size)| size).collect();
    let sent: Vec<usize> = sizes.iter().map(|size| line.packet(*size).len()).collect();
    assert_eq!(found, sent);
}

#[test]
fn deadline_is_when_something_comes_out_and_not_before() {
    let mut line = Line::with(2, &STEADY, None);
    let packet = line.packet(60);
    let due = 3 * (packet.len() as u64 + 1000);
    for _ in 0..10 {
        line.send(0, packet.clone());
    }
    let mut woken = 0;
    let mut found = Vec::new();
    while let Some(deadline) = line.engine.deadline() {
        woken += 1;
        line.engine.handle_timeout(deadline - 1);
        assert!(!line.engine.has_output());
        line.engine.handle_timeout(deadline);
        found.extend(delivered(&mut line));
    }
    let expected: Vec<_> = (0..10).map(|sent| (due + sent * 88, 88)).collect();
    assert_eq!(found, expected);
    assert!(woken < 15, "{woken} times for 30 arrivals");
    let due = due + 9 * 88;
    line.engine.observe(due, line.way[1], true);
    let packet = line.packet(60);
    line.send(due, packet);
    assert_eq!(line.engine.deadline(), Some(due + 1088));
    line.engine.handle_timeout(due + 1088);
    assert!(matches!(outputs(&mut line)[..], [Output::Observed { direction: 2, drop: None, .. }]));
}

#[test]
fn full_buffer_stops_the_sender_until_the_host_releases_it() {
    let mut line = Line::with(1, &STEADY, Some(&one_lane()));
    let packet = line.packet(8000);
    for _ in 0..8 {
        assert_eq!(line.send(0, packet.clone()), None);
    }
    line.engine.handle_timeout(1_000_000);
    assert!(line.engine.is_stopped(0));
    let stopped = outputs(&mut line);
    let tokens: Vec<u64> = stopped.iter().filter_map(token).collect();
    assert_eq!(tokens.len(), 2, "as many as the receiver's buffer holds");
    assert!(matches!(stopped[0], Output::FlowChanged { port: 0, stopped: true, .. }));
    assert_eq!(line.engine.lanes(line.way[1]).unwrap().credits, [(16 << 10) - 2 * packet.len() as u64]);

    let (mut free, mut now, mut taken) = (tokens, 1_000_000, 2);
    let (mut resumed, mut marked) = (false, false);
    while let Some(token) = free.pop() {
        now += 100_000;
        assert!(line.engine.keep(token));
        assert!(line.engine.release(now, token) && line.engine.release(now, token));
        assert!(!line.engine.release(now, token), "it is gone");
        line.engine.handle_timeout(now + 90_000);
        for output in outputs(&mut line) {
            resumed |= matches!(output, Output::FlowChanged { stopped: false, .. });
            if let Output::Delivered { burst: Burst { packet, .. }, token, .. } = output {
                free.extend(token);
                marked |= fecn(&packet);
                taken += 1;
            }
        }
    }
    assert_eq!((taken, resumed, marked), (8, true, true));
    for direction in line.way.clone() {
        assert_eq!(line.engine.lanes(direction).unwrap().credits, [16 << 10]);
    }
}

fn token(output: &Output) -> Option<u64> {
    if let Output::Delivered { token, port: RECEIVER, .. } = output { *token } else { None }
}

#[test]
fn cut_link_gives_its_credits_back() {
    let mut line = Line::with(1, &STEADY, Some(&one_lane()));
    let packet = line.packet(8000);
    for _ in 0..5 {
        line.send(0, packet.clone());
    }
    for up in [false, true] {
        line.engine.set_link(10, line.way[0], &LinkConfig { up, ..STEADY });
    }
    assert_eq!(drops(&mut line, 0, Drop::LinkDown), 5);
    assert!(!line.engine.is_stopped(0));
    let lanes = line.engine.lanes(line.way[0]).unwrap();
    assert_eq!((lanes.credits, lanes.waiting), (vec![16 << 10], vec![0]));
    line.engine.handle_timeout(u64::MAX);
    assert_eq!(delivered(&mut line), []);
}

#[test]
fn held_packet_goes_on_when_it_was_overtaken_or_in_the_end() {
    let mut line = Line::with(0, &STEADY, None);
    set_rule(&mut line, FaultRule { count: Some(1), behind: 2, ..rule(FaultKind::Reorder) });
    for size in [60, 100, 200, 300] {
        let packet = line.packet(size);
        line.send(0, packet);
    }
    line.engine.handle_timeout(500_000);
    assert_eq!(outputs(&mut line).remove(0), Output::RuleSpent { time: 0, rule: 7 });

    let sizes = |line: &mut Line| delivered(line).into_iter().map(|(_, size)| size).collect::<Vec<_>>();
    set_rule(&mut line, FaultRule { behind: 2, count: Some(1), ..rule(FaultKind::Reorder) });
    for size in [60, 100, 200, 300] {
        let packet = line.packet(size);
        line.send(500_000, packet);
    }
    line.engine.handle_timeout(900_000);
    let order = [100, 200, 60, 300].map(|size| line.packet(size).len());
    assert_eq!(sizes(&mut line), order);

    set_rule(&mut line, FaultRule { behind: 2, count: Some(1), ..rule(FaultKind::Reorder) });
    let packet = line.packet(60);
    line.send(900_000, packet);
    assert!(line.engine.is_holding(0));
    line.engine.handle_timeout(1_900_000 - 1);
    line.engine.set_rules(1_900_000 - 1, 0, vec![]);
    assert!(line.engine.is_holding(0), "it stays held when the rule is gone");
    line.engine.handle_timeout(u64::MAX);
    assert_eq!(delivered(&mut line), [(1_900_000 + 1088, 88)]);
    assert!(!line.engine.is_holding(0));
}

#[test]
fn loop_of_switches_ends_and_every_packet_is_accounted_for() {
    let mut line = Line::with(2, &FAST, None);
    let back = engine::switch::LinearTable { entries: [0, 1, 1].into(), groups: vec![] };
    line.engine.set_tables(0, 1, back, Default::default());
    let packet = line.packet(60);
    line.send(0, packet);
    line.engine.handle_timeout(u64::MAX);
    let counted = line.engine.take_counted();
    let no_route = counted.iter().filter_map(|counted| match counted {
        Counted::Switch { counted, .. } => Some(counted.element.drops[Drop::SwNoRoute as usize]),
        _ => None,
    });
    assert_eq!(no_route.sum::<u64>(), 1);
    for counted in counted {
        if let Counted::Direction { counted, .. } = counted {
            assert_eq!(counted.in_flight, 0);
            assert_eq!(counted.element.in_packets, counted.element.out_packets);
        }
    }
}

#[test]
fn packets_allocate_nothing_once_there_are_buffers_for_them() {
    for (flow, has_fault) in [(None, false), (Some(one_lane()), false), (None, true)] {
        let mut line = Line::with(3, &FAST, flow.as_ref());
        if has_fault {
            set_rule(&mut line, rule(FaultKind::Delay));
        }
        let packet = line.packet(1024);
        let mut round = |now: u64| {
            for _ in 0..5 {
                let packet = line.engine.packets().copy(&packet);
                line.send(now, packet);
            }
            line.engine.handle_timeout(now + 1_000_000);
            let mut taken = 0;
            while let Some(output) = line.engine.poll_output() {
                if let Output::Delivered { token, burst: Burst { packet, .. }, .. } = output {
                    taken += 1;
                    line.engine.packets().recycle(packet);
                    assert!(token.is_none_or(|token| line.engine.release(now + 1_000_000, token)));
                }
            }
            assert_eq!(taken, 5);
        };
        for number in 0..8 {
            round(number * 2_000_000);
        }
        let before = allocations::count();
        for number in 8..100 {
            round(number * 2_000_000);
        }
        assert_eq!(allocations::count(), before);
    }
}

#[test]
fn packets_that_are_dropped_give_their_buffers_back() {
    let mut line = Line::with(1, &LinkConfig { queue_bytes: 0, ..STEADY }, None);
    let packet = line.packet(1024);
    let mut round = |now: u64| {
        line.engine.set_link(now, 0, &LinkConfig { queue_bytes: 0, ..STEADY });
        for _ in 0..3 {
            let packet = line.engine.packets().copy(&packet);
            line.send(now, packet); // one is on the wire, two are link_overflow
        }
        line.engine.set_link(now + 1, 0, &LinkConfig { up: false, ..STEADY });
        let packet = line.engine.packets().copy(&packet);
        line.send(now + 1, packet);
    };
    (0..4).for_each(|number| round(number * 10));
    let before = allocations::count();
    (4..100).for_each(|number| round(number * 10));
    // a wire that is cut takes memory anew: a queue for the next packet
    assert!(allocations::count() - before <= 96);
}

#[test]
fn packet_without_an_icrc_is_not_checked_but_damage_to_it_is_found() {
    let mut line = Line::with(1, &FAST, None);
    let mut packet = line.packet(100);
    let icrc = packet.len() - 4..packet.len() - 1;
    let mut packets = engine::packet::Packets::default();
    packets.change(&mut packet, |mut own| {
        own.bytes[icrc].fill(0);
        own.set_sealed(false);
    });
    line.send(0, packet.clone());
    line.engine.handle_timeout(1_000_000);
    let received = outputs(&mut line);
    assert!(
        matches!(&received[..], [Output::Delivered { burst: Burst { packet: found, .. }, .. }] if *found == packet)
    );
    set_rule(&mut line, FaultRule { bits: 3, ..rule(FaultKind::Corrupt) });
    line.send(1_000_000, packet.clone());
    line.engine.handle_timeout(2_000_000);
    assert_eq!(outputs(&mut line), []);
    let refused = line.engine.take_counted().into_iter().find_map(|counted| match counted {
        Counted::Port { port: RECEIVER, counted } => Some(counted.1.element.drops[Drop::RxIcrc as usize]),
        _ => None,
    });
    assert_eq!(refused, Some(1));
    assert!(!packet.is_sealed(), "the sender's own has not changed");
}

#[test]
fn captured_packet_needs_no_memory_and_no_call_of_its_own() {
    let deadline = |captured: bool| {
        let mut line = Line::new(1);
        if captured {
            capture(&mut line);
        }
        let packet = line.packet(1024);
        line.send(0, packet);
        line.engine.deadline()
    };
    assert_eq!(deadline(true), deadline(false));

    let mut line = Line::new(1);
    let ring = capture(&mut line);
    let packet = line.packet(1024);
    let mut taken = 0;
    let mut round = |now: u64| {
        for _ in 0..20 {
            line.send(now, packet.clone());
        }
        line.engine.handle_timeout(now + 1_000_000);
        while line.engine.poll_output().is_some() {}
        taken += ring.take(now.is_multiple_of(3), <[u8]>::len).unwrap_or(0);
    };
    for number in 0..8 {
        round(number * 2_000_000);
    }
    let before = allocations::count();
    for number in 8..100 {
        round(number * 2_000_000);
    }
    assert_eq!(allocations::count(), before);
    while let Some(more) = ring.take(true, <[u8]>::len) {
        taken += more;
    }
    assert_eq!(taken as u64, ring.totals().0 * (32 + 128));
    assert_eq!(ring.totals().0 + ring.totals().1, 100 * 20 * 2);
}

#[test]
fn ring_that_is_detached_gets_no_more_packets() {
    let mut line = Line::new(1);
    let ring = capture(&mut line);
    let packet = line.packet(60);
    line.send(0, packet.clone());
    line.engine.handle_timeout(1_000_000);
    assert_eq!(ring.totals(), (2, 0));
    for direction in 0..4 {
        line.engine.detach(1_000_000, direction, &ring);
    }
    line.send(1_000_000, packet);
    line.engine.handle_timeout(2_000_000);
    assert_eq!(ring.totals(), (2, 0));
}

fn capture(line: &mut Line) -> Arc<CaptureRing> {
    let ring = Arc::new(CaptureRing::new(CaptureConfig {
        interfaces: 4,
        fits: Match::default(),
        snap: 128,
        limit: None,
        epoch_ns: 0,
        segments: 3,
        segment_bytes: 4096,
    }));
    for direction in 0..4 {
        line.engine.attach(0, direction, Arc::clone(&ring), direction);
    }
    ring
}

#[test]
fn pool_bounds_what_a_long_wire_holds() {
    let long = LinkConfig { latency_ns: 3_600_000_000_000, rate_bps: 1 << 62, ..FAST };
    let mut line = Line::with(0, &long, None);
    let packet: Packet = line.packet(16_000);
    let most = (256 << 20) / packet.len() as u64;
    for _ in 0..most + 10 {
        line.send(0, packet.clone());
    }
    assert_eq!(drops(&mut line, 0, Drop::LinkOverflow), 10);
}

#[test]
fn outputs_are_in_the_order_of_time_also_where_a_switch_receives() {
    let mut engine = Engine::default();
    star(&mut engine, 3, &FAST, None);
    let port0 = engine.add_port0(0);
    let config = PortConfig::new(PortState::Active, 9, 0, vec![star::PKEY], vec![star::PKEY], vec![]);
    engine.set_port(0, port0, config);
    let for_switch = Address { slid: 3, dlid: 9, pkey: star::PKEY };
    for (now, from, address) in [(0, 0, address(0, 1)), (400, 2, for_switch), (401, 0, address(0, 1))] {
        let packet = packet(engine.packets(), address, 100, now);
        assert_eq!(engine.inject(now, from, packet, address), None);
    }
    engine.handle_timeout(10_000);
    let outputs = std::iter::from_fn(|| engine.poll_output()).map(|output| match output {
        Output::Delivered { time, port, .. } => (time, port),
        other => panic!("{other:?}"),
    });
    let outputs: Vec<_> = outputs.collect();
    assert!(outputs.is_sorted(), "{outputs:?}");
    assert_eq!(outputs.iter().map(|(_, port)| *port).collect::<Vec<_>>(), [1, port0, 1]);
}
