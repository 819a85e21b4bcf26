//! The VNIC's decisions for one frame: destination LID, service channel, routing control, entropy.
//! One immutable snapshot per vport, swapped whole when the EM changes something.

use wire::frame::{IPV4, IPV6, Parsed, TCP, UDP};
use wire::{HeaderFields, HeaderWords};

use crate::hash::FastMap;

/// Read a MAC address as a number, the key of the table.
#[inline]
pub fn mac_key(mac: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..6].copy_from_slice(&mac[..6]);
    u64::from_le_bytes(word)
}

/// Service channels of one kind of destination (unicast or multicast).
#[derive(Clone, Debug, Default)]
pub struct Channels {
    pub by_pcp: [u8; 8],
    pub untagged: u8,
}

/// What the EM configured for one vport, and its state.
#[derive(Clone, Debug, Default)]
pub struct VportConfig {
    pub vesw_id: u16,
    pub pkey: u16,
    pub slid: u32,
    pub rc: u32,
    pub u_mcast_dlid: u32,
    /// Low bits of a flow's hash that are left out of its entropy: 0, or 17 with the driver's quirks.
    pub hash_shift: u32,
    /// Flow -> LID of its default port; all 0 where the EM allows none.
    pub flow_dlids: [u32; 32],
    pub unicast: Channels,
    pub multicast: Channels,
    /// Addresses that may send; None admits all.
    pub sources: Option<Sources>,
    /// Sources of frames that Python need not hear of, as `mac_key` reads them, in order; None: it hears of none.
    pub quiet: Option<Vec<u64>>,
    /// Destination MAC -> DLID, one entry per address: the one that the reference's lookup finds.
    pub macs: FastMap<u64, u32>,
    /// Current MTU of the netdev.
    pub mtu: usize,
    /// The interface is up, configured to forward, and has its carrier.
    pub oper_up: bool,
}

/// The source entries of the MAC table.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub exact: FastMap<u64, ()>,
    /// Mask and masked address, as `mac_key` reads them.
    pub masked: Vec<(u64, u64)>,
}

impl Sources {
    /// Whether a frame with this source address may be sent.
    #[inline]
    pub fn admits(&self, mac: &[u8]) -> bool {
        let key = mac_key(mac);
        self.exact.contains_key(&key) || self.masked.iter().any(|(mask, wanted)| key & mask == *wanted)
    }
}

/// The outcome for one frame; all its segments share it.
pub struct Encap {
    pub words: HeaderWords,
    pub dlid: u32,
    pub entropy: u8,
}

/// Why a VNIC does not send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    State,
    Source,
    NoDlid,
}

impl VportConfig {
    /// Bytes of the longest frame that is received: MTU, Ethernet header and a VLAN tag.
    #[inline]
    pub fn longest_frame(&self) -> usize {
        self.mtu + 18
    }

    /// Why a frame is not sent; `dlid` is what `encap` found for it.
    #[inline]
    pub fn refusal(&self, frame: &[u8], dlid: u32, on_port: bool) -> Option<Refusal> {
        if !self.oper_up || !on_port {
            return Some(Refusal::State);
        }
        if self.sources.as_ref().is_some_and(|sources| !sources.admits(&frame[6..12])) {
            return Some(Refusal::Source);
        }
        (dlid == 0).then_some(Refusal::NoDlid)
    }

    /// Decide for one frame. `flow_hash` is that of its flow. A `dlid` of 0 means no destination.
    #[inline]
    pub fn encap(&self, frame: &[u8], parsed: &Parsed, flow_hash: u32) -> Encap {
        let multicast = frame[0] & 1 != 0;
        let entropy = flow_hash.to_le_bytes().into_iter().fold(0, |folded, byte| folded ^ byte);
        let channels = if multicast { &self.multicast } else { &self.unicast };
        let sc = parsed.pcp.map_or(channels.untagged, |pcp| channels.by_pcp[usize::from(pcp)]);
        let dlid = self.dlid(frame, entropy);
        let fields = HeaderFields {
            slid: self.slid,
            dlid,
            sc,
            rc: (self.rc >> rc_shift(parsed) & 7) as u8,
            pkey: self.pkey,
            entropy,
            vesw_id: self.vesw_id,
        };
        Encap { words: HeaderWords::new(&fields), dlid, entropy }
    }

    /// Source: the public driver's opa_vnic_get_dlid(), in its order.
    #[inline]
    fn dlid(&self, frame: &[u8], entropy: u8) -> u32 {
        if !self.macs.is_empty()
            && let Some(&dlid) = self.macs.get(&mac_key(frame))
            && dlid != 0
        {
            return dlid;
        }
        if frame[0] & 1 != 0 {
            return self.u_mcast_dlid;
        }
        if frame[0] & 2 != 0 {
            return u32::from_le_bytes([frame[3], frame[4], frame[5], 0]);
        }
        // a flow is 0 to 30
        self.flow_dlids[usize::from((entropy & 15) + (entropy >> 4)) & 31]
    }
}

/// Where the three RC bits of a frame's kind lie.
#[inline]
fn rc_shift(parsed: &Parsed) -> u32 {
    match (parsed.ethertype, parsed.protocol) {
        (IPV4, UDP) => 8,
        (IPV4, TCP) => 12,
        (IPV4, _) => 4,
        (IPV6, TCP) => 20,
        (IPV6, UDP) => 24,
        (IPV6, _) => 16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: [u8; 6] = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55];
    const FROM: [u8; 6] = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];

    fn frame(to: [u8; 6]) -> Vec<u8> {
        [&to[..], &FROM, &[0; 48]].concat()
    }

    fn config() -> VportConfig {
        VportConfig {
            u_mcast_dlid: 7,
            flow_dlids: std::array::from_fn(|flow| 100 + flow as u32),
            oper_up: true,
            ..VportConfig::default()
        }
    }

    #[test]
    fn receiver_is_that_of_the_table_of_the_group_of_the_address_or_of_the_flow() {
        let (mut config, parsed) = (config(), Parsed::default());
        let found = |config: &VportConfig, to: [u8; 6]| config.encap(&frame(to), &parsed, 0x1234_5678).dlid;
        let entropy = 0x12 ^ 0x34 ^ 0x56 ^ 0x78; // 0x08
        assert_eq!(config.encap(&frame(TO), &parsed, 0x1234_5678).entropy, entropy);
        let group = [0x01, 0, 0x5e, 1, 2, 3];
        let local = [0x02, 0, 0, 0x0b, 0x0c, 0x0d];
        assert_eq!([TO, group, local].map(|to| found(&config, to)), [108, 7, 0x0d_0c0b]);
        // both halves of the entropy count
        assert_eq!(config.encap(&frame(TO), &parsed, 0x75).dlid, 112);
        assert_eq!(config.encap(&frame(TO), &parsed, 0xff).dlid, 130);
        for (to, dlid) in [(TO, 11), (group, 12), (local, 0)] {
            config.macs.insert(mac_key(&to), dlid);
        }
        assert_eq!([TO, group, local].map(|to| found(&config, to)), [11, 12, 0x0d_0c0b]);
    }

    #[test]
    fn service_channel_is_that_of_the_priority_and_of_the_kind_of_receiver() {
        let channels = |first: u8| Channels {
            by_pcp: std::array::from_fn(|pcp| first + pcp as u8),
            untagged: first + 8,
        };
        let config = VportConfig { unicast: channels(1), multicast: channels(11), ..config() };
        let group = [0x01, 0, 0x5e, 1, 2, 3];
        for (to, pcp, sc) in [(TO, None, 9), (TO, Some(3), 4), (group, None, 19), (group, Some(7), 18)] {
            let mut bytes = [0; 24];
            config.encap(&frame(to), &Parsed { pcp, ..Parsed::default() }, 0).words.write(&mut bytes);
            assert_eq!(crate::packet::sc(&bytes), sc);
        }
    }

    #[test]
    fn routing_control_is_that_of_the_protocol() {
        let words = |rc: u32, ethertype: u16, protocol: u8| {
            let parsed = Parsed { ethertype, protocol, ..Parsed::default() };
            let mut bytes = [0; 24];
            VportConfig { rc, ..config() }.encap(&frame(TO), &parsed, 0).words.write(&mut bytes);
            bytes
        };
        let kinds = [(0, 0), (IPV4, 1), (IPV4, UDP), (IPV4, TCP), (IPV6, 1), (IPV6, TCP), (IPV6, UDP)];
        for (number, (ethertype, protocol)) in kinds.into_iter().enumerate() {
            // the three bits of the kind alone, between others that are all set
            let rc = !(7 << (number * 4)) | 5 << (number * 4);
            assert_eq!(words(rc, ethertype, protocol), words(5, 0, 0), "{ethertype:x} {protocol}");
        }
    }

    #[test]
    fn frame_is_refused_for_the_state_its_source_or_its_receiver() {
        let whole = frame(TO);
        let with = |sources: Option<Sources>| VportConfig { sources, ..config() };
        let exact = Sources { exact: [(mac_key(&FROM), ())].into_iter().collect(), masked: vec![] };
        let masks = |wanted: &[u8; 6]| Sources {
            masked: vec![(mac_key(&[0xff, 0xf0, 0, 0, 0, 0]), mac_key(wanted))],
            ..Sources::default()
        };
        for (sources, refusal) in [
            (None, None),
            (Some(exact), None),
            (Some(masks(&[2, 0xa0, 0, 0, 0, 0])), None),
            (Some(masks(&[2, 0xb0, 0, 0, 0, 0])), Some(Refusal::Source)),
            (Some(Sources::default()), Some(Refusal::Source)),
        ] {
            let config = with(sources);
            assert_eq!(config.refusal(&whole, 1, true), refusal);
            assert_eq!(config.refusal(&whole, 1, false), Some(Refusal::State));
        }
        assert_eq!(config().refusal(&whole, 0, true), Some(Refusal::NoDlid));
        let down = VportConfig { oper_up: false, ..config() };
        assert_eq!(down.refusal(&whole, 1, true), Some(Refusal::State));
    }
}
