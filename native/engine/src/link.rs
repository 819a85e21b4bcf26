//! One link, as two directions: admission -> faults -> observer -> queue, or lanes with credits -> wire.
//!
//! A direction without faults, an observer or credits pays a branch for each of them.

pub mod arbiter;
pub mod capture;
pub mod config;
pub mod credits;
pub mod direction;
pub mod faults;
pub mod observe;
pub mod queue;
pub mod rule;
pub mod vl_counters;
pub mod wire;
pub mod wire_counters;
