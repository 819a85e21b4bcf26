//! Snapshots of vports as Python gives them: dictionaries that become the engine's structures.

use engine::encap::{Channels, Sources, VportConfig, mac_key};
use engine::hash::FastMap;
use pyo3::prelude::*;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct VportArgs {
    vesw_id: u16,
    pkey: u16,
    slid: u32,
    rc: u32,
    u_mcast_dlid: u32,
    hash_shift: u32,
    flow_dlids: [u32; 32],
    sc_uc: [u8; 8],
    sc_mc: [u8; 8],
    non_vlan_sc_uc: u8,
    non_vlan_sc_mc: u8,
    macs: Vec<([u8; 6], u32)>,
    sources: Option<SourceArgs>,
    quiet: Option<Vec<[u8; 6]>>,
    mtu: usize,
    oper_up: bool,
}

impl VportArgs {
    pub fn build(self) -> VportConfig {
        let mut macs = FastMap::default();
        for (mac, dlid) in self.macs {
            macs.entry(mac_key(&mac)).or_insert(dlid);
        }
        VportConfig {
            vesw_id: self.vesw_id,
            pkey: self.pkey,
            slid: self.slid,
            rc: self.rc,
            u_mcast_dlid: self.u_mcast_dlid,
            hash_shift: self.hash_shift,
            flow_dlids: self.flow_dlids,
            unicast: Channels { by_pcp: self.sc_uc, untagged: self.non_vlan_sc_uc },
            multicast: Channels { by_pcp: self.sc_mc, untagged: self.non_vlan_sc_mc },
            macs,
            sources: self.sources.map(build_sources),
            quiet: self.quiet.map(sorted_keys),
            mtu: self.mtu,
            oper_up: self.oper_up,
        }
    }
}

/// Exact addresses; masks with their addresses.
type SourceArgs = (Vec<[u8; 6]>, Vec<([u8; 6], [u8; 6])>);

fn sorted_keys(macs: Vec<[u8; 6]>) -> Vec<u64> {
    let mut keys: Vec<u64> = macs.iter().map(|mac| mac_key(mac)).collect();
    keys.sort_unstable();
    keys
}

fn build_sources((exact, masked): SourceArgs) -> Sources {
    Sources {
        exact: exact.iter().map(|mac| (mac_key(mac), ())).collect(),
        masked: masked.iter().map(|(mask, mac)| (mac_key(mask), mac_key(mask) & mac_key(mac))).collect(),
    }
}
