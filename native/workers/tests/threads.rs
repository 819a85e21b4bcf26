//! Engines on threads of their own, each at its own pace, while links flap and faults hit: every packet is accounted for.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};

use engine::api::Engine;
use engine::burst::Burst;
use engine::counters::Drop;
use engine::link::config::LinkConfig;
use engine::link::rule::{FaultKind, FaultRule, Tally};
use engine::outputs::{Output, PortId};
use engine::packet::{dlid, slid};
use engine::port::Address;
use engine::random::Stream;
use engine::testing::line::FAST;
use engine::testing::ring::{PORTS, RING, SWITCHES, ring};
use engine::testing::several::totals;
use engine::testing::star::{GROUP, address, mark, packet};
use workers::crossing::Crossing;
use workers::team;

const WORKERS: u32 = 3;
const STEPS: u64 = 400;
/// More than any packet crosses from worker to worker.
const ROUNDS: u32 = 3 * SWITCHES;
const CUT: u64 = 50;

fn rule(tally: u32, kind: FaultKind, count: Option<u64>) -> FaultRule {
    FaultRule {
        count,
        delay_ns: 1_700,
        bits: 2,
        behind: 3,
        hold_ns: 40_000,
        ..FaultRule::plain(tally.into(), kind, (1 << 53) / 20, tally)
    }
}

/// Packets in, delivered (with the copies of multicast), and whether each flow was in order.
fn carry(worker: u32, crossing: &Crossing, barrier: &Barrier, tallies: &[Arc<Tally>]) -> (Engine, u64, u64) {
    let mut engine = Engine::of_worker(worker, WORKERS);
    let short = LinkConfig { queue_bytes: 40_000, ..FAST };
    ring(&mut engine, &short, false, true);
    for (number, tally) in tallies.iter().enumerate() {
        engine.set_tally(number as u32, Arc::clone(tally));
    }
    for direction in 0..engine.directions() as u32 {
        let kinds =
            [(FaultKind::Loss, Some(CUT)), (FaultKind::Duplicate, Some(CUT)), (FaultKind::Corrupt, None)];
        let rules =
            kinds.into_iter().enumerate().map(|(number, (kind, count))| rule(number as u32, kind, count));
        engine.set_rules(0, direction, rules.collect());
    }
    let mut random = Stream::new(worker.into());
    let ports: Vec<PortId> = (0..PORTS).filter(|port| engine.owner(*port) == worker).collect();
    let mut list = Vec::new();
    let (mut sent, mut delivered) = (0, 0);
    let mut latest: HashMap<(u32, u32, PortId), u64> = HashMap::new();
    barrier.wait();
    for step in 0..STEPS + u64::from(ROUNDS) {
        let is_last = step >= STEPS;
        let now = if is_last { u64::MAX } else { step * 2000 };
        if is_last {
            barrier.wait(); // all have sent, and sent on, what they had
        }
        crossing.receive(worker, &mut engine, &mut list);
        engine.handle_timeout(now);
        if !is_last {
            for from in ports.iter().copied() {
                let to = (random.word() % u64::from(PORTS)) as u32;
                let is_multicast = random.word().is_multiple_of(10);
                let address = if is_multicast {
                    Address { dlid: GROUP, ..address(from, to) }
                } else {
                    address(from, to)
                };
                let packet = packet(engine.packets(), address, 60 + (random.word() % 1400) as usize, step);
                sent += u64::from(engine.inject(now, from, packet, address).is_none());
            }
            let link = LinkConfig { up: step % 7 != 0, ..short };
            engine.set_link(now, RING + (step as u32 / 7 % SWITCHES) * 2, &link);
        }
        crossing.send(worker, &mut engine, |_| ());
        while let Some(output) = engine.poll_output() {
            let Output::Delivered { port, burst: Burst { packet, .. }, .. } = output else { continue };
            delivered += 1;
            let before = latest.entry((slid(&packet), dlid(&packet), port)).or_default();
            assert!(*before <= mark(&packet), "flows are in order; duplicates follow each other");
            *before = mark(&packet);
            engine.packets().recycle(packet);
        }
    }
    (engine, sent, delivered)
}

#[test]
fn every_packet_is_delivered_or_counted_in_one_drop_counter() {
    let (crossing, barrier) = (Crossing::new(WORKERS), Barrier::new(WORKERS as usize));
    let tallies: Vec<Arc<Tally>> = (0..3).map(|_| Arc::default()).collect();
    let (crossing, barrier, tallies) = (&crossing, &barrier, &tallies[..]);
    let jobs =
        (0..WORKERS).map(|worker| move |_: &team::Stop| carry(worker, crossing, barrier, tallies)).collect();
    let carried = team::run(jobs).unwrap();
    let (mut engines, mut sent, mut delivered) = (Vec::new(), 0, 0);
    for (engine, from, to) in carried {
        engines.push(engine);
        sent += from;
        delivered += to;
    }
    assert!(sent > u64::from(PORTS) * STEPS / 2);
    let (mut dropped, mut copies) = (0, 0);
    let mut by_reason = [0; 64];
    for (name, (numbers, in_flight)) in totals(&mut engines) {
        if name.starts_with('t') {
            continue;
        }
        let lost: u64 = numbers[5..].iter().sum();
        let waiting = in_flight.unsigned_abs();
        assert_eq!(numbers[0] + numbers[2], numbers[3] + lost + waiting, "{name}");
        assert!(in_flight == 0 || name.ends_with("rx"), "{name}");
        dropped += lost;
        copies += numbers[2];
        by_reason.iter_mut().zip(&numbers[5..]).for_each(|(sum, number)| *sum += number);
    }
    assert_eq!(sent + copies, delivered + dropped);
    for reason in [Drop::LinkDown, Drop::LinkFault, Drop::RxIcrc, Drop::SwNoRoute] {
        assert!(by_reason[reason as usize] > 0, "{reason:?}");
    }
    assert_eq!((tallies[0].hits(), tallies[1].hits()), (CUT, CUT));
    assert_eq!(by_reason[Drop::LinkFault as usize], CUT);
}
