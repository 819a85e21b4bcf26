//! The fabric engine: it carries packets from port to port, without threads or I/O; see docs/explanation/datapath.md.
//!
//! The engine knows apps, such as the EJFAT load balancer, only as the trait `app::NativeApp`.
#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod burst;
pub mod config;
pub mod counters;
pub mod crossing;
pub mod encap;
pub mod events;
pub mod forwarding;
pub mod hash;
pub mod link;
pub mod numbered;
pub mod outputs;
pub mod packet;
pub mod port;
pub mod port_errors;
pub mod random;
pub mod share;
pub mod state;
pub mod switch;
#[doc(hidden)]
pub mod testing;
pub mod vnics;
