//! Two HFI ports with switches in a row between them, for tests and measurements of the engine.

use wire::{HeaderFields, HeaderWords, VNIC_HEADER, seal, sizes};

use crate::api::Engine;
use crate::config::{End, PortConfig, PortState, SwitchPortConfig};
use crate::counters::Drop;
use crate::link::config::{FlowControl, LinkConfig};
use crate::outputs::{DirectionId, PortId};
use crate::packet::Packet;
use crate::port::Address;
use crate::random::Stream;
use crate::switch::{LinearTable, MulticastTable};

const PKEY: u16 = 0x8002;
const SENDER: PortId = 0;
pub const RECEIVER: PortId = 1;
/// Bytes of a frame of 1 KiB.
pub const PAYLOAD: usize = 1024;
/// 100 Gbit/s and 300 ns.
pub const FAST: LinkConfig = LinkConfig::PLAIN;

/// Credits for one VL, with buffers of 16 KiB.
pub fn one_lane() -> FlowControl {
    FlowControl {
        buffer_bytes: 16 << 10,
        sc_to_vl: [0; 32],
        fecn_bytes: 8 << 10,
        weights: vec![1],
        high: 0,
        high_limit_bytes: None,
        hoq_code: u8::MAX,
        shared_bytes: 0,
    }
}

/// See the module. The sender has LID 1, the receiver LID 2.
pub struct Line {
    pub engine: Engine,
    /// The directions from the sender to the receiver.
    pub way: Vec<DirectionId>,
}

impl Line {
    pub fn new(hops: u32) -> Self {
        Line::with(hops, &FAST, None)
    }

    pub fn with(hops: u32, config: &LinkConfig, flow: Option<&FlowControl>) -> Self {
        let mut engine = Engine::default();
        for lid in [1, 2] {
            let port = engine.add_port();
            let pkeys = || vec![PKEY];
            engine.set_port(0, port, PortConfig::new(PortState::Active, lid, 0, pkeys(), pkeys(), vec![]));
        }
        let mut way = Vec::new();
        let mut before = End::Hfi(SENDER);
        let streams = |number: u64| [0, 1].map(|end| (Stream::new(number * 4 + end), Stream::new(!number)));
        for number in 0..hops {
            let switch = engine.add_switch();
            for port in [1, 2] {
                engine.set_switch_port(0, switch, port, SwitchPortConfig::plain(PortState::Active));
            }
            let lft = LinearTable { entries: [0, 1, 2].into(), groups: vec![] };
            engine.set_tables(0, switch, lft, MulticastTable::default());
            let ends = [before, End::Switch(switch, 1)];
            way.push(engine.add_link(ends, [(config, flow); 2], streams(number.into())));
            before = End::Switch(switch, 2);
        }
        way.push(engine.add_link([before, End::Hfi(RECEIVER)], [(config, flow); 2], streams(hops.into())));
        Line { engine, way }
    }

    /// Return a packet from the sender to the receiver, with a frame of so many bytes, 60 or more.
    pub fn packet(&self, frame: usize) -> Packet {
        let (pad, len) = sizes(frame);
        let mut packet = vec![0; len];
        let fields = HeaderFields { slid: 1, dlid: 2, sc: 0, rc: 0, pkey: PKEY, entropy: 0, vesw_id: 2 };
        HeaderWords::new(&fields).write(&mut packet);
        packet[VNIC_HEADER..VNIC_HEADER + frame].fill(0x5a);
        seal(&mut packet, pad, true);
        packet[..].into()
    }

    /// Send a packet as the sender's host does.
    #[inline]
    pub fn send(&mut self, now: u64, packet: Packet) -> Option<Drop> {
        self.engine.inject(now, SENDER, packet, Address { slid: 1, dlid: 2, pkey: PKEY })
    }
}
