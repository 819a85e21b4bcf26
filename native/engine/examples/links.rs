//! What a packet costs over links that do more than a wire, without a kernel: 64 KiB of TCP from host to host.
//!
//! Arguments, for profilers: the one case to measure, how many rounds.

use std::sync::Arc;
use std::time::Instant;

use engine::api::Engine;
use engine::counters::Drop;
use engine::link::capture::{CaptureConfig, CaptureRing};
use engine::link::config::LinkConfig;
use engine::link::rule::{FaultKind, Match};
use engine::testing::line::{FAST, one_lane};
use engine::testing::{ALWAYS, TwoHosts, dropped};
use engine::vnics::Host;
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;

const ROUNDS: usize = 2000;
const PACKETS: usize = 45;
/// More than anything takes.
const LONG_NS: u64 = 1_000_000_000;

struct Sink;

impl Host for Sink {
    fn write(&mut self, _: usize, parts: &[&[u8]]) -> bool {
        std::hint::black_box(parts).len() > 1
    }
}

/// Hand out what has arrived.
fn take_all(bed: &mut TwoHosts) {
    while let Some(output) = bed.engine.poll_output() {
        bed.vnics.take(&mut bed.engine, output);
    }
}

fn capture() -> Arc<CaptureRing> {
    Arc::new(CaptureRing::new(CaptureConfig {
        interfaces: 1,
        fits: Match::default(),
        snap: 128,
        limit: None,
        epoch_ns: 0,
        segments: 4,
        segment_bytes: 1 << 20,
    }))
}

/// Let both links be so.
fn links(bed: &mut TwoHosts, config: &LinkConfig) {
    (0..4).for_each(|direction| bed.engine.set_link(0, direction, config));
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let rounds = args.get(1).map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let (header, frame): (VnetHeader, Vec<u8>) =
        LargeSend { ipv6: false, tcp: true, tags: 0, payload: 64_000, size: 1448 }.build();
    for case in ["plain", "rate", "latency", "jitter", "credits", "loss", "capture"] {
        if args.first().is_some_and(|only| only != case) {
            continue;
        }
        let flow = one_lane();
        let mut bed = TwoHosts::with(Engine::default(), true, (case == "credits").then_some(&flow));
        let ring = capture();
        match case {
            "rate" => links(&mut bed, &LinkConfig { rate_bps: 10_000_000_000, ..FAST }),
            "latency" => links(&mut bed, &LinkConfig { latency_ns: 200_000, ..FAST }),
            "jitter" => links(&mut bed, &LinkConfig { jitter_ns: 200_000, ..FAST }),
            "loss" => bed.disturb(0, &[(FaultKind::Loss, ALWAYS / 10_000)]),
            "capture" => bed.engine.attach(0, 0, Arc::clone(&ring), 0),
            _ => {}
        }
        let mut buffer = vec![0; frame.len()];
        let mut figures: Vec<_> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                buffer.copy_from_slice(&frame);
                let place = (&mut buffer[..], frame.len());
                bed.vnics.transmit(&mut bed.engine, bed.now, 0, &header, place, None);
                bed.now += LONG_NS;
                while bed.engine.handle_until_lent(bed.now) {
                    take_all(&mut bed);
                }
                take_all(&mut bed);
                bed.vnics.flush(&mut bed.engine, &mut Sink);
                let took = start.elapsed().as_nanos() as f64 / PACKETS as f64;
                while ring.take(true, |bytes| bytes.len()).is_some() {}
                took
            })
            .collect();
        let counted = bed.engine.take_counted();
        assert_eq!(dropped(&counted, Drop::LinkOverflow), 0);
        figures.sort_by(f64::total_cmp);
        println!("{case}: {:.1} ns at least, {:.1} ns median", figures[0], figures[rounds / 2]);
    }
}
