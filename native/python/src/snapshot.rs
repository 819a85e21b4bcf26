//! Snapshots of the fabric and of vports as Python gives them: dictionaries that become the engine's structures.

use std::collections::HashMap;

use engine::core::fabric::{
    Demux, Direction, End, Fault, HfiPort, Link, NO_ROUTE, PkeySet, Switch, SwitchPort,
};
use engine::encap::{Channels, Sources, VportConfig, mac_key};
use engine::hash::FastMap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct VportArgs {
    vesw_id: u16,
    pkey: u16,
    slid: u32,
    rc: u32,
    u_mcast_dlid: u32,
    flow_dlids: [u32; 32],
    sc_uc: [u8; 8],
    sc_mc: [u8; 8],
    non_vlan_sc_uc: u8,
    non_vlan_sc_mc: u8,
    macs: Vec<([u8; 6], u32)>,
    sources: Option<SourceArgs>,
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
            flow_dlids: self.flow_dlids,
            unicast: Channels { by_pcp: self.sc_uc, untagged: self.non_vlan_sc_uc },
            multicast: Channels { by_pcp: self.sc_mc, untagged: self.non_vlan_sc_mc },
            macs,
            sources: self.sources.map(build_sources),
            mtu: self.mtu,
            oper_up: self.oper_up,
        }
    }
}

/// Exact addresses; masks with their addresses.
type SourceArgs = (Vec<[u8; 6]>, Vec<([u8; 6], [u8; 6])>);

fn build_sources((exact, masked): SourceArgs) -> Sources {
    Sources {
        exact: exact.iter().map(|mac| (mac_key(mac), ())).collect(),
        masked: masked.iter().map(|(mask, mac)| (mac_key(mask), mac_key(mask) & mac_key(mac))).collect(),
    }
}

type DirectionArgs = Option<(u32, u8)>;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PortArgs {
    active: bool,
    lid: u32,
    lmc: u8,
    sendable: Vec<u16>,
    admitted: Vec<u16>,
    groups: Vec<u32>,
    direction: DirectionArgs,
    vesw_mask: u16,
    vesws: HashMap<u32, u32>,
    nohandler: Option<u32>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SwitchArgs {
    up: bool,
    ports: Vec<(bool, DirectionArgs)>,
    lft: HashMap<u32, u16>,
    mft: HashMap<u32, Vec<u32>>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct LinkArgs {
    /// (index of an HFI port, None) or (index of a switch, index of its port)
    ends: [(u32, Option<u32>); 2],
    up: bool,
    slow: bool,
    /// For either end: probability in units of 2^-53, and number of bits to flip, 0 for loss.
    faults: [Vec<(u64, u32)>; 2],
    streams: [u64; 2],
}

/// The limit of a dense forwarding table. The unicast LIDs of OPA have 24 bits, far more than any lab uses.
const LFT_LIMIT: u32 = 1 << 20;

fn direction(args: DirectionArgs) -> Option<Direction> {
    args.map(|(link, from)| Direction { link, from })
}

impl SwitchArgs {
    pub fn build(self) -> PyResult<Switch> {
        let highest = self.lft.keys().copied().max().unwrap_or(0);
        if highest >= LFT_LIMIT {
            return Err(PyValueError::new_err(format!(
                "LID {highest:#x} is beyond the forwarding table ({LFT_LIMIT:#x})"
            )));
        }
        let mut lft = vec![NO_ROUTE; highest as usize + 1];
        for (lid, port) in self.lft {
            lft[lid as usize] = port;
        }
        let mut mft = FastMap::default();
        for (lid, mut group) in self.mft {
            group.sort_unstable();
            mft.insert(lid, group);
        }
        let ports = self
            .ports
            .into_iter()
            .map(|(active, l)| SwitchPort { active, direction: direction(l) })
            .collect();
        Ok(Switch { up: self.up, ports, lft, mft })
    }
}

impl PortArgs {
    pub fn build(self) -> HfiPort {
        HfiPort {
            active: self.active,
            lid: self.lid,
            lmc: self.lmc,
            sendable: PkeySet(self.sendable),
            admitted: PkeySet(self.admitted),
            groups: self.groups.into_iter().map(|lid| (lid, ())).collect(),
            direction: direction(self.direction),
            demux: Demux {
                mask: self.vesw_mask,
                vports: self.vesws.into_iter().collect(),
                nohandler: self.nohandler,
            },
        }
    }
}

impl LinkArgs {
    pub fn build(self) -> Link {
        let end = |(node, port): (u32, Option<u32>)| match port {
            None => End::Hfi(node),
            Some(port) => End::Switch(node, port),
        };
        Link {
            ends: self.ends.map(end),
            up: self.up,
            slow: self.slow,
            faults: self
                .faults
                .map(|faults| faults.into_iter().map(|(chance, bits)| Fault { chance, bits }).collect()),
            streams: self.streams,
        }
    }
}
