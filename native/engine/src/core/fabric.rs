//! A snapshot of the fabric: ports, switches, links and their tables, by index. It is immutable; when anything
//! changes, Python builds a new one and swaps it as a whole.

use crate::counters::FaultCount;
use crate::hash::FastMap;

/// What is at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Index of an HFI port.
    Hfi(u32),
    /// Index of a switch, index of its port.
    Switch(u32, u32),
}

/// One direction of a link: the link, and the end that packets enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    pub link: u32,
    pub from: u8,
}

#[derive(Clone, Debug)]
pub struct Link {
    pub ends: [End; 2],
    pub up: bool,
    /// Python carries packets that enter this link, because of its rate, latency, observers or faults.
    pub slow: bool,
    /// The faults on packets that enter at either end, in the order in which they apply.
    pub faults: [Vec<Fault>; 2],
    /// The states of the random streams of the faults, for either end.
    pub streams: [u64; 2],
}

/// Random loss or damage of packets that enter a link at one end.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Probability, in units of 2^-53.
    pub chance: u64,
    /// Number of bits to flip; 0 loses the packet.
    pub bits: u32,
}

#[derive(Clone, Debug, Default)]
pub struct HfiPort {
    pub active: bool,
    pub lid: u32,
    pub lmc: u8,
    /// P_Keys that the port may send and that it admits.
    pub sendable: PkeySet,
    pub admitted: PkeySet,
    pub groups: FastMap<u32, ()>,
    /// The direction that packets from here take; None if there is no link.
    pub direction: Option<Direction>,
    /// The VNICs of the port, if the native datapath receives for them.
    pub demux: Demux,
}

/// A set of P_Keys. Ports have only a few, so a linear search is as fast as anything.
#[derive(Clone, Debug, Default)]
pub struct PkeySet(pub Vec<u16>);

impl PkeySet {
    #[inline]
    pub fn contains(&self, pkey: u16) -> bool {
        self.0.contains(&pkey)
    }
}

/// Virtual Ethernet switch id -> vport, for the open vports of a port.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    /// 0xfff, or 0xff with the driver's quirks.
    pub mask: u16,
    pub vports: FastMap<u32, u32>,
    /// The vport that counts packets without a handler; None if no vport is open.
    pub nohandler: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct SwitchPort {
    pub active: bool,
    /// The direction that packets from here take; None if there is no link.
    pub direction: Option<Direction>,
}

#[derive(Clone, Debug, Default)]
pub struct Switch {
    pub up: bool,
    pub ports: Vec<SwitchPort>,
    /// DLID -> index of a port, with an entry for every LID up to the highest in use.
    pub lft: Vec<u16>,
    /// Multicast DLID -> indexes of ports, in ascending order.
    pub mft: FastMap<u32, Vec<u32>>,
}

pub const NO_ROUTE: u16 = u16::MAX;

#[derive(Clone, Debug, Default)]
pub struct Fabric {
    pub ports: Vec<HfiPort>,
    pub switches: Vec<Switch>,
    pub links: Vec<Link>,
}

impl Fabric {
    /// Return zeroed counts for every fault, by link and end.
    pub fn no_fault_counts(&self) -> Vec<[Vec<FaultCount>; 2]> {
        let nothing = |faults: &Vec<Fault>| vec![FaultCount::default(); faults.len()];
        self.links.iter().map(|link| [nothing(&link.faults[0]), nothing(&link.faults[1])]).collect()
    }

    /// Check that every index refers to something, so that the datapath need not check.
    pub fn validate(&self, vports: usize) -> Result<(), String> {
        let direction_ok = |direction: &Option<Direction>| {
            direction.is_none_or(|it| (it.link as usize) < self.links.len() && it.from < 2)
        };
        for (index, port) in self.ports.iter().enumerate() {
            let known = |vport: u32| (vport as usize) < vports;
            if !direction_ok(&port.direction) || !port.demux.vports.values().all(|&v| known(v)) {
                return Err(format!("HFI port {index} names a link or a vport that does not exist"));
            }
            if port.lmc > 24 {
                return Err(format!("HFI port {index}: LMC {} is more than 24 bits", port.lmc));
            }
            if !port.demux.nohandler.is_none_or(known) {
                return Err(format!("HFI port {index} names a vport that does not exist"));
            }
        }
        for (index, switch) in self.switches.iter().enumerate() {
            let known = |port: usize| port < switch.ports.len();
            let lft = switch.lft.iter().all(|&port| port == NO_ROUTE || known(usize::from(port)));
            let mft = switch.mft.values().flatten().all(|&port| known(port as usize));
            if !lft || !mft || !switch.ports.iter().all(|port| direction_ok(&port.direction)) {
                return Err(format!("switch {index} names a port or a link that does not exist"));
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            for end in link.ends {
                let known = match end {
                    End::Hfi(port) => (port as usize) < self.ports.len(),
                    End::Switch(switch, port) => self
                        .switches
                        .get(switch as usize)
                        .is_some_and(|switch| (port as usize) < switch.ports.len()),
                };
                if !known {
                    return Err(format!("link {index} ends in nothing"));
                }
            }
        }
        Ok(())
    }
}
