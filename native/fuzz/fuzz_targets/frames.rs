//! Any bytes that a TAP hands over: no panic, and every frame is delivered or counted in one drop.
#![no_main]

use engine::testing::{Kept, TwoHosts};
use libfuzzer_sys::fuzz_target;
use offload::vnet::{SIZE, VnetHeader};

fuzz_target!(|data: &[u8]| {
    let Some((head, frame)) = data.split_first_chunk::<SIZE>() else { return };
    for (icrc, merge) in [(true, true), (false, true), (true, false)] {
        let mut bed = TwoHosts::new(merge);
        bed.vnics.icrc = icrc;
        bed.vnics.vports[1].take_datagrams_merged(true);
        // a burst of three, so that there is something to merge
        for len in [frame.len(), frame.len(), frame.len().saturating_sub(usize::from(head[0]))] {
            bed.send(0, &VnetHeader::parse(head), &frame[..len]);
        }
        bed.settle(&mut Kept::default());
        bed.counted();
    }
});
