//! HFI ports on one switch, for tests and measurements of the engine. Port N has LID N + 1 and link N.

use std::ops::Range;

use wire::{HeaderFields, HeaderWords, VNIC_HEADER, seal, sizes};

use crate::api::Engine;
use crate::config::{End, PortConfig, PortNum, PortState, SwitchPortConfig};
use crate::link::config::{FlowControl, LinkConfig};
use crate::outputs::PortId;
use crate::packet::{Packet, Packets};
use crate::port::Address;
use crate::random::Stream;
use crate::switch::{LinearTable, MulticastTable};

pub const PKEY: u16 = 0x8002;
/// The group that all ports have joined.
pub const GROUP: u32 = 0xf0_0000;

/// Add so many ports on one switch to an empty engine.
pub fn star(engine: &mut Engine, ports: u32, config: &LinkConfig, flow: Option<&FlowControl>) {
    let switch = engine.add_switch();
    for number in 0..ports {
        let port = engine.add_port();
        let pkeys = || vec![PKEY];
        engine.set_port(
            0,
            port,
            PortConfig::new(PortState::Active, number + 1, 0, pkeys(), pkeys(), vec![GROUP]),
        );
        let switch_port = number as PortNum + 1;
        engine.set_switch_port(0, switch, switch_port, SwitchPortConfig::plain(PortState::Active));
        let streams = [0, 1].map(|end| {
            let seed = u64::from(number) * 2 + end;
            (Stream::new(seed), Stream::new(!seed))
        });
        engine.add_link([End::Hfi(port), End::Switch(switch, switch_port)], [(config, flow); 2], streams);
    }
    let lft = LinearTable { entries: (0..=ports as PortNum).collect(), groups: vec![] };
    let all = (1..=ports as PortNum).collect();
    engine.set_tables(0, switch, lft, MulticastTable::from_iter([(GROUP, all)]));
}

/// Who a packet from one port to another says it is from and to.
pub fn address(from: PortId, to: PortId) -> Address {
    Address { slid: from + 1, dlid: to + 1, pkey: PKEY }
}

/// Build a packet with a frame of so many bytes, 60 or more, that begins with `mark`, and its ICRC.
pub fn packet(packets: &mut Packets, address: Address, frame: usize, mark: u64) -> Packet {
    packets.make(sizes(frame).1, |own| fill(own.bytes, address, frame, mark))
}

/// Build a burst of packets like that, each with a mark of its own.
pub fn burst(packets: &mut Packets, address: Address, frame: usize, mut marks: Range<u64>) -> Packet {
    packets.make_burst(sizes(frame).1, marks.clone().count(), |own| {
        fill(own.bytes, address, frame, marks.next().expect("as many as there are packets"));
    })
}

fn fill(bytes: &mut [u8], address: Address, frame: usize, mark: u64) {
    let Address { slid, dlid, pkey } = address;
    let fields = HeaderFields { slid, dlid, sc: 0, rc: 0, pkey, entropy: 0, vesw_id: 2 };
    HeaderWords::new(&fields).write(bytes);
    bytes[VNIC_HEADER..VNIC_HEADER + frame].fill(0x5a);
    bytes[VNIC_HEADER..VNIC_HEADER + 8].copy_from_slice(&mark.to_le_bytes());
    seal(bytes, sizes(frame).0, true);
}

/// Read the mark of a packet.
pub fn mark(packet: &[u8]) -> u64 {
    packet[VNIC_HEADER..].first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark))
}
