//! A small fabric for tests and fuzz targets: two hosts with a vport each, on one switch.

pub mod line;
pub mod ring;
pub mod several;
pub mod star;

use std::sync::Arc;

use offload::vnet::VnetHeader;

use crate::api::{Counted, Engine};
use crate::config::{End, PortConfig, PortState, SwitchPortConfig};
use crate::counters::{Drop, Element, Passing};
use crate::encap::VportConfig;
use crate::link::config::FlowControl;
use crate::link::rule::{FaultKind, FaultRule, Tally};
use crate::outputs::{DirectionId, PortId};
use crate::packet::Packet;
use crate::random::{CHANCE_BITS, Stream};
use crate::switch::{LinearTable, MulticastTable};
use crate::testing::line::FAST;
use crate::vnics::demux::Demux;
use crate::vnics::{Host, Vnics};

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

pub const GROUP: u32 = 0xf0_0000;
pub const PKEY: u16 = 0x8002;
/// The virtual Ethernet switch of both vports.
pub const VESW: u16 = 2;
/// A probability of 1.
pub const ALWAYS: u64 = 1 << CHANCE_BITS;
/// More than anything on this fabric takes.
const LONG: u64 = 1_000_000_000;

/// Two hosts: vport 0 has LID 1 and HFI port 0, vport 1 LID 2 and HFI port 1. Their links are number 0 and 1.
pub struct TwoHosts {
    pub engine: Engine,
    pub vnics: Vnics,
    pub now: u64,
}

impl Default for TwoHosts {
    fn default() -> Self {
        TwoHosts::new(true)
    }
}

/// How an HFI port is set up that may do all it needs.
pub fn port_config(lid: u32) -> PortConfig {
    PortConfig::new(PortState::Active, lid, 0, vec![PKEY], vec![PKEY], vec![GROUP])
}

impl TwoHosts {
    /// Args: `merge`: merge received segments.
    pub fn new(merge: bool) -> Self {
        TwoHosts::on(Engine::default(), merge)
    }

    /// On an empty engine, such as one of several workers.
    pub fn on(engine: Engine, merge: bool) -> Self {
        TwoHosts::with(engine, merge, None)
    }

    /// Args: `flow`: the links have credits.
    pub fn with(mut engine: Engine, merge: bool, flow: Option<&FlowControl>) -> Self {
        let mut vnics = Vnics::new(true, merge);
        let switch = engine.add_switch();
        for index in 0..2 {
            let (port, lid) = (engine.add_port(), index + 1);
            engine.set_port(0, port, port_config(lid));
            engine.set_switch_port(0, switch, lid as u16, SwitchPortConfig::plain(PortState::Active));
            let streams = [0, 1].map(|end| (Stream::new(u64::from(index * 2 + end)), Stream::new(9)));
            engine.add_link([End::Hfi(port), End::Switch(switch, lid as u16)], [(&FAST, flow); 2], streams);
            let vport = vnics.add();
            let slot = &mut vnics.vports[vport];
            slot.port = Some(port);
            slot.config = Arc::new(VportConfig {
                vesw_id: VESW,
                pkey: PKEY,
                slid: lid,
                u_mcast_dlid: GROUP,
                mtu: 1500,
                oper_up: true,
                ..VportConfig::default()
            });
            let vports = [(u32::from(VESW), vport as u32)].into_iter().collect();
            vnics.set_demux(&mut engine, port, Demux { mask: 0xfff, vports, nohandler: Some(vport as u32) });
        }
        let mut bed = TwoHosts { engine, vnics, now: 0 };
        bed.route(&[0, 1, 2]);
        bed
    }

    /// Give the switch another unicast table, by LID.
    pub fn route(&mut self, ports: &[u16]) {
        let groups: MulticastTable = [(GROUP, [1, 2].into())].into_iter().collect();
        let lft = LinearTable { entries: ports.into(), groups: vec![] };
        self.engine.set_tables(self.now, 0, lft, groups);
    }

    /// Disturb what goes one way.
    pub fn disturb(&mut self, direction: DirectionId, faults: &[(FaultKind, u64)]) {
        let rule = |(tally, &(kind, chance)): (usize, &(FaultKind, u64))| FaultRule {
            bits: 3,
            hold_ns: 0,
            ..FaultRule::plain(tally as u64, kind, chance, tally as u32)
        };
        for tally in 0..faults.len() {
            self.engine.set_tally(tally as u32, Arc::new(Tally::new(0, 0)));
        }
        self.engine.set_rules(self.now, direction, faults.iter().enumerate().map(rule).collect());
    }

    /// Send a frame from the host of a vport.
    pub fn send(&mut self, vport: usize, header: &VnetHeader, frame: &[u8]) {
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0xa5);
        self.vnics.transmit(&mut self.engine, self.now, vport, header, (&mut buffer, frame.len()), None);
    }

    /// Give any bytes to the VNICs of an HFI port.
    pub fn arrive(&mut self, port: PortId, bytes: &[u8]) {
        self.vnics.demultiplex(&mut self.engine, port, Packet::from(bytes));
    }

    /// Let everything arrive, and write it; return how many packets were for others.
    pub fn settle(&mut self, host: &mut impl Host) -> usize {
        self.now += LONG;
        self.engine.handle_timeout(self.now);
        let mut others = 0;
        while let Some(output) = self.engine.poll_output() {
            others += usize::from(self.vnics.take(&mut self.engine, output).is_some());
        }
        self.vnics.flush(&mut self.engine, host);
        others
    }

    /// Take what every element has counted, and panic where packets got lost without being counted.
    pub fn counted(&mut self) -> Vec<Counted> {
        let counted = self.engine.take_counted();
        for element in &counted {
            match element {
                Counted::Port { counted, .. } => {
                    assert_balance(&counted.0.element);
                    assert_balance(&counted.1.element);
                }
                Counted::Switch { counted, .. } | Counted::Direction { counted, .. } => {
                    assert_balance(&counted.element);
                }
                Counted::Congestion { .. } | Counted::Tally { .. } => {}
            }
        }
        for vport in &self.vnics.vports {
            assert_balance(&vport.tx_balance);
            assert_balance(&vport.rx_balance);
        }
        counted
    }
}

/// How often packets were dropped for a reason, wherever it was.
pub fn dropped(counted: &[Counted], reason: Drop) -> u64 {
    let of = |passing: &Passing| passing.element.drops[reason as usize];
    let each = |element: &Counted| match element {
        Counted::Port { counted, .. } => of(&counted.0) + of(&counted.1),
        Counted::Switch { counted, .. } | Counted::Direction { counted, .. } => of(counted),
        Counted::Congestion { .. } | Counted::Tally { .. } => 0,
    };
    counted.iter().map(each).sum()
}

/// Panic where an element has lost count of packets; none is inside.
pub fn assert_balance(element: &Element) {
    let out = element.out_packets + element.dropped();
    assert_eq!(element.in_packets + element.copies, out, "{element:?}");
}
