//! Packets per second through the engine, ends included: packets of 1 KiB over 1, 3 and 5 switches in a row.

use std::time::{Duration, Instant};

use engine::outputs::Output;
use engine::testing::line::{Line, PAYLOAD};

const BATCH: u64 = 500;
const MEASURE: Duration = Duration::from_millis(200);

fn main() {
    for hops in [1, 3, 5] {
        let mut line = Line::new(hops);
        let packet = line.packet(PAYLOAD);
        let (start, mut now, mut arrived) = (Instant::now(), 0, 0u64);
        while start.elapsed() < MEASURE {
            for _ in 0..BATCH {
                // as a host would: each packet is a buffer of its own
                let packet = line.engine.packets().copy(&packet);
                assert_eq!(line.send(now, packet), None);
            }
            now += 1_000_000;
            line.engine.handle_timeout(now);
            while let Some(output) = line.engine.poll_output() {
                if let Output::Delivered { packet, .. } = output {
                    line.engine.packets().recycle(packet);
                }
                arrived += 1;
            }
        }
        let rate = arrived as f64 / start.elapsed().as_secs_f64();
        println!("{hops} switches: {rate:.0} packets/s");
    }
}
