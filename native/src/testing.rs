//! A small fabric for tests and fuzz targets: two hosts with a vport each, on one switch.

use crate::core::{Core, Host, Options, Vport};
use crate::encap::VportConfig;
use crate::fabric::{Demux, End, Fabric, HfiPort, Lane, Link, PkeySet, Switch, SwitchPort};

/// Keeps what is written, or refuses everything.
#[derive(Default)]
pub struct Kept {
    pub frames: Vec<(usize, Vec<u8>)>,
    pub refuses: bool,
}

impl Host for Kept {
    fn write(&mut self, vport: usize, parts: &[&[u8]]) -> bool {
        if !self.refuses {
            self.frames.push((vport, parts.concat()));
        }
        !self.refuses
    }
}

const GROUP: u32 = 0xf0_0000;
const PKEY: u16 = 0x8002;
/// The virtual Ethernet switch of both vports.
pub const VESW: u16 = 2;

/// Return the core; vport 0 has LID 1, vport 1 LID 2.
pub fn two_hosts(options: Options) -> Core {
    let mut core = Core::new(options, 1);
    for lid in 1..=2 {
        let config = VportConfig {
            vesw_id: VESW,
            pkey: PKEY,
            slid: lid,
            u_mcast_dlid: GROUP,
            mtu: 1500,
            oper_up: true,
            ..VportConfig::default()
        };
        let mut vport = Vport::default();
        vport.config = config.into();
        vport.port = Some(lid - 1);
        vport.in_use = true;
        core.vports.push(vport);
    }
    core.set_fabric(fabric()).expect("indexes are right");
    core
}

fn fabric() -> Fabric {
    let pkeys = || PkeySet(vec![PKEY]);
    let port = |index: u32| HfiPort {
        active: true,
        lid: index + 1,
        lmc: 0,
        sendable: pkeys(),
        admitted: pkeys(),
        groups: [(GROUP, ())].into_iter().collect(),
        lane: Some(Lane { link: index, from: 0 }),
        demux: Demux {
            mask: 0xfff,
            vports: [(u32::from(VESW), index)].into_iter().collect(),
            nohandler: Some(index),
        },
    };
    let link = |index: u32| Link {
        ends: [End::Hfi(index), End::Switch(0, index)],
        up: true,
        slow: false,
        faults: Default::default(),
    };
    let switch_port = |link| SwitchPort { active: true, lane: Some(Lane { link, from: 1 }) };
    let switch = Switch {
        up: true,
        ports: vec![switch_port(0), switch_port(1)],
        lft: vec![crate::fabric::NO_ROUTE, 0, 1],
        mft: [(GROUP, vec![0, 1])].into_iter().collect(),
    };
    Fabric { ports: vec![port(0), port(1)], switches: vec![switch], links: vec![link(0), link(1)] }
}

/// Panic where an element of `core` has lost count of packets.
pub fn assert_balance(core: &Core) {
    let lanes = core.lanes.iter().flatten();
    let laws = core.vports.iter().flat_map(|vport| [&vport.tx_law, &vport.rx_law]);
    let elements = core.port_tx.iter().chain(&core.port_rx).chain(&core.switches).chain(lanes).chain(laws);
    for element in elements {
        assert_eq!(
            element.in_packets + element.copies,
            element.out_packets + element.dropped(),
            "{element:?}"
        );
    }
}
