//! A small fabric for tests and fuzz targets: two hosts with a vport each, on one switch.

pub mod line;
pub mod ring;
pub mod several;
pub mod star;

use crate::core::fabric::{
    Demux, Direction, End, Fabric, Fault, HfiPort, Link, NO_ROUTE, PkeySet, Switch, SwitchPort,
};
use crate::core::{Core, Host, Options, Vport};
use crate::encap::VportConfig;

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
    let mut core = Core::new(options);
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
        direction: Some(Direction { link: index, from: 0 }),
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
        streams: [u64::from(index), u64::from(index) + 2],
    };
    let switch_port = |link| SwitchPort { active: true, direction: Some(Direction { link, from: 1 }) };
    let switch = Switch {
        up: true,
        ports: vec![switch_port(0), switch_port(1)],
        lft: vec![NO_ROUTE, 0, 1],
        mft: [(GROUP, vec![0, 1])].into_iter().collect(),
    };
    Fabric { ports: vec![port(0), port(1)], switches: vec![switch], links: vec![link(0), link(1)] }
}

/// The same with something on the way that looks at each packet, and lets it pass: packets go one by one.
pub fn two_hosts_one_by_one(options: Options) -> Core {
    let mut core = two_hosts(options);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.links[1].faults[1] = vec![Fault { chance: 0, bits: 0 }];
    core.set_fabric(fabric).expect("indexes are right");
    core
}

/// Panic where the counters of two cores differ.
pub fn assert_same_counters(one: &Core, other: &Core) {
    assert_eq!(one.port_tx, other.port_tx);
    assert_eq!(one.port_rx, other.port_rx);
    assert_eq!(one.switches, other.switches);
    assert_eq!(one.directions, other.directions);
    for (vport, same) in one.vports.iter().zip(&other.vports) {
        assert_eq!(vport.counters, same.counters);
        assert_eq!((&vport.tx_balance, &vport.rx_balance), (&same.tx_balance, &same.rx_balance));
    }
}

/// Panic where an element of `core` has lost count of packets.
pub fn assert_balance(core: &Core) {
    let directions = core.directions.iter().flatten();
    let balances = core.vports.iter().flat_map(|vport| [&vport.tx_balance, &vport.rx_balance]);
    let elements =
        core.port_tx.iter().chain(&core.port_rx).chain(&core.switches).chain(directions).chain(balances);
    for element in elements {
        assert_eq!(
            element.in_packets + element.copies,
            element.out_packets + element.dropped(),
            "{element:?}"
        );
    }
}
