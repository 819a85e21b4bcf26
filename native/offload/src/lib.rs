//! What a NIC does for its host: a large send becomes frames, frames of a flow become one again, checksums are filled
//! in and checked.

pub mod checksum;
pub mod gro;
pub mod segment;
#[doc(hidden)]
pub mod testing;
pub mod vnet;
