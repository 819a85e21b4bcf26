//! Any bytes that a link delivers: no panic, and every packet is delivered or counted in one drop.
#![no_main]

use engine::counters::Drop;
use engine::testing::line::Line;
use engine::testing::{Kept, TwoHosts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // through the checks of a port, and of switches on the way
    for hops in 0..2 {
        let mut line = Line::new(hops);
        assert_eq!(line.send(0, data.into()), None::<Drop>);
        line.engine.handle_timeout(1_000_000_000);
        while line.engine.poll_output().is_some() {}
    }
    // and past them
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    for _ in 0..2 {
        bed.arrive(1, data);
    }
    bed.settle(&mut host);
    bed.counted();
});
