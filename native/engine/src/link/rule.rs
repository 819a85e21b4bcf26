//! The configuration of a fault: its kind, the packets that it selects, and how often it hits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::{HEADER, L4_ETHERNET, L4_FM, VNIC_HEADER, ethernet_l4, l4, nine};

use crate::packet::{Packet, dlid, sc, slid};

// generated: fault-kinds (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
/// What a fault does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Loss,
    Duplicate,
    Reorder,
    Corrupt,
    Delay,
}

impl FaultKind {
    /// Return the kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "loss" => FaultKind::Loss,
            "duplicate" => FaultKind::Duplicate,
            "reorder" => FaultKind::Reorder,
            "corrupt" => FaultKind::Corrupt,
            "delay" => FaultKind::Delay,
            _ => return None,
        })
    }
}
// end of generated

/// Behind the 16B header and the FM header.
const MAD_AT: usize = HEADER + 8;
const METHOD_AT: usize = MAD_AT + 3;
const ATTR_ID_AT: usize = MAD_AT + 16;

/// The packets that a fault selects; all given conditions must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    // generated: match (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
    /// L4 type: `ethernet`, `mad`, or a number.
    pub l4: Option<u32>,
    /// LID of the source or of the destination.
    pub lid: Option<u32>,
    /// LID of the source.
    pub slid: Option<u32>,
    /// LID of the destination.
    pub dlid: Option<u32>,
    /// Service channel.
    pub sc: Option<u32>,
    /// Ethernet packets of this virtual switch.
    pub vesw_id: Option<u32>,
    /// MADs of this attribute.
    pub attr_id: Option<u32>,
    /// MADs of this method.
    pub method: Option<u32>,
    // end of generated
}

impl Match {
    /// Whether the packet is one of those; what is shorter than a header is meant only where nothing is asked for.
    pub fn fits(&self, packet: &[u8]) -> bool {
        if packet.len() < HEADER {
            return *self == Match::default();
        }
        let is = |wanted: Option<u32>, found: &dyn Fn() -> Option<u32>| match wanted {
            Some(value) => found() == Some(value),
            None => true,
        };
        is(self.l4, &|| Some(l4(packet).into()))
            && is(self.slid, &|| Some(slid(packet)))
            && is(self.dlid, &|| Some(dlid(packet)))
            && self.lid.is_none_or(|lid| lid == slid(packet) || lid == dlid(packet))
            && is(self.sc, &|| Some(sc(packet)))
            && is(self.vesw_id, &|| vesw_id(packet))
            && is(self.attr_id, &|| mad(packet)?.get(ATTR_ID_AT..ATTR_ID_AT + 2).map(be))
            && is(self.method, &|| mad(packet)?.get(METHOD_AT..METHOD_AT + 1).map(be))
    }
}

fn vesw_id(packet: &[u8]) -> Option<u32> {
    let is_ethernet = l4(packet) == L4_ETHERNET && packet.len() >= VNIC_HEADER;
    is_ethernet.then(|| ethernet_l4::VESW_ID.get(&packet[HEADER..]))
}

/// What has a MAD behind `MAD_AT` bytes.
fn mad(packet: &[u8]) -> Option<&[u8]> {
    if l4(packet) != L4_FM {
        return None;
    }
    let at = if nine::is_9b(packet) { nine::mad_at(packet)? } else { MAD_AT };
    packet.get(at - MAD_AT..)
}

fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// What a fault has done, over all the directions that it is on; their workers share it.
#[derive(Debug, Default)]
pub struct Tally {
    seen: AtomicU64,
    hits: AtomicU64,
}

impl Tally {
    /// Begin with what was counted before.
    pub fn new(seen: u64, hits: u64) -> Self {
        Tally { seen: seen.into(), hits: hits.into() }
    }

    /// Packets that fitted.
    pub fn seen(&self) -> u64 {
        self.seen.load(Relaxed)
    }

    /// Packets that it hit.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Count a packet that fits, and return how many there have been.
    pub fn see(&self) -> u64 {
        self.seen.fetch_add(1, Relaxed) + 1
    }

    /// Count a packet that it hits, and return how many there have been; None: as many as there may be were hit before.
    pub fn hit(&self, limit: Option<u64>) -> Option<u64> {
        let next = |hits| (limit != Some(hits)).then(|| hits + 1);
        self.hits.fetch_update(Relaxed, Relaxed, next).ok().map(|hits| hits + 1)
    }
}

/// One packet fault, the same on every direction that it is on.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Reported when the fault is used up.
    pub number: u64,
    pub kind: FaultKind,
    /// The probability as a share of 2^53.
    pub chance: u64,
    pub fits: Match,
    /// Which of the engine's tallies counts for it.
    pub tally: u32,
    // generated: fault-options (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
    /// Packets to hit, or beginnings, after which it is over.
    pub count: Option<u64>,
    /// Packets to spare first.
    pub skip: u64,
    /// How much longer a packet takes.
    pub delay_ns: u64,
    /// Bits that flip, between header and tail, where the ICRC covers them.
    pub bits: u64,
    /// Additional packets that arrive.
    pub copies: u64,
    /// Later packets that overtake it.
    pub behind: u64,
    /// The longest time that it is held back.
    pub hold_ns: u64,
    // end of generated
}

impl FaultRule {
    /// Return a fault of every packet, whose options have their defaults.
    pub fn plain(number: u64, kind: FaultKind, chance: u64, tally: u32) -> Self {
        FaultRule {
            number,
            kind,
            chance,
            fits: Match::default(),
            tally,
            // generated: fault-option-defaults (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
            count: None,
            skip: 0,
            delay_ns: 0,
            bits: 1,
            copies: 1,
            behind: 1,
            hold_ns: 1000000,
            // end of generated
        }
    }
}

/// One packet that the rules let pass, perhaps changed.
#[derive(Clone, Debug)]
pub struct Passage {
    pub packet: Packet,
    pub delay_ns: u64,
    /// Hold it back until this many later packets have passed ...
    pub behind: u64,
    /// ... or until this time has passed.
    pub hold_ns: u64,
}
