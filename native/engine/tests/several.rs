//! Several workers carry a fabric as one does: the same packets, at the same times, each counted once.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::api::Engine;
use engine::burst::Burst;
use engine::counters::Drop;
use engine::link::config::LinkConfig;
use engine::link::rule::{FaultKind, FaultRule};
use engine::outputs::Output;
use engine::packet::Packets;
use engine::port::Address;
use engine::random::Stream;
use engine::share::{HANDOVER_BYTES, Handover, Share};
use engine::testing::dropped as lost;
use engine::testing::line::{FAST, one_lane};
use engine::testing::ring::{PORTS, RING, SWITCHES, port0s, ring};
use engine::testing::several::Several;
use engine::testing::star::{GROUP, address, burst, mark, packet, star};

fn rule(number: usize, kind: FaultKind, chance: u64, count: Option<u64>) -> FaultRule {
    FaultRule {
        skip: if count.is_some() { 3 } else { 0 },
        count,
        delay_ns: 1_700,
        bits: 2,
        copies: 2,
        behind: 3,
        hold_ns: 40_003,
        ..FaultRule::plain(number as u64, kind, (1 << 53) / 100 * chance, number as u32)
    }
}

/// What is asked of several workers: everything that happened, in an order that does not depend on who did it.
struct Happened {
    outputs: Vec<String>,
    totals: BTreeMap<String, (Vec<u64>, i64)>,
}

struct Run {
    several: Several,
    random: Stream,
    packets: Packets,
    /// How many ports send and receive.
    ports: u64,
    now: u64,
    sent: u64,
    /// How many outputs hosts have seen.
    seen: usize,
}

impl Run {
    fn new(workers: u32, build: impl Fn(&mut Engine)) -> Self {
        let several = Several::new(workers, build);
        let ports = several.engines[0].ports() as u64;
        Run { several, random: Stream::new(5), packets: Packets::default(), ports, now: 0, sent: 0, seen: 0 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.word() % limit
    }

    /// Send packets of many sizes from anywhere to anywhere, one in ten to all.
    fn send(&mut self, packets: u64, apart_ns: u64) {
        for _ in 0..packets {
            self.now += 1 + self.below(apart_ns * 2);
            let (from, to) = (self.below(self.ports) as u32, self.below(self.ports) as u32);
            let mut address = address(from, to);
            if self.below(10) == 0 {
                address = Address { dlid: GROUP, ..address };
            }
            let frame = 60 + self.below(1441) as usize;
            let packet = packet(&mut self.packets, address, frame, self.sent);
            self.sent += 1;
            assert_eq!(self.several.inject(self.now, from, packet, address), None);
            self.let_hosts_take();
        }
    }

    fn at(&mut self, change: impl Fn(&mut Engine, u64)) {
        let now = self.now;
        self.several.advance(now);
        self.several.each(|engine| change(engine, now));
    }

    /// Release the room of what was delivered; return whether there was any.
    fn let_hosts_take(&mut self) -> bool {
        let mut tokens = Vec::new();
        for output in &self.several.outputs[self.seen..] {
            if let Output::Delivered { time, port, token: Some(token), .. } = output {
                self.now = self.now.max(*time);
                tokens.push((*port, *token));
            }
        }
        self.seen = self.several.outputs.len();
        for (port, token) in &tokens {
            let owner = self.several.engines[0].owner(*port);
            assert!(self.several.engines[owner as usize].release(self.now, *token));
        }
        !tokens.is_empty()
    }

    fn happened(&mut self) -> Happened {
        self.several.advance(u64::MAX);
        while self.let_hosts_take() {
            self.several.advance(u64::MAX);
        }
        let mut outputs: Vec<String> = self.several.outputs.drain(..).map(told).collect();
        outputs.sort();
        Happened { outputs, totals: self.several.totals() }
    }
}

fn told(output: Output) -> String {
    match output {
        Output::Delivered { time, port, burst, token, in_port } => {
            format!("{time:>12} delivered to port {port}: {} {token:?} by {in_port}", mark(&burst.packet))
        }
        Output::Observed { time, packet, drop, .. } => {
            format!("{time:>12} observed: {} {drop:?}", mark(&packet))
        }
        other => format!("{other:?}"),
    }
}

/// Run the same on one worker and on several.
fn assert_same(build: impl Fn(&mut Engine), happen: impl Fn(&mut Run)) -> Happened {
    let run = |workers| {
        let mut run = Run::new(workers, &build);
        happen(&mut run);
        (run.happened(), run.several.handed)
    };
    let (alone, _) = run(1);
    assert!(alone.outputs.len() > 100, "{} outputs", alone.outputs.len());
    for (name, (_, in_flight)) in &alone.totals {
        assert_eq!(*in_flight, if name.ends_with("rx") { delivered(&alone, name) } else { 0 }, "{name}");
    }
    for workers in [2, 3, 5] {
        let (several, handed) = run(workers);
        for (output, same) in several.outputs.iter().zip(&alone.outputs) {
            assert_eq!(output, same, "{workers} workers");
        }
        assert_eq!(several.totals, alone.totals, "{workers} workers");
        assert_eq!(several.outputs.len(), alone.outputs.len(), "{workers} workers");
        assert!(handed > 100, "{handed} packets handed over by {workers} workers");
    }
    alone
}

/// How many packets ended for this reason, anywhere.
fn dropped(happened: &Happened, reason: Drop) -> u64 {
    let elements = happened.totals.iter().filter(|(name, _)| !name.starts_with(['t', 'c']));
    elements.map(|(_, (numbers, _))| numbers[5 + reason as usize]).sum()
}

/// Packets that were passed to the host of a port, which has not said what became of them.
fn delivered(happened: &Happened, name: &str) -> i64 {
    let port = format!("to {}:", name.trim_end_matches(" rx"));
    happened.outputs.iter().filter(|output| output.contains(&port)).count() as i64
}

const UNEVEN: LinkConfig = LinkConfig { rate_bps: 9_973_000_000, latency_ns: 1_013, jitter_ns: 977, ..FAST };

#[test]
fn packets_arrive_as_with_one_worker() {
    let happened = assert_same(|engine| ring(engine, &UNEVEN, false, false), |run| run.send(2000, 500));
    assert!(happened.outputs.len() > 2000, "multicast included");
}

#[test]
fn queues_overflow_as_with_one_worker() {
    let short = LinkConfig { queue_bytes: 5_000, rate_bps: 99_730_000, ..UNEVEN };
    let happened = assert_same(|engine| ring(engine, &short, false, false), |run| run.send(3000, 6_000));
    assert!(dropped(&happened, Drop::LinkOverflow) > 100);
}

#[test]
fn loops_end_as_with_one_worker() {
    let happened = assert_same(|engine| ring(engine, &UNEVEN, false, true), |run| run.send(1000, 700));
    assert!(dropped(&happened, Drop::SwNoRoute) > 10);
}

#[test]
fn faults_hit_as_with_one_worker_and_no_more_than_they_are_to() {
    let kinds = [
        (FaultKind::Loss, 10, Some(40)),
        (FaultKind::Corrupt, 10, None),
        (FaultKind::Duplicate, 10, Some(30)),
        (FaultKind::Delay, 20, None),
        (FaultKind::Reorder, 5, Some(25)),
    ];
    let tallies = || kinds.map(|_| Arc::default());
    let shared = std::sync::Mutex::new(tallies());
    assert_same(
        |engine| ring(engine, &UNEVEN, false, false),
        |run| {
            *shared.lock().unwrap() = tallies();
            run.send(200, 500);
            run.at(|engine, now| {
                for (number, tally) in shared.lock().unwrap().iter().enumerate() {
                    engine.set_tally(number as u32, Arc::clone(tally));
                }
                for direction in 0..engine.directions() as u32 {
                    // copies enter links at one instant: which comes first is up to the workers, so it must not matter
                    let is_first = direction < RING && direction % 2 == 0;
                    let rules =
                        kinds.iter().enumerate().filter(|(_, (.., count))| count.is_none() || is_first);
                    let rules =
                        rules.map(|(tally, (kind, chance, count))| rule(tally, *kind, *chance, *count));
                    engine.set_rules(now, direction, rules.collect());
                }
                engine.observe(now, RING + 1, true);
            });
            run.send(2000, 500);
        },
    );
    let hits: Vec<u64> = shared.lock().unwrap().iter().map(|tally| tally.hits()).collect();
    assert_eq!((hits[0], hits[2], hits[4]), (40, 30, 25));
}

#[test]
fn links_and_switches_that_go_down_lose_the_same_as_with_one_worker() {
    let happened = assert_same(
        |engine| ring(engine, &UNEVEN, false, false),
        |run| {
            for round in 0..40 {
                run.send(50, 300);
                let link = LinkConfig { up: round % 3 != 0, rate_bps: 5_000_000_000 + round * 977, ..UNEVEN };
                run.at(|engine, now| {
                    engine.set_link(now, (round as u32 * 3) % (RING + 2 * SWITCHES), &link);
                    engine.set_switch(now, round as u32 % SWITCHES, round % 4 != 1);
                    engine.stall_port(now, 3, round % 5 == 0);
                });
            }
        },
    );
    assert!(dropped(&happened, Drop::LinkDown) > 10 && dropped(&happened, Drop::SwDown) > 10);
}

#[test]
fn links_with_credits_are_one_workers_and_lose_nothing() {
    let happened = assert_same(|engine| ring(engine, &UNEVEN, true, false), |run| run.send(2000, 500));
    assert_eq!(dropped(&happened, Drop::LinkOverflow), 0);
    let engines = Several::new(3, |engine| star(engine, 6, &FAST, Some(&one_lane()))).engines;
    assert!((0..6).all(|port| engines[2].owner(port) == 0));
}

#[test]
fn switches_themselves_send_and_receive_as_with_one_worker() {
    for trunk_credits in [false, true] {
        let build = |engine: &mut Engine| {
            ring(engine, &UNEVEN, trunk_credits, false);
            port0s(engine);
        };
        let happened = assert_same(build, |run| {
            run.send(1000, 500);
            run.at(|engine, now| engine.stall_port(now, PORTS, true));
            run.send(200, 500);
            run.at(|engine, now| engine.stall_port(now, PORTS, false));
            run.send(1000, 500);
        });
        let received = |port: u32| delivered(&happened, &format!("port {port} rx"));
        assert!((PORTS..PORTS + SWITCHES).all(|port| received(port) > 100));
    }
}

#[test]
fn what_finds_no_room_on_its_way_to_another_worker_is_a_link_overflow_once() {
    let mut engine = Engine::of_worker(0, 2);
    star(&mut engine, 2, &FAST, None);
    let (mut kept, mut dropped) = (0, 0);
    for sent in 0..16_000u64 {
        let address = address(0, 1);
        let packet = packet(engine.packets(), address, 1400, sent);
        assert_eq!(engine.inject(sent * 1000, 0, packet, address), None);
    }
    engine.handle_timeout(u64::MAX);
    let limit = HANDOVER_BYTES / 2;
    assert!((limit - 2000..=limit).contains(&engine.outbox(1).bytes));
    let packets = engine.outbox(1).take();
    kept += packets.len() as u64;
    let mut marks = packets.iter().map(|handover| mark(&handover.burst.packet));
    assert!((0..kept).all(|sent| marks.next() == Some(sent)), "the first ones, in order");
    let mut several = Several { engines: vec![engine], outputs: vec![], handed: 0, handed_packets: 0 };
    for (name, (numbers, in_flight)) in several.totals() {
        assert_eq!(in_flight, 0);
        if name == "direction 3" {
            dropped = numbers[5 + Drop::LinkOverflow as usize];
            assert_eq!(numbers[0], dropped, "the other worker counts the others");
        }
    }
    assert_eq!(kept + dropped, 16_000);
    assert!(several.outputs.is_empty());
}

#[test]
fn what_was_not_handed_over_leaves_the_memory_of_the_links() {
    let mut engine = Engine::with_share(Share::new(0, 2));
    let config = LinkConfig { rate_bps: 8_000_000_000, queue_bytes: u64::MAX, ..FAST };
    star(&mut engine, 2, &config, None);
    let send = |engine: &mut Engine, to: u32, packets: usize| {
        let address = address(0, to);
        let packet = packet(engine.packets(), address, 8167, 0);
        assert_eq!(packet.len(), 8192);
        (0..packets).for_each(|_| assert_eq!(engine.inject(0, 0, packet.clone(), address), None));
    };
    let of_share = |bytes: usize| bytes / 2 / 8192; // of one of two workers
    send(&mut engine, 1, of_share(HANDOVER_BYTES) + 100);
    engine.handle_timeout(1 << 40);
    assert!(lost(&engine.take_counted(), Drop::LinkOverflow) >= 100);
    for (packets, overflows) in [(of_share(256 << 20), 0), (2, 2)] {
        send(&mut engine, 0, packets);
        assert_eq!(lost(&engine.take_counted(), Drop::LinkOverflow), overflows);
    }
}

#[test]
fn flow_keeps_its_order_however_late_its_packets_are_handed_over() {
    // the second worker is ahead, then far behind: neither is seen within a flow
    let mut engines = [0, 1].map(|worker| Engine::of_worker(worker, 2));
    engines.iter_mut().for_each(|engine| star(engine, 2, &UNEVEN, None));
    let [first, second] = &mut engines;
    let mut marks = Vec::new();
    for round in 0..50u64 {
        for number in 0..20 {
            let address = address(0, 1);
            let packet =
                packet(first.packets(), address, 60 + (number * 331 % 1400) as usize, round * 20 + number);
            first.inject(round * 10_000 + number * 13, 0, packet, address);
        }
        let now = round * 10_000 + if round % 2 == 0 { 30_000 } else { 0 };
        second.handle_timeout(now);
        first.handle_timeout(round * 10_000 + 9_000);
        first.outbox(1).take().into_iter().for_each(|handover| second.take_in(0, handover));
    }
    first.handle_timeout(u64::MAX);
    first.outbox(1).take().into_iter().for_each(|handover| second.take_in(0, handover));
    second.handle_timeout(u64::MAX);
    let mut latest = 0;
    while let Some(output) = second.poll_output() {
        let Output::Delivered { time, burst: Burst { packet, .. }, .. } = output else {
            panic!("{output:?}")
        };
        marks.push(mark(&packet));
        assert!(time >= latest);
        latest = time;
    }
    assert_eq!(marks, (0..1000).collect::<Vec<_>>());
}

/// Send bursts in steps, each port to its neighbour, which another worker may have; let something happen in between.
#[test]
fn packet_handed_over_late_enters_behind_the_one_before_as_if_it_came_now() {
    let mut engine = Engine::with_share(Share::new(0, 3));
    let len = 88;
    let config = LinkConfig { rate_bps: 8_000_000_000, queue_bytes: 2 * len, ..FAST };
    star(&mut engine, 3, &config, None);
    let to_here = 1; // from the switch to port 0
    for (from, time) in [(1, 10_000), (2, 500)] {
        let packet = packet(engine.packets(), address(from, 0), 60, 0);
        assert_eq!(packet.len() as u64, len);
        let handover = Handover { direction: to_here, burst: Burst::of(packet, 1), time, later: [].into() };
        engine.take_in(from, handover);
        engine.handle_timeout(10_000);
    }
    engine.handle_timeout(20_000);
    let times: Vec<_> = std::iter::from_fn(|| engine.poll_output())
        .filter_map(|output| match output {
            Output::Delivered { time, .. } => Some(time),
            _ => None,
        })
        .collect();
    assert_eq!(times, [10_000 + len + 300, 10_000 + 2 * len + 300]);
}

fn send_bursts(
    (workers, ports): (u32, u32),
    frame: usize,
    config: &LinkConfig,
    disturb: impl Fn(&mut Engine, u64, u64),
) -> (Happened, Several) {
    const STEP: u64 = 4_000;
    let mut several = Several::new(workers, |engine| star(engine, ports, config, None));
    let (mut stream, mut packets, mut marks) = (Stream::new(3), Packets::default(), 0);
    let tally = Arc::default();
    several.each(|engine| engine.set_tally(0, Arc::clone(&tally)));
    let take_bursts = |several: &mut Several, takes| {
        several.each(|engine| (0..ports).for_each(|port| engine.take_bursts(port, takes)));
    };
    for step in 0..150 {
        let now = step * STEP;
        several.advance_by(STEP, now);
        several.each(|engine| disturb(engine, step, now));
        for from in 0..ports {
            let count = stream.word() % 30;
            let address = address(from, from ^ 1);
            let owner = several.engines[0].owner(from) as usize;
            if count > 1 && workers > 1 {
                take_bursts(&mut several, true);
                let engine = &mut several.engines[owner];
                let packet = burst(&mut packets, address, frame, marks..marks + count);
                let may =
                    engine.may_inject_together(now, from, address, &packet, packet.len(), count as usize);
                if may {
                    assert_eq!(engine.inject(now, from, packet, address), None);
                    marks += count;
                }
                take_bursts(&mut several, false); // so that each output says when it was
                if may {
                    continue;
                }
            }
            for _ in 0..count {
                let packet = packet(&mut packets, address, frame, marks);
                assert_eq!(several.engines[owner].inject(now, from, packet, address), None);
                marks += 1;
            }
        }
        several.exchange();
    }
    several.advance_by(STEP, u64::MAX / 2);
    let mut outputs: Vec<String> = several.outputs.drain(..).map(told).collect();
    outputs.sort();
    (Happened { outputs, totals: several.totals() }, several)
}

const FAR: LinkConfig = LinkConfig { latency_ns: 10_000, ..FAST };

#[test]
fn bursts_are_handed_over_whole_and_each_packet_is_on_time() {
    let short = LinkConfig { queue_bytes: 40_000, ..FAR };
    for (config, frame) in [(FAR, 1448), (FAR, 61), (short, 1448)] {
        let (alone, _) = send_bursts((1, 2), frame, &config, |_, _, _| ());
        let (two, several) = send_bursts((2, 2), frame, &config, |_, _, _| ());
        assert!(alone.outputs.len() > 1500);
        for (output, same) in two.outputs.iter().zip(&alone.outputs) {
            assert_eq!(output, same);
        }
        assert_eq!(two.totals, alone.totals);
        let most = if config == FAR { several.handed_packets / 5 } else { several.handed_packets };
        assert!(several.handed <= most, "{} for {}", several.handed, several.handed_packets);
    }
}

#[test]
fn burst_that_another_worker_may_not_keep_whole_stands_for_its_packets() {
    let disturb = |engine: &mut Engine, step: u64, now: u64| {
        let direction = step as u32 % 8;
        match step % 7 {
            0 => engine.set_rules(now, direction, vec![rule(0, FaultKind::Delay, 100, None)]),
            1 => (0..8).for_each(|direction| engine.set_rules(now, direction, vec![])),
            2 => engine.set_link(now, direction, &LinkConfig { up: false, ..FAR }),
            3 => (0..8).for_each(|direction| engine.set_link(now, direction, &FAR)),
            4 => engine.set_link(now, direction, &LinkConfig { rate_bps: 7_000_000_000, ..FAR }),
            5 => engine.set_switch(now, 0, !step.is_multiple_of(2)),
            _ => engine.set_switch(now, 0, true),
        }
    };
    let (alone, _) = send_bursts((1, 4), 1448, &FAR, disturb);
    let (two, several) = send_bursts((2, 4), 1448, &FAR, disturb);
    assert!(dropped(&alone, Drop::LinkDown) > 100 && dropped(&alone, Drop::SwDown) > 100);
    for (output, same) in two.outputs.iter().zip(&alone.outputs) {
        assert_eq!(output, same);
    }
    assert_eq!(two.totals, alone.totals);
    assert!(several.handed < several.handed_packets);
}

#[test]
fn burst_that_finds_no_room_on_its_way_to_another_worker_ends_once() {
    let mut engine = Engine::of_worker(0, 2);
    star(&mut engine, 2, &FAST, None);
    engine.take_bursts(1, true);
    let mut sent = 0;
    for now in (0..).map(|step| step * 10_000).take(1_000) {
        let (address, count) = (address(0, 1), 40);
        let packet = burst(engine.packets(), address, 1400, sent..sent + count);
        assert!(engine.may_inject_together(now, 0, address, &packet, packet.len(), count as usize));
        assert_eq!(engine.inject(now, 0, packet, address), None);
        sent += count;
    }
    engine.handle_timeout(u64::MAX);
    let limit = HANDOVER_BYTES / 2;
    assert!((limit - 2000..=limit).contains(&engine.outbox(1).bytes));
    let kept: usize = engine.outbox(1).take().iter().map(|handover| handover.burst.count() as usize).sum();
    let mut several = Several { engines: vec![engine], outputs: vec![], handed: 0, handed_packets: 0 };
    let (numbers, in_flight) = &several.totals()["direction 3"];
    assert_eq!(*in_flight, 0);
    assert_eq!(kept as u64 + numbers[5 + Drop::LinkOverflow as usize], sent);
}
