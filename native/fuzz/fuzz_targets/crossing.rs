//! Any bytes that a member sends as frames: they are refused, or each is delivered or counted in one drop.
#![no_main]

use engine::config::{End, PortState, SwitchPortConfig};
use engine::crossing::{Frame, Kind};
use engine::random::Stream;
use engine::testing::line::FAST;
use engine::testing::{Kept, TwoHosts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    bed.engine.add_switch();
    bed.engine.set_switch_port(0, 0, 3, SwitchPortConfig::plain(PortState::Active));
    let streams = [5, 6].map(|seed| (Stream::new(seed), Stream::new(!seed)));
    let first = bed.engine.add_link([End::Boundary, End::Switch(0, 3)], [(&FAST, None); 2], streams);
    let mut rest = data;
    while let Ok(Some(frame)) = Frame::first(rest) {
        rest = &rest[frame.len()..];
        if frame.head.kind == Kind::Packets {
            assert_eq!(frame.records().count(), usize::from(frame.head.count));
            bed.engine.cross_all(bed.now, first, &frame);
        }
    }
    bed.settle(&mut host);
    bed.counted();
});
