//! A packet on its way: bytes that copies share, and the few fields that an engine reads of them.
//!
//! Python may inject any bytes. A field of a packet that is shorter than a header reads as 0.

use std::sync::Arc;

use wire::{HEADER, TRAILER, lrh16b, put_icrc};

use crate::state::SpaceId;

/// The bytes of a packet. Multicast copies and observers share them; whatever changes a packet copies it first, if
/// anything shares it.
pub type Packet = Arc<[u8]>;

/// A packet between two elements.
#[derive(Debug)]
pub struct Travelling {
    pub packet: Packet,
    /// Switches that it has visited.
    pub hops: u32,
    /// The room that it occupies in the receive buffer of the port where it arrived, on a link with credits.
    pub space: Option<SpaceId>,
}

#[inline]
fn field(packet: &[u8], read: impl FnOnce(&[u8]) -> u32) -> u32 {
    if packet.len() < HEADER { 0 } else { read(packet) }
}

#[inline]
pub fn slid(packet: &[u8]) -> u32 {
    field(packet, wire::slid)
}

#[inline]
pub fn dlid(packet: &[u8]) -> u32 {
    field(packet, wire::dlid)
}

#[inline]
pub fn sc(packet: &[u8]) -> u32 {
    field(packet, |packet| lrh16b::SC.get(packet))
}

#[inline]
pub fn entropy(packet: &[u8]) -> u32 {
    field(packet, |packet| lrh16b::ENTROPY.get(packet))
}

#[inline]
pub fn fecn(packet: &[u8]) -> bool {
    field(packet, |packet| lrh16b::FECN.get(packet)) != 0
}

#[inline]
pub fn becn(packet: &[u8]) -> bool {
    field(packet, |packet| lrh16b::BECN.get(packet)) != 0
}

/// Whether the place of the ICRC is zero: on a fabric that leaves it out, it has been left out.
#[inline]
pub fn lacks_icrc(packet: &[u8]) -> bool {
    packet.len().checked_sub(TRAILER).is_some_and(|at| packet[at..at + 4] == [0; 4])
}

/// Give a packet its ICRC, where it lacks it.
pub fn complete(packet: &mut Packet) {
    if packet.len() > HEADER + TRAILER && lacks_icrc(packet) {
        put_icrc(Arc::make_mut(packet));
    }
}

/// Return the packet with its FECN bit set; the ICRC does not cover it.
pub fn with_fecn(packet: Packet) -> Packet {
    with_bit(packet, 7, lrh16b::FECN.put(1))
}

/// Return the packet with its BECN bit set; the ICRC does not cover it.
pub fn with_becn(packet: Packet) -> Packet {
    with_bit(packet, 3, lrh16b::BECN.put(1))
}

/// Set a bit of the word that ends with byte `last`, in whose highest byte it lies.
fn with_bit(mut packet: Packet, last: usize, bit: u32) -> Packet {
    if packet.len() >= HEADER {
        Arc::make_mut(&mut packet)[last] |= (bit >> 24) as u8;
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_set_in_a_copy_where_bytes_are_shared() {
        let plain: Packet = Arc::from([0u8; 24]);
        let marked = with_becn(with_fecn(Arc::clone(&plain)));
        assert!(fecn(&marked) && becn(&marked));
        assert_eq!((marked[7], marked[3]), (0x10, 0x80));
        assert_eq!(plain[..], [0u8; 24]);
    }

    #[test]
    fn short_packets_have_no_fields() {
        for len in 0..HEADER {
            let packet: Packet = vec![0xff; len].into();
            assert_eq!((sc(&packet), dlid(&packet), fecn(&packet)), (0, 0, false));
            assert_eq!(with_fecn(Arc::clone(&packet)), packet);
        }
    }
}
