//! The data plane of the EJFAT load balancer: frames in, rewritten frames or a counted drop out.
//!
//! It follows ejfat/pipeline/, which is the reference: the same bytes, the same drops, the same counters. What the
//! load balancer answers itself (ARP, ICMP echo, neighbor discovery) is left to it: such frames are handed back.

pub mod app;
pub mod counters;
pub mod drops;
pub mod fields;
mod incoming;
mod outgoing;
mod packet;
pub mod parse;
pub mod pipeline;
pub mod port;
pub mod reflect;
pub mod rewrite;
pub mod shared;
pub mod station;
pub mod tables;
#[doc(hidden)]
pub mod testing;
