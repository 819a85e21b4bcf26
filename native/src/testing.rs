//! A small fabric for tests and fuzz targets: two hosts with a vport each, on one switch.

use crate::checksum::{fold, sum};
use crate::core::{Core, Host, Options, Vport};
use crate::encap::VportConfig;
use crate::fabric::{Demux, Direction, End, Fabric, Fault, HfiPort, Link, PkeySet, Switch, SwitchPort};
use crate::vnet::{self, VnetHeader};

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
        lft: vec![crate::fabric::NO_ROUTE, 0, 1],
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
        assert_eq!((&vport.tx_law, &vport.rx_law), (&same.tx_law, &same.rx_law));
    }
}

/// Panic where an element of `core` has lost count of packets.
pub fn assert_balance(core: &Core) {
    let directions = core.directions.iter().flatten();
    let laws = core.vports.iter().flat_map(|vport| [&vport.tx_law, &vport.rx_law]);
    let elements =
        core.port_tx.iter().chain(&core.port_rx).chain(&core.switches).chain(directions).chain(laws);
    for element in elements {
        assert_eq!(
            element.in_packets + element.copies,
            element.out_packets + element.dropped(),
            "{element:?}"
        );
    }
}

/// A frame of TCP or UDP over IPv4 or IPv6 as the kernel hands it over: checksums left to us.
pub struct LargeSend {
    pub ipv6: bool,
    pub tcp: bool,
    /// VLAN tags.
    pub tags: usize,
    pub payload: usize,
    /// Payload of a segment.
    pub size: u16,
}

impl LargeSend {
    /// The virtio-net header and the frame behind it.
    pub fn build(&self) -> (VnetHeader, Vec<u8>) {
        let mut frame = vec![6, 0x2c, 0, 2, 0, 0, 6, 0x2c, 0, 1, 0, 0];
        for tag in 0..self.tags {
            frame.extend([0x81, 0, 0x60, tag as u8 + 5]);
        }
        let l4_len = if self.tcp { 32 } else { 8 } + self.payload;
        let protocol = if self.tcp { 6 } else { 17 };
        let addresses: Vec<u8> = if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            (0..32).collect()
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + l4_len as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
            vec![10, 9, 2, 1, 10, 9, 2, 2]
        };
        frame.extend(&addresses);
        let l4 = frame.len();
        frame.extend([0x13, 0x89, 0xc0, 0x01]);
        if self.tcp {
            frame.extend(0xffff_ff00u32.to_be_bytes());
            frame.extend([0, 0, 0, 7, 0x80, 0x19, 1, 2, 0, 0, 0, 0]);
            frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend((0..self.payload).map(|i| (i * 7 + i / 255) as u8));
        let pseudo =
            sum(&addresses) + u64::from(u16::from(protocol).to_be()) + u64::from((l4_len as u16).to_be());
        let field = if self.tcp { 16 } else { 6 };
        frame[l4 + field..l4 + field + 2].copy_from_slice(&fold(pseudo).to_ne_bytes());
        let gso_type = match (self.tcp, self.ipv6) {
            (true, false) => vnet::GSO_TCPV4,
            (true, true) => vnet::GSO_TCPV6,
            (false, _) => vnet::GSO_UDP_L4,
        };
        let header = VnetHeader {
            flags: vnet::NEEDS_CSUM,
            gso_type,
            hdr_len: 0,
            gso_size: self.size,
            csum_start: l4 as u16,
            csum_offset: field as u16,
        };
        (header, frame)
    }
}
