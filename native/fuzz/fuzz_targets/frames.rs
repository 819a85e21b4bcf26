//! Whatever a TAP hands over: no panic, and every frame is delivered or counted in one drop, the segments of a
//! large send together just as they would be one by one.
#![no_main]

use engine::core::{Core, Options};
use engine::testing::{Kept, assert_balance, assert_same_counters, two_hosts, two_hosts_one_by_one};
use libfuzzer_sys::fuzz_target;
use offload::vnet::{SIZE, VnetHeader};

const OPTIONS: Options = Options { icrc: true, merge: true, enforce: true };

fuzz_target!(|data: &[u8]| {
    let Some((head, frame)) = data.split_first_chunk::<SIZE>() else { return };
    let send = |mut core: Core| {
        core.vports[1].take_datagrams_merged(true);
        let mut host = Kept::default();
        // a burst of three, so that there is something to merge
        for len in [frame.len(), frame.len(), frame.len().saturating_sub(usize::from(head[0]))] {
            let mut buffer = frame.to_vec();
            buffer.resize(frame.len().max(60), 0xa5);
            core.transmit(0, &VnetHeader::parse(head), &mut buffer, len, None);
        }
        core.flush(&mut host);
        assert_balance(&core);
        (core, host)
    };
    let (together, received) = send(two_hosts(OPTIONS));
    let (one_by_one, expected) = send(two_hosts_one_by_one(OPTIONS));
    assert!(received.frames == expected.frames);
    assert_same_counters(&together, &one_by_one);
});
