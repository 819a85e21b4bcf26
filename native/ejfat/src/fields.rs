//! Made by `make generated` from ejfat/wire/headers.py; do not edit.

/// UDP destination port of the load balancer.
pub const LB_PORT: u16 = 0x4c42;
/// What a load balancer header begins with.
pub const LB_MAGIC: u16 = 0x4c42;
/// What a sync message begins with.
pub const SYNC_MAGIC: u16 = 0x4c43;

/// The load balancer header, version 1: its size, and where its fields begin.
pub mod lb_v1 {
    pub const SIZE: usize = 12;
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 2;
    pub const PROTOCOL: usize = 3;
    pub const TICK: usize = 4;
}

/// The load balancer header, versions 2 and 3, with the names of version 3: its size, and where its fields begin.
pub mod lb_v23 {
    pub const SIZE: usize = 16;
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 2;
    pub const PROTOCOL: usize = 3;
    pub const SLOT_SELECT: usize = 4;
    pub const PORT_SELECT: usize = 6;
    pub const TICK: usize = 8;
}
