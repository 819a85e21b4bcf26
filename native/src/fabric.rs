//! The fabric as a snapshot: ports, switches, links and their tables, by index. Immutable once built; Python
//! builds a new one when anything changes and swaps it whole.

use crate::counters::FaultCount;
use crate::hash::FastMap;

/// What a link ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Index of an HFI port.
    Hfi(u32),
    /// Index of a switch, index of its port.
    Switch(u32, u32),
}

/// A direction of a link: which link, and from which of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    pub link: u32,
    pub from: u8,
}

#[derive(Clone, Debug)]
pub struct Link {
    pub ends: [End; 2],
    pub up: bool,
    /// Python carries what enters this link: it has a rate, a latency, an observer or a fault that wants it.
    pub slow: bool,
    /// What befalls packets that enter at either end, in this order.
    pub faults: [Vec<Fault>; 2],
    /// Where the random streams that these draw from are, for either end.
    pub streams: [u64; 2],
}

/// A chance that every packet takes that enters a link at one end.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Of 2^53.
    pub chance: u64,
    /// Bits to flip; 0: the packet is lost.
    pub bits: u32,
}

#[derive(Clone, Debug, Default)]
pub struct HfiPort {
    pub active: bool,
    pub lid: u32,
    pub lmc: u8,
    /// P_Keys that may leave, and that are admitted.
    pub sendable: PkeySet,
    pub admitted: PkeySet,
    pub groups: FastMap<u32, ()>,
    /// Where packets from here go; None without a link.
    pub direction: Option<Direction>,
    /// Whether Ethernet packets are taken natively; otherwise Python's handler gets them.
    pub demux: Demux,
}

/// A set of P_Keys. Ports hold a handful: a sorted list with the last hit first would not be faster.
#[derive(Clone, Debug, Default)]
pub struct PkeySet(pub Vec<u16>);

impl PkeySet {
    #[inline]
    pub fn contains(&self, pkey: u16) -> bool {
        self.0.contains(&pkey)
    }
}

/// Virtual Ethernet switch id -> vport, among the opened ones of a port.
#[derive(Clone, Debug, Default)]
pub struct Demux {
    /// 0xfff, or 0xff with the driver's quirks.
    pub mask: u16,
    pub vports: FastMap<u32, u32>,
    /// The vport that counts what has no handler; None where none is open.
    pub nohandler: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct SwitchPort {
    pub active: bool,
    /// Where packets from here go; None without a link.
    pub direction: Option<Direction>,
}

#[derive(Clone, Debug, Default)]
pub struct Switch {
    pub up: bool,
    pub ports: Vec<SwitchPort>,
    /// DLID -> index of a port. Dense up to the highest LID in use.
    pub lft: Vec<u16>,
    /// Multicast DLID -> indexes of ports, ascending.
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
    /// Return a count of zero for every fault, by link and end.
    pub fn no_fault_counts(&self) -> Vec<[Vec<FaultCount>; 2]> {
        let nothing = |faults: &Vec<Fault>| vec![FaultCount::default(); faults.len()];
        self.links.iter().map(|link| [nothing(&link.faults[0]), nothing(&link.faults[1])]).collect()
    }

    /// Check that every index points somewhere, so that the datapath need not.
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
