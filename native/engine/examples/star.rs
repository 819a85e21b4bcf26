//! Packets per second through the engine, ends included: packets of 1500 bytes from all ports to all, on one switch.
//!
//! Arguments, for profilers: the number of ports to measure, how many batches of 512 packets.

use std::time::{Duration, Instant};

use engine::api::Engine;
use engine::outputs::Output;
use engine::testing::line::FAST;
use engine::testing::star::{address, packet, star};

const BATCH: u32 = 512;
const MEASURE: Duration = Duration::from_millis(200);

fn main() {
    let args: Vec<u32> = std::env::args().skip(1).map(|arg| arg.parse().expect("a number")).collect();
    let batches = args.get(1).copied();
    for ports in args.first().map_or(vec![2, 8, 64, 512], |only| vec![*only]) {
        let mut engine = Engine::default();
        star(&mut engine, ports, &FAST, None);
        let (start, mut now, mut arrived, mut sent) = (Instant::now(), 0, 0u64, 0u32);
        while batches.map_or(start.elapsed() < MEASURE, |batches| sent < batches * BATCH) {
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
                if let Output::Delivered { burst, .. } = output {
                    engine.packets().recycle(burst.packet);
                    arrived += 1;
                }
            }
        }
        let rate = f64::from(arrived as u32) / start.elapsed().as_secs_f64();
        println!("{ports} ports: {rate:.0} packets/s");
    }
}
