//! Packets of a large send that go together arrive, count and are written as they would one by one.

use std::sync::Arc;

use engine::api::Engine;
use engine::config::{PortState, SwitchPortConfig};
use engine::encap::VportConfig;
use engine::link::capture::{CaptureConfig, CaptureRing};
use engine::link::config::LinkConfig;
use engine::link::rule::Match;
use engine::random::Stream;
use engine::testing::line::FAST;
use engine::testing::ring::{PORTS, RING, ring};
use engine::testing::star::PKEY;
use engine::testing::{Kept, VESW};
use engine::vnics::Vnics;
use engine::vnics::demux::Demux;
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;

/// A VNIC on each HFI port of a ring of switches.
struct Bed {
    engine: Engine,
    vnics: Vnics,
    host: Kept,
}

impl Bed {
    /// Args: `one_by_one`: something looks at single packets, where none pass.
    fn new(config: &LinkConfig, one_by_one: bool) -> Self {
        let mut engine = Engine::default();
        let mut vnics = Vnics::new(true, false);
        ring(&mut engine, config, false, false);
        for port in 0..PORTS {
            let vport = vnics.add();
            vnics.vports[vport].port = Some(port);
            vnics.vports[vport].config = Arc::new(VportConfig {
                vesw_id: VESW,
                pkey: PKEY,
                slid: port + 1,
                mtu: 1500,
                oper_up: true,
                ..VportConfig::default()
            });
            let vports = [(u32::from(VESW), vport as u32)].into_iter().collect();
            let nohandler = (port != PORTS - 1).then_some(vport as u32);
            vnics.set_demux(&mut engine, port, Demux { mask: 0xfff, vports, nohandler });
        }
        if one_by_one {
            watch(&mut engine, 2 * UNUSED);
        }
        Bed { engine, vnics, host: Kept::default() }
    }

    fn send(&mut self, now: u64, from: usize, (header, frame): &(VnetHeader, Vec<u8>)) {
        let mut buffer = frame.clone();
        buffer.resize(frame.len().max(60), 0);
        self.vnics.transmit(&mut self.engine, now, from, header, (&mut buffer, frame.len()), None);
    }

    /// Let everything happen until then, and write what has arrived.
    fn pass(&mut self, now: u64) {
        self.engine.handle_timeout(now);
        while let Some(output) = self.engine.poll_output() {
            assert!(self.vnics.take(&mut self.engine, output).is_none(), "nothing is for others");
        }
        self.vnics.flush(&mut self.engine, &mut self.host);
    }

    fn counted(&mut self) -> Vec<String> {
        let counted = self.engine.take_counted();
        let mut lines: Vec<_> = counted.iter().map(|element| format!("{element:?}")).collect();
        lines.sort();
        lines
    }
}

/// A host that neither sends nor gets anything.
const UNUSED: u32 = PORTS - 2;

fn watch(engine: &mut Engine, direction: u32) {
    let ring = CaptureRing::new(CaptureConfig {
        interfaces: 1,
        fits: Match::default(),
        snap: 64,
        limit: None,
        epoch_ns: 0,
        segments: 2,
        segment_bytes: 4096,
    });
    engine.attach(0, direction, Arc::new(ring), 0);
}

fn chance(stream: &mut Stream, of: u64) -> u64 {
    stream.word() % of
}

/// A host that sends and receives.
fn some_host(stream: &mut Stream) -> usize {
    let host = chance(stream, u64::from(PORTS) - 1) as usize;
    if host == UNUSED as usize { PORTS as usize - 1 } else { host }
}

fn some_frame(stream: &mut Stream) -> (VnetHeader, Vec<u8>) {
    let size = [1448, 1448, 1400, 536, 100][chance(stream, 5) as usize];
    let payload = 1 + chance(stream, 64_000) as usize;
    let tcp = chance(stream, 4) > 0;
    let send = LargeSend { ipv6: chance(stream, 2) > 0, tcp, tags: 0, payload, size };
    let (header, mut frame) = if payload > usize::from(size) {
        send.build()
    } else {
        (VnetHeader::default(), vec![0x06; 60 + payload.min(1400)])
    };
    frame[..6].copy_from_slice(&[0x06, 0x2c, 0, some_host(stream) as u8 + 1, 0, 0]);
    (header, frame)
}

/// Change something while packets are on their way.
fn disturb(stream: &mut Stream, config: &LinkConfig, now: u64, beds: &mut [Bed; 2]) {
    let kind = chance(stream, 8);
    let link = chance(stream, u64::from(RING) / 2 + 4) as u32 * 2;
    let rate_bps = [1_000_000_000, 40_000_000_000, 100_000_000_000][chance(stream, 3) as usize];
    let (latency_ns, jitter_ns) = (chance(stream, 2000), chance(stream, 2) * 500);
    let (port, on) = (chance(stream, u64::from(PORTS)) as u32, chance(stream, 4) > 0);
    for bed in beds {
        let engine = &mut bed.engine;
        match kind {
            0 | 1 => engine.set_link(now, link, &LinkConfig { rate_bps, latency_ns, ..*config }),
            2 => engine.set_link(now, link, &LinkConfig { up: on, ..*config }),
            3 => engine.set_link(now, link, &LinkConfig { jitter_ns, ..*config }),
            4 => engine.stall_port(now, port, !on),
            5 => engine.set_switch(now, port % 4, on),
            6 => {
                let state = if on { PortState::Active } else { PortState::Armed };
                engine.set_switch_port(now, port % 4, 1 + port as u16 / 4, SwitchPortConfig::plain(state));
            }
            _ => engine.set_link(now, link, config),
        }
    }
}

#[test]
fn trains_do_what_their_packets_would_do_one_by_one() {
    let small_queues = LinkConfig { queue_bytes: 100_000, rate_bps: 10_000_000_000, ..FAST };
    for (seed, config) in (0..10).flat_map(|seed| [(seed, FAST), (seed, small_queues)]) {
        let mut stream = Stream::new(seed);
        let mut beds = [Bed::new(&config, false), Bed::new(&config, true)];
        let mut now = 0;
        for step in 0..150 {
            for _ in 0..chance(&mut stream, 4) {
                let (from, frame) = (some_host(&mut stream), some_frame(&mut stream));
                beds.iter_mut().for_each(|bed| bed.send(now, from, &frame));
            }
            // half of the runs are not disturbed
            if seed % 2 == 1 && chance(&mut stream, 6) == 0 {
                disturb(&mut stream, &config, now, &mut beds);
            }
            let deadlines = beds.each_mut().map(|bed| bed.engine.deadline());
            assert_eq!(deadlines[0], deadlines[1], "seed {seed}, step {step}");
            now = match deadlines[0] {
                Some(due) if chance(&mut stream, 3) > 0 => now.max(due),
                _ => now + chance(&mut stream, 20_000),
            };
            beds.iter_mut().for_each(|bed| bed.pass(now));
            let [together, one_by_one] = &beds;
            assert!(together.host.frames == one_by_one.host.frames, "seed {seed}, step {step}");
        }
        let [mut together, mut one_by_one] = beds;
        for bed in [&mut together, &mut one_by_one] {
            (0..PORTS).for_each(|port| bed.engine.stall_port(now, port, false));
            bed.pass(now + 1_000_000_000);
        }
        assert!(together.host.frames == one_by_one.host.frames, "seed {seed}");
        assert!(together.host.frames.len() > 1000, "seed {seed}");
        assert_eq!(together.counted(), one_by_one.counted(), "seed {seed}");
        for (vport, same) in together.vnics.vports.iter().zip(&one_by_one.vnics.vports) {
            assert_eq!(vport.counters, same.counters);
            assert_eq!((&vport.tx_balance, &vport.rx_balance), (&same.tx_balance, &same.rx_balance));
        }
    }
}
