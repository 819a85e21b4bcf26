//! Packets per second through the engine, ends included: packets of 1500 bytes from all ports to all, on one switch.

use std::time::{Duration, Instant};

use engine::outputs::Output;
use engine::testing::line::FAST;
use engine::testing::star::{address, packet, star};

const BATCH: u32 = 512;
const MEASURE: Duration = Duration::from_millis(200);

fn main() {
    for ports in [2, 8, 64, 512] {
        let mut engine = star(ports, &FAST, None);
        let (start, mut now, mut arrived, mut sent) = (Instant::now(), 0, 0u64, 0u32);
        while start.elapsed() < MEASURE {
            for _ in 0..BATCH {
                let (from, to) = (sent % ports, (sent / ports + sent) % ports);
                sent += 1;
                let address = address(from, if to == from { (to + 1) % ports } else { to });
                let packet = packet(engine.packets(), address, 1500, sent.into());
                assert_eq!(engine.inject(now, from, packet, address), None);
                now = u64::from(sent) * 150 / u64::from(ports); // a little less than the links carry
            }
            engine.handle_timeout(now);
            while let Some(output) = engine.poll_output() {
                if let Output::Delivered { packet, .. } = output {
                    engine.packets().recycle(packet);
                    arrived += 1;
                }
            }
        }
        let rate = f64::from(arrived as u32) / start.elapsed().as_secs_f64();
        println!("{ports} ports: {rate:.0} packets/s");
    }
}
