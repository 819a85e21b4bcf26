//! Made by `make generated` from ejfat/wire/headers.py; do not edit.

/// Bytes of the load balancer header, version 1.
pub const LB_V1: usize = 12;
/// Bytes of the load balancer header, versions 2 and 3.
pub const LB_V23: usize = 16;
