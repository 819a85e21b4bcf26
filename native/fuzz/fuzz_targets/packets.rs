//! Whatever a link delivers: no panic, and every packet is delivered or counted in one drop.
#![no_main]

use engine::core::Options;
use engine::testing::{Kept, assert_balance, two_hosts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for icrc in [true, false] {
        let mut core = two_hosts(Options { icrc, merge: true, enforce: true });
        let mut host = Kept::default();
        core.receive(1, data);
        core.receive(1, data);
        core.demultiplex(1, data);
        core.flush(&mut host);
    }
    let mut core = two_hosts(Options { icrc: false, merge: true, enforce: true });
    core.receive(1, data);
    core.flush(&mut Kept::default());
    assert_balance(&core);
});
