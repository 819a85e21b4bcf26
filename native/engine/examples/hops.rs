//! Packets per second through the engine, ends included: packets of 1 KiB over 1, 3 and 5 switches in a row; plain, and
//! with 128 bytes of each captured on every link.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::link::capture::{CaptureConfig, CaptureRing};
use engine::link::rule::Match;
use engine::testing::line::{Line, PAYLOAD};

const BATCH: u64 = 500;
const MEASURE: Duration = Duration::from_secs(1);

fn main() {
    for hops in [1, 3, 5] {
        let (plain, _) = run(hops, None);
        let ring = Arc::new(CaptureRing::new(CaptureConfig {
            interfaces: 2 * hops + 2,
            fits: Match::default(),
            snap: 128,
            limit: None,
            epoch_ns: 0,
            segments: 16,
            segment_bytes: 1 << 20,
        }));
        let (captured, bytes) = run(hops, Some(&ring));
        let (kept, missed) = ring.totals();
        println!(
            "{hops} switches: {plain:.0} packets/s; captured {captured:.0}, share {:.2}, {kept} kept, {missed} missed, \
             {:.0} MB/s taken",
            captured / plain,
            bytes / 1e6
        );
    }
}

/// Return how many packets and bytes of captured ones came out in a second.
fn run(hops: u32, ring: Option<&Arc<CaptureRing>>) -> (f64, f64) {
    let mut line = Line::new(hops);
    if let Some(ring) = ring {
        for direction in 0..ring.interfaces() {
            line.engine.attach(0, direction, Arc::clone(ring), direction);
        }
    }
    let packet = line.packet(PAYLOAD);
    let (start, mut now, mut arrived, mut bytes) = (Instant::now(), 0, 0u64, 0);
    while start.elapsed() < MEASURE {
        for _ in 0..BATCH {
            // as a host would: each packet is a buffer of its own
            assert_eq!(line.send(now, packet[..].into()), None);
        }
        now += 1_000_000;
        line.engine.handle_timeout(now);
        while line.engine.poll_output().is_some() {
            arrived += 1;
        }
        while let Some(more) = ring.and_then(|ring| ring.take(false, |segment| segment.to_vec().len())) {
            bytes += more;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    (arrived as f64 / seconds, bytes as f64 / seconds)
}
