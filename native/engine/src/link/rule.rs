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
    bytes.iter().fold(0, |value, byte| value * 256 + u32::from(*byte))
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

#[cfg(test)]
mod tests {
    use ::wire::{HeaderFields, HeaderWords};

    use super::*;

    /// A packet of virtual switch 5 from LID 1 to LID 2 on SC 3, with zeros behind its header.
    fn packet(l4: u8) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        HeaderWords::new(&HeaderFields { slid: 1, dlid: 2, sc: 3, rc: 0, pkey: 0, entropy: 0, vesw_id: 5 })
            .write(&mut bytes);
        bytes[8] = l4; // bits 64 to 71
        assert_eq!(super::l4(&bytes), l4);
        bytes
    }

    #[test]
    fn kinds_have_their_names() {
        let named = ["loss", "duplicate", "reorder", "corrupt", "delay", "none"].map(FaultKind::named);
        let [loss, duplicate, reorder, corrupt, delay] =
            [FaultKind::Loss, FaultKind::Duplicate, FaultKind::Reorder, FaultKind::Corrupt, FaultKind::Delay]
                .map(Some);
        assert_eq!(named, [loss, duplicate, reorder, corrupt, delay, None]);
    }

    #[test]
    fn packet_fits_only_where_all_that_is_asked_for_holds() {
        let any = Match::default();
        let ethernet = packet(L4_ETHERNET);
        for (one, other) in [
            (Match { l4: Some(L4_ETHERNET.into()), ..any }, Match { l4: Some(L4_FM.into()), ..any }),
            (Match { slid: Some(1), ..any }, Match { slid: Some(2), ..any }),
            (Match { dlid: Some(2), ..any }, Match { dlid: Some(1), ..any }),
            (Match { lid: Some(1), ..any }, Match { lid: Some(3), ..any }),
            (Match { lid: Some(2), ..any }, Match { lid: Some(0), ..any }),
            (Match { sc: Some(3), ..any }, Match { sc: Some(4), ..any }),
            (Match { vesw_id: Some(5), ..any }, Match { vesw_id: Some(6), ..any }),
            (any, Match { attr_id: Some(0), ..any }),
            (any, Match { method: Some(0), ..any }),
            (Match { slid: Some(1), sc: Some(3), ..any }, Match { slid: Some(1), sc: Some(4), ..any }),
        ] {
            assert_eq!((one.fits(&ethernet), other.fits(&ethernet)), (true, false), "{one:?} {other:?}");
            assert!(!one.fits(&ethernet[..HEADER - 1]) || one == any);
        }
        let of_vesw = Match { vesw_id: Some(5), ..any };
        let short = &ethernet[..VNIC_HEADER - 1];
        assert!(!of_vesw.fits(short) && any.fits(short) && any.fits(&[]));
        assert!(of_vesw.fits(&ethernet[..VNIC_HEADER]));
        assert!(Match { slid: Some(1), ..any }.fits(&ethernet[..HEADER]));
    }

    #[test]
    fn mad_is_told_by_its_method_and_attribute() {
        let mut mad = packet(L4_FM);
        mad[27] = 0x81; // of a MAD at byte 24
        mad[40..42].copy_from_slice(&[0x12, 0x34]);
        let any = Match::default();
        for (fits, attr_id, method) in [
            (true, Some(0x1234), Some(0x81)),
            (true, None, Some(0x81)),
            (false, Some(0x1200), None),
            (false, None, Some(1)),
        ] {
            assert_eq!(Match { attr_id, method, ..any }.fits(&mad), fits, "{attr_id:?} {method:?}");
        }
        assert!(!Match { vesw_id: Some(5), ..any }.fits(&mad));
        assert!(!Match { attr_id: Some(0x12), ..any }.fits(&mad[..41]), "it is cut off");
    }

    #[test]
    fn tally_counts_hits_up_to_the_limit() {
        let tally = Tally::new(5, 1);
        assert_eq!((tally.see(), tally.seen()), (6, 6));
        assert_eq!([Some(2), Some(2), None].map(|limit| tally.hit(limit)), [Some(2), None, Some(3)]);
        assert_eq!(tally.hits(), 3);
    }
}
