//! Finds the VNIC for a packet with L4 type Ethernet. The reference is opavnic/vnic/demux.py.

use wire::{L4_ETHERNET, VNIC_HEADER, l4, vesw_id};

/// The VNICs of one HFI port that are up. The empty one leaves every packet to others.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    /// The bits of a virtual switch id that count: 0xfff, or 0xff with the driver's quirks.
    pub mask: u16,
    pub vports: Vports,
    /// The vport that counts packets for a virtual switch without a VNIC; None: that is decided elsewhere, as the port
    /// has other VNICs or none.
    pub nohandler: Option<u32>,
}

/// Masked id of a virtual Ethernet switch -> vport, of the native VNICs. A port has few: they are in a list, by id.
#[derive(Clone, Debug, Default)]
pub struct Vports(Vec<(u32, u32)>);

impl Vports {
    #[inline]
    fn get(&self, id: u32) -> Option<u32> {
        self.0.binary_search_by_key(&id, |(id, _)| *id).ok().map(|index| self.0[index].1)
    }

    /// Forget a vport.
    pub fn remove(&mut self, vport: u32) {
        self.0.retain(|(_, other)| *other != vport);
    }
}

impl FromIterator<(u32, u32)> for Vports {
    /// Each id comes once.
    fn from_iter<T: IntoIterator<Item = (u32, u32)>>(vports: T) -> Self {
        let mut vports: Vec<_> = vports.into_iter().collect();
        vports.sort_unstable();
        Vports(vports)
    }
}

/// Where a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Vport(u32),
    /// No VNIC of the port is on its virtual switch; this vport counts it.
    NoVnic(u32),
    /// It is not for a native VNIC.
    Elsewhere,
}

impl Demux {
    /// Whether all VNICs of the port are native, so that no Python program waits for its link.
    pub fn is_whole(&self) -> bool {
        self.nohandler.is_some()
    }

    #[inline]
    pub fn find(&self, packet: &[u8]) -> Goal {
        if packet.len() < VNIC_HEADER || l4(packet) != L4_ETHERNET {
            return Goal::Elsewhere;
        }
        match (self.vports.get(u32::from(vesw_id(packet) & self.mask)), self.nohandler) {
            (Some(vport), _) => Goal::Vport(vport),
            (None, Some(vport)) => Goal::NoVnic(vport),
            (None, None) => Goal::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vports_are_found_by_id_until_they_are_removed() {
        let mut vports: Vports = [(0xfff, 1), (2, 7), (5, 0)].into_iter().collect();
        assert_eq!([0, 2, 3, 5, 0xfff].map(|id| vports.get(id)), [None, Some(7), None, Some(0), Some(1)]);
        vports.remove(7);
        assert_eq!([2, 5, 0xfff].map(|id| vports.get(id)), [None, Some(0), Some(1)]);
    }
}
