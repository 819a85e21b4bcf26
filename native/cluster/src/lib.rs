//! The way of packets between the machines of a cluster. A pair of machines has one connection (`connection`, `tls`), which
//! two threads drive: one sends what has departed, one takes in what arrives (`peer`).

pub mod connection;
pub mod link;
pub mod peer;
pub mod tls;
