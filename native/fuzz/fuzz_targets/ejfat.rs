//! Any bytes that an interface hands to the load balancer: no panic, and every frame leaves, is dropped or is handed back.
#![no_main]

use ejfat::counters::Counters;
use ejfat::pipeline::{Outcome, process};
use ejfat::testing::tables;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let tables = tables();
    let mut counters = Counters::default();
    let mut buffer = data.to_vec();
    match process(&tables, &mut counters, &mut buffer) {
        Outcome::Forward(range) => assert!(range.end == data.len() && range.start < 32),
        Outcome::Dropped(_) => {}
        Outcome::Punt => {
            assert_eq!(buffer, data);
            assert_eq!(counters, Counters::default());
        }
    }
    assert_eq!(counters.balance(), 0);
});
