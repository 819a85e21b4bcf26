//! The fast datapath of opavnic: see docs/datapath.md.

pub mod checksum;
pub mod core;
pub mod counters;
pub mod ejfat;
pub mod encap;
pub mod fabric;
pub mod frame;
pub mod gro;
pub mod icrc;
pub mod preemption_backoff;
pub mod random;
pub mod relay;
pub mod segment;
pub mod tap;
#[doc(hidden)]
pub mod testing;
pub mod vnet;
pub mod wire;
pub mod worker;

#[cfg(feature = "python")]
mod python;
