//! Finds the VNIC for a packet with L4 type Ethernet. The reference is opavnic/demux.py.

use wire::{L4_ETHERNET, VNIC_HEADER, l4, vesw_id};

use crate::hash::FastMap;

/// The VNICs of one HFI port that are up. The empty one leaves every packet to others.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    /// The bits of a virtual switch id that count: 0xfff, or 0xff with the driver's quirks.
    pub mask: u16,
    /// Masked id of a virtual Ethernet switch -> vport, of the native VNICs.
    pub vports: FastMap<u32, u32>,
    /// The vport that counts packets for a virtual switch without a VNIC; None: that is decided elsewhere, as the port
    /// has other VNICs or none.
    pub nohandler: Option<u32>,
}

/// Where a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Vport(u32),
    /// No VNIC of the port is on its virtual switch; this vport counts it.
    Nobody(u32),
    /// It is not for a native VNIC.
    Elsewhere,
}

impl Demux {
    /// Whether all VNICs of the port are native, so that nobody in Python waits for its link.
    pub fn is_whole(&self) -> bool {
        self.nohandler.is_some()
    }

    #[inline]
    pub fn find(&self, packet: &[u8]) -> Goal {
        if packet.len() < VNIC_HEADER || l4(packet) != L4_ETHERNET {
            return Goal::Elsewhere;
        }
        match (self.vports.get(&u32::from(vesw_id(packet) & self.mask)), self.nohandler) {
            (Some(vport), _) => Goal::Vport(*vport),
            (None, Some(vport)) => Goal::Nobody(vport),
            (None, None) => Goal::Elsewhere,
        }
    }
}
