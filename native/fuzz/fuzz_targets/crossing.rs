//! Any bytes that a member sends as the packets of a message: they are refused, or each is delivered or counted in one drop.
#![no_main]

use engine::config::{End, PortState, SwitchPortConfig};
use engine::crossing::Records;
use engine::random::Stream;
use engine::testing::line::FAST;
use engine::testing::{Kept, TwoHosts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(records) = Records::parse(data) else { return };
    assert_eq!(records.iter().count(), records.count());
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    bed.engine.add_switch();
    bed.engine.set_switch_port(0, 0, 3, SwitchPortConfig::plain(PortState::Active));
    let streams = [5, 6].map(|seed| (Stream::new(seed), Stream::new(!seed)));
    let first = bed.engine.add_link([End::Boundary, End::Switch(0, 3)], [(&FAST, None); 2], streams);
    for _ in 0..2 {
        bed.engine.cross_all(bed.now, first, &records);
    }
    bed.settle(&mut host);
    bed.counted();
});
