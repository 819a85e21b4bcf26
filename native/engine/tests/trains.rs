//! Packets of a large send that go together arrive, count and are written as they would one by one.

use std::sync::Arc;

use engine::api::Engine;
use engine::config::{PortState, SwitchPortConfig};
use engine::counters::Drop;
use engine::encap::VportConfig;
use engine::link::capture::{CaptureConfig, CaptureRing};
use engine::link::config::{FlowControl, LinkConfig};
use engine::link::rule::{FaultKind, FaultRule, Match, Tally};
use engine::outputs::{DirectionId, Output};
use engine::random::Stream;
use engine::share::Share;
use engine::switch::{GROUP_BASE, LinearTable, MulticastTable};
use engine::testing::line::{FAST, one_lane};
use engine::testing::ring::{PORTS, RING, ring_over};
use engine::testing::star::PKEY;
use engine::testing::{ALWAYS, Kept, TwoHosts, VESW, dropped};
use engine::vnics::Vnics;
use engine::vnics::demux::Demux;
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;

/// A VNIC on each HFI port of a ring of switches.
struct Bed {
    engine: Engine,
    vnics: Vnics,
    host: Kept,
    observed: Vec<(u64, DirectionId, Vec<u8>, Option<Drop>)>,
    stops: Vec<(u64, u32, bool)>,
    rings: Vec<Arc<CaptureRing>>,
}

impl Bed {
    /// Args: `one_by_one`: the ports take no trains; `icrc`, `merge`: of the VNICs; `credits`: of the links between switches,
    /// and of those to the ports.
    fn new(
        config: &LinkConfig,
        one_by_one: bool,
        icrc: bool,
        merge: bool,
        [trunks, cables]: [Option<&FlowControl>; 2],
    ) -> Self {
        let mut engine = Engine::default();
        let mut vnics = Vnics::new(icrc, merge);
        ring_over(&mut engine, config, trunks, cables, false);
        for port in 0..PORTS {
            let vport = vnics.add();
            vnics.vports[vport].port = Some(port);
            vnics.vports[vport].take_datagrams_merged(true);
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
            if one_by_one {
                engine.take_bursts(port, false);
            }
        }
        engine.set_tally(0, Arc::new(Tally::new(0, 0)));
        Bed { engine, vnics, host: Kept::default(), observed: vec![], stops: vec![], rings: vec![] }
    }

    fn send(&mut self, now: u64, from: usize, (header, frame): &(VnetHeader, Vec<u8>)) {
        let mut buffer = frame.clone();
        buffer.resize(frame.len().max(60), 0);
        self.vnics.transmit(&mut self.engine, now, from, header, (&mut buffer, frame.len()), None);
    }

    /// Let everything happen until then, and write what has arrived.
    fn pass(&mut self, now: u64) {
        while self.engine.handle_until_lent(now) {
            self.take();
        }
        self.take();
        self.vnics.flush(&mut self.engine, &mut self.host);
    }

    fn take(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match self.vnics.take(&mut self.engine, output) {
                None => {}
                Some(Output::Observed { time, direction, packet, drop, .. }) => {
                    self.observed.push((time, direction, packet.to_vec(), drop));
                }
                Some(Output::FlowChanged { time, port, stopped }) => self.stops.push((time, port, stopped)),
                Some(other) => panic!("nothing is for others: {other:?}"),
            }
        }
    }

    /// What links tell of themselves beside what they have counted.
    fn links(&mut self, now: u64) -> Vec<String> {
        let engine = &mut self.engine;
        (0..engine.directions() as u32)
            .map(|number| {
                let counters = (engine.vl_counters(now, number), engine.wire_counters(now, number));
                format!("{number}: {:?} {counters:?}", engine.lanes(number))
            })
            .collect()
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

/// A ring that keeps the beginnings of packets.
fn capture() -> Arc<CaptureRing> {
    Arc::new(CaptureRing::new(CaptureConfig {
        interfaces: 1,
        fits: Match::default(),
        snap: 64,
        limit: None,
        epoch_ns: 0,
        segments: 2,
        segment_bytes: 1 << 20,
    }))
}

/// A fault that loses every fifth packet or so.
fn loss() -> FaultRule {
    FaultRule { bits: 0, hold_ns: 0, ..FaultRule::plain(0, FaultKind::Loss, ALWAYS / 5, 0) }
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
    let kind = chance(stream, 11);
    let link = chance(stream, u64::from(RING) + 8) as u32;
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
            7 => engine.set_rules(now, link, if on { vec![loss()] } else { vec![] }),
            8 => engine.observe(now, link, !on),
            9 if on => {
                bed.rings.push(capture());
                engine.attach(now, link, Arc::clone(&bed.rings[bed.rings.len() - 1]), 0);
            }
            9 => bed.rings.iter().for_each(|ring| engine.detach(now, link, ring)),
            _ => engine.set_link(now, link, config),
        }
    }
}

#[test]
fn trains_do_what_their_packets_would_do_one_by_one() {
    let small_queues = LinkConfig { queue_bytes: 100_000, rate_bps: 10_000_000_000, ..FAST };
    for (seed, config) in (0..10).flat_map(|seed| [(seed, FAST), (seed, small_queues)]) {
        let flow = one_lane();
        compare(seed, &config, [(seed % 3 == 2).then_some(&flow), None]);
    }
}

#[test]
fn packets_of_a_train_wait_for_credits_as_they_would_by_themselves() {
    let slow = LinkConfig { rate_bps: 10_000_000_000, ..FAST };
    let large = FlowControl { buffer_bytes: 100_000, fecn_bytes: 40_000, shared_bytes: 10_000, ..one_lane() };
    let two_lanes = FlowControl { weights: vec![1, 1], ..one_lane() };
    let small = one_lane();
    for (seed, config, flows) in [
        (0, FAST, [&large, &small]),
        (1, slow, [&large, &small]),
        (3, FAST, [&small, &small]),
        (5, slow, [&large, &large]),
        (7, FAST, [&large, &two_lanes]),
    ] {
        compare(seed, &config, flows.map(Some));
    }
}

/// Let random things happen on two fabrics, of which one knows no trains.
fn compare(seed: u64, config: &LinkConfig, credits: [Option<&FlowControl>; 2]) {
    let mut stream = Stream::new(seed);
    let (icrc, merge) = (seed % 4 < 2, seed % 5 < 3);
    let mut beds = [false, true].map(|one_by_one| Bed::new(config, one_by_one, icrc, merge, credits));
    let mut now = 0;
    for step in 0..150 {
        for _ in 0..chance(&mut stream, 4) {
            let (from, frame) = (some_host(&mut stream), some_frame(&mut stream));
            beds.iter_mut().for_each(|bed| bed.send(now, from, &frame));
        }
        // half of the runs are not disturbed
        if seed % 2 == 1 && chance(&mut stream, 6) == 0 {
            disturb(&mut stream, config, now, &mut beds);
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
        assert!(together.observed == one_by_one.observed, "seed {seed}, step {step}");
        assert_eq!(together.stops, one_by_one.stops, "seed {seed}, step {step}");
        if credits[1].is_some() {
            let [links, same] = beds.each_mut().map(|bed| bed.links(now));
            assert_eq!(links, same, "seed {seed}, step {step}");
        }
    }
    let [mut together, mut one_by_one] = beds;
    for bed in [&mut together, &mut one_by_one] {
        (0..PORTS).for_each(|port| bed.engine.stall_port(now, port, false));
        bed.pass(now + 1_000_000_000);
    }
    assert!(together.host.frames == one_by_one.host.frames, "seed {seed}");
    let received: u64 = together.vnics.vports.iter().map(|vport| vport.counters.rx.packets).sum();
    assert!(received > 1000, "seed {seed}");
    assert_eq!(together.counted(), one_by_one.counted(), "seed {seed}");
    for (ring, same) in together.rings.iter().zip(&one_by_one.rings) {
        assert_eq!(ring.totals(), same.totals(), "seed {seed}");
        let copied = |ring: &CaptureRing| ring.take(true, <[u8]>::to_vec);
        assert!(copied(ring) == copied(same), "seed {seed}");
    }
    for (vport, same) in together.vnics.vports.iter().zip(&one_by_one.vnics.vports) {
        assert_eq!(vport.counters, same.counters);
        assert_eq!((&vport.tx_balance, &vport.rx_balance), (&same.tx_balance, &same.rx_balance));
    }
}

/// Return how many packets each output stands for, of a large send from the first host to the second.
fn together(bed: &mut TwoHosts) -> Vec<u32> {
    let (header, frame) =
        LargeSend { ipv6: false, tcp: true, tags: 0, payload: 10 * 1448, size: 1448 }.build();
    bed.send(0, &header, &frame);
    bed.now += 1_000_000;
    bed.engine.handle_until_lent(bed.now);
    let mut counts = Vec::new();
    while let Some(output) = bed.engine.poll_output() {
        counts.extend(match &output {
            Output::Delivered { burst, .. } => Some(burst.count()),
            _ => None,
        });
        bed.vnics.take(&mut bed.engine, output);
    }
    counts
}

#[test]
fn train_goes_where_nothing_on_its_way_looks_at_single_packets() {
    for direction in 0..4 {
        let is_on_way = [0, 3].contains(&direction);
        let mut bed = TwoHosts::default();
        bed.vnics.icrc = direction < 2;
        for _ in 0..2 {
            assert_eq!(together(&mut bed), [10]);
            bed.disturb(direction, &[(FaultKind::Delay, ALWAYS)]);
            assert_eq!(together(&mut bed), if is_on_way { vec![1; 10] } else { vec![10] });
            bed.disturb(direction, &[]);
            bed.engine.observe(bed.now, direction, true);
            assert_eq!(together(&mut bed), if is_on_way { vec![1; 10] } else { vec![10] });
            bed.engine.observe(bed.now, direction, false);
        }
    }
}

#[test]
fn train_takes_one_of_several_equal_paths() {
    for group in 0..2 {
        let mut bed = TwoHosts::default();
        let lft = LinearTable {
            entries: [0, 1, GROUP_BASE + group].into(),
            groups: vec![[2].into(), [2, 2].into()],
        };
        bed.engine.set_tables(0, 0, lft, MulticastTable::default());
        assert_eq!(together(&mut bed), [10]);
    }
}

#[test]
fn train_stays_together_where_each_packet_is_judged_or_copied_for_itself() {
    for direction in [0, 3] {
        let mut bed = TwoHosts::default();
        bed.disturb(direction, &[(FaultKind::Loss, 0)]);
        assert_eq!(together(&mut bed), [10]);
        bed.disturb(direction, &[(FaultKind::Loss, ALWAYS)]);
        assert_eq!(together(&mut bed), []);
        bed.disturb(direction, &[]);
        let ring = capture();
        bed.engine.attach(bed.now, direction, Arc::clone(&ring), 0);
        assert_eq!(together(&mut bed), [10]);
        assert_eq!(ring.totals(), (10, 0));
        bed.engine.detach(bed.now, direction, &ring);
        bed.engine.set_link(bed.now, direction, &LinkConfig { jitter_ns: 500, ..FAST });
        assert_eq!(together(&mut bed).iter().sum::<u32>(), 10);
        assert!(together(&mut bed).len() < 10);
    }
}

#[test]
fn train_that_waits_for_credits_is_handed_out_together() {
    let flow = one_lane();
    let mut bed = TwoHosts::with(Engine::default(), true, Some(&flow));
    assert_eq!(together(&mut bed), [10]);
    bed.disturb(0, &[(FaultKind::Loss, 0)]);
    bed.disturb(0, &[]);
    assert_eq!(together(&mut bed), [10], "as before there were faults");
    let two_lanes = FlowControl { weights: vec![1, 1], ..flow };
    let mut bed = TwoHosts::with(Engine::default(), true, Some(&two_lanes));
    assert_eq!(together(&mut bed).iter().sum::<u32>(), 1, "each one lends its room first");
}

#[test]
fn train_that_finds_no_room_to_wait_loses_what_its_packets_would_lose() {
    let flow = FlowControl { buffer_bytes: 2000, ..one_lane() };
    let mut bed = TwoHosts::with(Engine::default(), true, Some(&flow));
    bed.engine.set_link(0, 0, &LinkConfig { queue_bytes: 5000, ..FAST });
    let (header, frame) =
        LargeSend { ipv6: false, tcp: true, tags: 0, payload: 10 * 1448, size: 1448 }.build();
    bed.send(0, &header, &frame);
    // of packets of some 1500 bytes one is sent, and three may wait
    assert_eq!(dropped(&bed.engine.take_counted(), Drop::LinkOverflow), 6);
}

#[test]
fn train_goes_between_hosts_of_one_worker_and_to_that_of_another() {
    for row in [2, 1] {
        let mut bed = TwoHosts::on(Engine::with_share(Share::new(0, 2).in_rows_of(row)), true);
        assert_eq!(together(&mut bed), if row == 2 { vec![10] } else { vec![] });
        let handed = bed.engine.outbox(1).take();
        let counts: Vec<u32> = handed.iter().map(|handover| handover.burst.count()).collect();
        assert_eq!(counts, if row == 2 { vec![] } else { vec![10] });
    }
}
