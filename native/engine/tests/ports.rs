//! What ports and switches refuse, where that is counted, and where packets go that they let pass.

use std::sync::Arc;

use engine::api::{Counted, Engine};
use engine::burst::Burst;
use engine::config::{End, PortConfig, PortState, SwitchPortConfig};
use engine::counters::{DROP_NAMES, Drop, Passing};
use engine::link::config::{Egress, MAX_VLS, ScToSc};
use engine::outputs::{Output, PortId};
use engine::packet::{Packet, becn, sc};
use engine::port::{Address, RX_BUFFER_BYTES};
use engine::random::Stream;
use engine::switch::{GROUP_BASE, LinearTable, MulticastTable};
use engine::testing::line::{FAST, Line, RECEIVER, one_lane};
use engine::testing::star::{GROUP, PKEY, star};
use wire::{HeaderFields, HeaderWords, L4_FM, LID_PERMISSIVE, MAX_PACKET, VNIC_HEADER, seal, sizes};

/// P_Keys that the HFI ports have beside `PKEY`.
const OTHER: u16 = 0x8003;
const FULL_MANAGEMENT: u16 = 0xffff;
const SC_MANAGEMENT: u32 = 15;
/// That of a packet of 1 KiB.
const FRAME: usize = 999;
/// Longer than anything on this fabric takes.
const LONG: u64 = 1_000_000;

/// A packet of 1 KiB from the HFI port 0, with LID 1, to port 1.
#[derive(Clone, Copy)]
struct Sent {
    slid: u32,
    dlid: u32,
    pkey: u16,
    sc: u32,
}

const PLAIN: Sent = Sent { slid: 1, dlid: 2, pkey: PKEY, sc: 0 };
const MANAGEMENT: Sent = Sent { sc: SC_MANAGEMENT, ..PLAIN };

impl Sent {
    fn packet(self) -> Packet {
        let Sent { slid, dlid, pkey, sc } = self;
        let (pad, len) = sizes(FRAME);
        let mut bytes = vec![0; len];
        HeaderWords::new(&HeaderFields { slid, dlid, sc: sc as u8, rc: 0, pkey, entropy: 0, vesw_id: 2 })
            .write(&mut bytes);
        bytes[VNIC_HEADER..VNIC_HEADER + FRAME].fill(0x5a);
        seal(&mut bytes, pad, true);
        bytes[..].into()
    }

    fn address(self) -> Address {
        Address { slid: self.slid, dlid: self.dlid, pkey: self.pkey }
    }
}

fn port_config(state: PortState, lid: u32) -> PortConfig {
    let pkeys = || vec![FULL_MANAGEMENT, OTHER, PKEY];
    PortConfig::new(state, lid, 0, pkeys(), pkeys(), vec![GROUP])
}

fn active() -> SwitchPortConfig {
    SwitchPortConfig::plain(PortState::Active)
}

/// Three HFI ports on a switch.
fn engine() -> Engine {
    let mut engine = Engine::default();
    star(&mut engine, 3, &FAST, None);
    for port in 0..3 {
        engine.set_port(0, port, port_config(PortState::Active, port + 1));
    }
    engine
}

/// Return the ports that have received a packet, each with the service channel of the packet.
fn received(engine: &mut Engine) -> Vec<(PortId, u32)> {
    let outputs = std::iter::from_fn(|| engine.poll_output());
    outputs
        .filter_map(|output| match output {
            Output::Delivered { port, burst: Burst { packet, .. }, .. } => Some((port, sc(&packet))),
            _ => None,
        })
        .collect()
}

/// Return why packets were dropped, by any element, and how many.
fn dropped(engine: &mut Engine) -> Vec<(&'static str, u64)> {
    let reasons = |passing: &Passing| -> Vec<(&'static str, u64)> {
        let drops = DROP_NAMES.iter().zip(passing.element.drops.iter());
        drops.filter(|(_, count)| **count > 0).map(|(name, count)| (*name, *count)).collect()
    };
    let of = |counted: Counted| match counted {
        Counted::Port { counted, .. } => [reasons(&counted.0), reasons(&counted.1)].concat(),
        Counted::Switch { counted, .. } | Counted::Direction { counted, .. } => reasons(&counted),
        _ => vec![],
    };
    engine.take_counted().into_iter().flat_map(of).collect()
}

/// Let port 0 send a packet, and assert that it is dropped there, and named once as an error of that port.
fn assert_lost(engine: &mut Engine, sent: Sent, drop: Drop, at: End) {
    engine.take_counted();
    let refused = engine.inject(0, 0, sent.packet(), sent.address());
    assert_eq!(refused, (at == End::Hfi(0)).then_some(drop));
    engine.handle_timeout(LONG);
    assert_eq!(received(engine), []);
    assert_eq!(dropped(engine), [(DROP_NAMES[drop as usize], 1)]);
    let errors = engine.port_errors(LONG, at);
    assert_eq!(errors.iter().map(|error| (error.reason, error.packets)).collect::<Vec<_>>(), [(drop, 1)]);
    assert_eq!(errors[0].first[..], sent.packet()[..16]);
}

/// Let port 0 send a packet, and assert that these ports receive it, on this service channel.
fn assert_received(engine: &mut Engine, sent: Sent, ports: &[PortId], on: u32) {
    engine.take_counted();
    assert_eq!(engine.inject(0, 0, sent.packet(), sent.address()), None);
    engine.handle_timeout(LONG);
    let expected: Vec<_> = ports.iter().map(|port| (*port, on)).collect();
    assert_eq!(received(engine), expected);
    assert_eq!(dropped(engine), []);
}

#[test]
fn sender_may_be_itself_only_and_in_its_partitions() {
    for (sent, drop) in [
        (Sent { slid: 2, ..PLAIN }, Drop::TxSlid),
        (Sent { slid: 2, ..MANAGEMENT }, Drop::TxSlid),
        (Sent { slid: LID_PERMISSIVE, ..PLAIN }, Drop::TxSlid),
        (Sent { dlid: 0, ..PLAIN }, Drop::TxDlid),
        (Sent { pkey: 0x8004, ..PLAIN }, Drop::TxPkey),
    ] {
        assert_lost(&mut engine(), sent, drop, End::Hfi(0));
    }
    assert_received(&mut engine(), PLAIN, &[1], 0);
    assert_received(&mut engine(), Sent { slid: LID_PERMISSIVE, ..MANAGEMENT }, &[1], SC_MANAGEMENT);

    let mut engine = engine();
    let mut four = port_config(PortState::Active, 4);
    four.lmc = 2;
    engine.set_port(0, 0, four);
    for (slid, refused) in [(3, Some(Drop::TxSlid)), (4, None), (7, None), (8, Some(Drop::TxSlid))] {
        let sent = Sent { slid, ..PLAIN };
        assert_eq!(engine.inject(0, 0, sent.packet(), sent.address()), refused);
    }
}

#[test]
fn port_that_is_not_active_passes_management_only() {
    for (state, passes) in [(PortState::Down, false), (PortState::Init, true), (PortState::Armed, true)] {
        for (number, element) in
            [End::Hfi(0), End::Switch(0, 1), End::Switch(0, 2), End::Hfi(1)].into_iter().enumerate()
        {
            let mut engine = engine();
            match element {
                End::Hfi(port) => engine.set_port(0, port, port_config(state, port + 1)),
                End::Switch(switch, port) => {
                    engine.set_switch_port(0, switch, port, SwitchPortConfig::plain(state));
                }
                End::Boundary => unreachable!(),
            }
            let drop = [Drop::TxPortDown, Drop::SwPortDown, Drop::SwPortDown, Drop::RxPortDown][number];
            // what comes by a port of a switch that is not ACTIVE is no error of the port
            if element == End::Switch(0, 1) {
                engine.inject(0, 0, PLAIN.packet(), PLAIN.address());
                engine.handle_timeout(LONG);
                assert_eq!(dropped(&mut engine), [(DROP_NAMES[drop as usize], 1)]);
                assert_eq!(engine.port_errors(LONG, element), []);
            } else {
                assert_lost(&mut engine, PLAIN, drop, element);
            }
            engine.inject(LONG, 0, MANAGEMENT.packet(), MANAGEMENT.address());
            engine.handle_timeout(2 * LONG);
            assert_eq!(received(&mut engine), if passes { vec![(1, SC_MANAGEMENT)] } else { vec![] });
        }
    }
}

#[test]
fn port_without_a_cable_sends_nothing() {
    let mut engine = Engine::default();
    let port = engine.add_port();
    engine.set_port(0, port, port_config(PortState::Active, 1));
    assert_lost(&mut engine, PLAIN, Drop::TxPortDown, End::Hfi(port));
}

#[test]
fn switch_port_admits_the_partitions_of_its_neighbour_and_of_management_all_but_full() {
    let only = || Some([PKEY].into());
    let with = |config: SwitchPortConfig, port: u16| {
        let mut engine = engine();
        engine.set_switch_port(0, 0, port, config);
        engine
    };
    let inward = || with(SwitchPortConfig { pkeys_in: only(), ..active() }, 1);
    let outward = || with(SwitchPortConfig { pkeys_out: only(), ..active() }, 2);
    for (sent, enters, leaves) in [
        (PLAIN, true, true),
        (Sent { pkey: OTHER, ..PLAIN }, false, false),
        (Sent { pkey: OTHER, ..MANAGEMENT }, true, true),
        (Sent { pkey: FULL_MANAGEMENT, ..MANAGEMENT }, false, true),
    ] {
        if enters {
            assert_received(&mut inward(), sent, &[1], sent.sc);
        } else {
            assert_lost(&mut inward(), sent, Drop::SwPkeyIn, End::Switch(0, 1));
        }
        if leaves {
            assert_received(&mut outward(), sent, &[1], sent.sc);
        } else {
            assert_lost(&mut outward(), sent, Drop::SwPkeyOut, End::Switch(0, 2));
        }
    }
    let (mut engine, foreign) = (inward(), Sent { pkey: OTHER, ..PLAIN });
    for (len, drop) in [(15, "sw_malformed"), (16, "sw_pkey_in")] {
        engine.inject(0, 0, foreign.packet()[..len].into(), foreign.address());
        engine.handle_timeout(LONG);
        assert_eq!(dropped(&mut engine), [(drop, 1)], "of {len} bytes");
    }
}

#[test]
fn packet_leaves_a_switch_that_is_as_long_as_its_lane_takes() {
    let len = PLAIN.packet().len() as u32;
    for (mtu, fits) in [(len - 124, true), (len - 125, false), (0, false)] {
        let mut vl_mtus = [0; MAX_VLS];
        vl_mtus[2] = mtu;
        let egress = Egress { sc_to_vl: Some([2; 32]), vl_mtus: Some(vl_mtus), ..Egress::default() };
        let mut engine = engine();
        engine.set_switch_port(0, 0, 2, SwitchPortConfig { egress, ..active() });
        if fits {
            assert_received(&mut engine, PLAIN, &[1], 0);
        } else {
            assert_lost(&mut engine, PLAIN, Drop::SwMtu, End::Switch(0, 2));
        }
    }
    // management is on VL 15 unless the port has a table, or the MTU of data could shut it out
    let mut vl_mtus = [0; MAX_VLS];
    vl_mtus[MAX_VLS - 1] = len;
    let mut engine = engine();
    let egress = Egress { vl_mtus: Some(vl_mtus), ..Egress::default() };
    engine.set_switch_port(0, 0, 2, SwitchPortConfig { egress, ..active() });
    assert_received(&mut engine, MANAGEMENT, &[1], SC_MANAGEMENT);
    assert_lost(&mut engine, PLAIN, Drop::SwMtu, End::Switch(0, 2));
}

#[test]
fn packet_changes_its_channel_as_the_two_ports_of_the_switch_say() {
    let with = |out: u16, channel: u8| {
        let mut engine = engine();
        let table: ScToSc = [channel; 32];
        engine.set_switch_port(0, 0, 1, SwitchPortConfig { sc_to_sc: [(out, table)].into(), ..active() });
        engine
    };
    assert_received(&mut with(2, 17), PLAIN, &[1], 17);
    assert_received(&mut with(3, 17), PLAIN, &[1], 0);
    assert_received(&mut with(2, 17), MANAGEMENT, &[1], SC_MANAGEMENT);
    assert_lost(&mut with(2, 15), PLAIN, Drop::SwSc, End::Switch(0, 1));
}

#[test]
fn packet_without_a_way_out_of_the_switch_is_lost_where_it_came_or_would_leave() {
    let with = |entry: u16| {
        let mut engine = engine();
        let lft = LinearTable { entries: [0, 1, entry].into(), groups: vec![[3, 2].into()] };
        engine.set_tables(0, 0, lft, MulticastTable::default());
        engine
    };
    assert_lost(&mut with(0), PLAIN, Drop::SwNoRoute, End::Switch(0, 1));
    assert_lost(&mut with(2), Sent { dlid: 3, ..PLAIN }, Drop::SwNoRoute, End::Switch(0, 1));
    assert_lost(
        &mut with(2),
        Sent { dlid: LID_PERMISSIVE, ..MANAGEMENT },
        Drop::SwNoRoute,
        End::Switch(0, 1),
    );
    assert_lost(&mut with(9), PLAIN, Drop::SwPortDown, End::Switch(0, 9));
    assert_lost(&mut with(3), PLAIN, Drop::RxDlid, End::Hfi(2));
    assert_lost(&mut with(GROUP_BASE), PLAIN, Drop::RxDlid, End::Hfi(2)); // by the first of the group

    let mut engine = engine();
    let (zeros, whole) = ([0u8; 100], PLAIN.packet()); // zeros are of another L2
    for bytes in [&zeros[..12], &zeros, &whole[..12], &whole[..15], &whole[..16]] {
        engine.inject(0, 0, bytes.into(), PLAIN.address());
    }
    engine.set_switch(LONG, 0, false);
    engine.inject(LONG, 0, PLAIN.packet(), PLAIN.address());
    engine.handle_timeout(2 * LONG);
    assert_eq!(dropped(&mut engine), [("sw_malformed", 4), ("sw_down", 1), ("rx_truncated", 1)]);
    assert_eq!(received(&mut engine), []);
}

#[test]
fn port_0_of_a_switch_gets_what_is_for_it_and_sends_like_any_other() {
    let with = |state: PortState| {
        let mut engine = engine();
        let port0 = engine.add_port0(0);
        engine.set_port(0, port0, port_config(state, 9));
        (engine, port0)
    };
    for (sent, is_taken) in [
        (Sent { dlid: 9, ..PLAIN }, true),
        (Sent { dlid: LID_PERMISSIVE, ..MANAGEMENT }, true),
        (Sent { dlid: LID_PERMISSIVE, ..PLAIN }, false),
        (Sent { dlid: 8, ..MANAGEMENT }, false),
    ] {
        let (mut engine, port0) = with(PortState::Active);
        if is_taken {
            assert_received(&mut engine, sent, &[port0], sent.sc);
        } else {
            assert_lost(&mut engine, sent, Drop::SwNoRoute, End::Switch(0, 1));
        }
        assert_lost(&mut with(PortState::Down).0, sent, Drop::SwNoRoute, End::Switch(0, 1));
    }
    let (mut engine, port0) = with(PortState::Active);
    engine.set_port(0, port0, port_config(PortState::Active, 0));
    engine.inject(0, 0, Sent { dlid: 0, ..PLAIN }.packet(), PLAIN.address());
    engine.handle_timeout(LONG);
    assert_eq!(dropped(&mut engine), [("sw_no_route", 1)], "no port has LID 0");

    let (mut engine, port0) = with(PortState::Active);
    let mut config = port_config(PortState::Active, 9);
    config.egress.vl_mtus = Some([0; MAX_VLS]); // a limit of its link, which it has not
    engine.set_port(0, port0, config);
    let from = Sent { slid: 9, ..PLAIN };
    assert_eq!(engine.inject(0, port0, from.packet(), from.address()), None);
    assert_eq!(engine.direct(0, port0, 3, &Sent { slid: 9, dlid: 3, ..PLAIN }.packet()), None);
    engine.handle_timeout(LONG);
    assert_eq!(received(&mut engine), [(1, 0), (2, 0)]);
    let passed = engine.take_counted().into_iter().find_map(|counted| match counted {
        Counted::Switch { counted, .. } => Some((counted.element.in_packets, counted.element.out_packets)),
        _ => None,
    });
    assert_eq!(passed, Some((2, 2)));
    engine.set_switch(LONG, 0, false);
    assert_eq!(engine.direct(LONG, port0, 3, &from.packet()), None);
    engine.handle_timeout(2 * LONG);
    assert_eq!(dropped(&mut engine), [("sw_down", 1)]);
    assert_eq!(engine.direct(LONG, port0, 3, &from.packet()[1..]), Some(Drop::TxMalformed));
    engine.set_port(LONG, port0, port_config(PortState::Down, 9));
    assert_eq!(engine.direct(LONG, port0, 3, &from.packet()), Some(Drop::TxPortDown));
}

#[test]
fn copies_go_to_the_other_ports_of_the_group_and_to_those_that_have_joined() {
    let to_group = Sent { dlid: GROUP, ..PLAIN };
    let with = |tree: &[u16]| {
        let mut engine = engine();
        let lft = LinearTable { entries: [0, 1, 2, 3].into(), groups: vec![] };
        engine.set_tables(0, 0, lft, MulticastTable::from_iter([(GROUP, Arc::from(tree))]));
        engine
    };
    assert_received(&mut with(&[1, 2, 3]), to_group, &[1, 2], 0);
    assert_received(&mut with(&[1, 3]), to_group, &[2], 0);
    assert_lost(&mut with(&[2, 3]), to_group, Drop::SwNoGroup, End::Switch(0, 1));
    assert_lost(&mut with(&[1, 2]), Sent { dlid: GROUP + 1, ..PLAIN }, Drop::SwNoGroup, End::Switch(0, 1));
    let mut alone = with(&[1]);
    alone.inject(0, 0, to_group.packet(), to_group.address());
    alone.handle_timeout(LONG);
    assert_eq!(dropped(&mut alone), [("sw_no_group", 1)]);
    assert_eq!(alone.port_errors(LONG, End::Switch(0, 1)), [], "the only member of a group makes no error");

    let mut engine = with(&[1, 2]);
    let mut left = PortConfig::new(PortState::Active, 2, 0, vec![PKEY], vec![PKEY], vec![]);
    engine.set_port(0, 1, left.clone());
    assert_lost(&mut engine, to_group, Drop::RxDlid, End::Hfi(1));
    let mut engine = with(&[1, 2]);
    left.any_group = true;
    engine.set_port(0, 1, left);
    assert_received(&mut engine, to_group, &[1], 0);

    let mut engine = with(&[0, 1, 2]);
    let port0 = engine.add_port0(0);
    engine.set_port(0, port0, port_config(PortState::Active, 9));
    engine.inject(0, 0, to_group.packet(), to_group.address());
    engine.handle_timeout(LONG);
    assert_eq!(received(&mut engine), [(port0, 0), (1, 0)]);
    let copies = |engine: &mut Engine| {
        engine.take_counted().into_iter().find_map(|counted| match counted {
            Counted::Switch { counted, .. } => Some((counted.element.copies, counted.element.out_packets)),
            _ => None,
        })
    };
    assert_eq!(copies(&mut engine), Some((1, 2)));
    let mut engine = with(&[1, 2]);
    engine.inject(0, 0, to_group.packet(), to_group.address());
    engine.handle_timeout(LONG);
    assert_eq!(copies(&mut engine), Some((0, 1)), "what goes to one port is no copy");
}

#[test]
fn packet_has_visited_each_switch_that_it_enters_and_no_more_than_there_are() {
    let mut engine = engine();
    let port0 = engine.add_port0(0);
    engine.set_port(0, port0, port_config(PortState::Active, 9));
    let streams = [0, 1].map(|seed| (Stream::new(seed), Stream::new(seed)));
    let leaves = engine.add_link([End::Switch(0, 4), End::Boundary], [(&FAST, None); 2], streams);
    engine.set_switch_port(0, 0, 4, active());
    let lft = LinearTable { entries: [0, 1, 2, 4].into(), groups: vec![] };
    engine.set_tables(0, 0, lft, MulticastTable::from_iter([(GROUP, Arc::from([2, 4]))]));
    let away = Sent { dlid: 3, ..PLAIN };
    engine.inject(0, 0, away.packet(), away.address());
    engine.direct(0, port0, 4, &Sent { slid: 9, ..away }.packet());
    engine.handle_timeout(LONG);
    let hops: Vec<u32> = std::iter::from_fn(|| engine.poll_output())
        .filter_map(|output| match output {
            Output::Departed { burst, .. } => Some(burst.hops()),
            _ => None,
        })
        .collect();
    assert_eq!(hops, [1, 1]);
    for (dlid, drop) in [(2, "sw_no_route"), (GROUP, "sw_no_group")] {
        let packet = Sent { slid: 3, dlid, ..PLAIN }.packet();
        engine.take_counted();
        engine.cross(LONG, leaves + 1, packet.clone(), 0);
        engine.handle_timeout(2 * LONG);
        assert_eq!((received(&mut engine), dropped(&mut engine)), (vec![(1, 0)], vec![]));
        engine.cross(2 * LONG, leaves + 1, packet, 1);
        engine.handle_timeout(3 * LONG);
        assert_eq!((received(&mut engine), dropped(&mut engine)), (vec![], vec![(drop, 1)]));
    }
}

#[test]
fn deadline_is_at_a_switch_only_where_its_port_0_may_get_a_mad() {
    let mut mad = MANAGEMENT.packet().to_vec();
    mad[8] = L4_FM; // bits 64 to 71
    for (state, bytes, at_switch) in [
        (PortState::Active, &mad[..], true),
        (PortState::Active, &MANAGEMENT.packet()[..], false),
        (PortState::Active, &mad[..16], true),
        (PortState::Active, &mad[..12], false),
        (PortState::Down, &mad[..], false),
    ] {
        let mut engine = engine();
        let port0 = engine.add_port0(0);
        engine.set_port(0, port0, port_config(state, 9));
        engine.inject(0, 0, bytes.into(), MANAGEMENT.address());
        let arrival = (bytes.len() as u64 * 8).div_ceil(100) + 300; // at 100 Gbit/s
        assert_eq!(engine.deadline(), Some(if at_switch { arrival } else { arrival + 300 }));
        // what is already on its way may be for it
        if state == PortState::Down {
            engine.set_port(0, port0, port_config(PortState::Active, 9));
            assert_eq!(engine.deadline(), Some(arrival));
        }
    }
}

#[test]
fn receiver_refuses_what_is_not_for_it_not_of_its_partitions_or_not_whole() {
    let mut engine = engine();
    engine.set_port(0, 1, PortConfig::new(PortState::Active, 2, 0, vec![PKEY], vec![PKEY], vec![]));
    assert_lost(&mut engine, Sent { pkey: OTHER, ..PLAIN }, Drop::RxPkey, End::Hfi(1));
    let lft = LinearTable { entries: [0, 1, 3].into(), groups: vec![] };
    engine.set_tables(LONG, 0, lft, MulticastTable::default());
    assert_lost(&mut engine, PLAIN, Drop::RxDlid, End::Hfi(2));

    let mut pair = Engine::default();
    for lid in [1, 2] {
        let port = pair.add_port();
        pair.set_port(0, port, port_config(PortState::Active, lid));
    }
    let streams = [0, 1].map(|seed| (Stream::new(seed), Stream::new(seed)));
    pair.add_link([End::Hfi(0), End::Hfi(1)], [(&FAST, None); 2], streams);
    let to_any = Sent { dlid: LID_PERMISSIVE, ..MANAGEMENT };
    assert_received(&mut pair, to_any, &[1], SC_MANAGEMENT);
    let whole = PLAIN.packet();
    for (bytes, drop) in [
        (&whole[..20], "rx_truncated"),
        (&whole[..whole.len() - 8], "rx_length"),
        (&[&whole[..500], &[0], &whole[501..]].concat()[..], "rx_icrc"),
    ] {
        pair.inject(LONG, 0, bytes.into(), PLAIN.address());
        pair.handle_timeout(2 * LONG);
        assert_eq!(dropped(&mut pair), [(drop, 1)]);
    }
    assert_eq!(received(&mut pair), []);
}

#[test]
fn stalled_port_keeps_a_mebibyte_and_gives_it_in_order_when_it_goes_on() {
    let mut engine = engine();
    let most = RX_BUFFER_BYTES / PLAIN.packet().len();
    let mut now = 0;
    for sent in [1, most, most + 1] {
        engine.stall_port(now, 1, true);
        let channels = (0..sent as u32).map(|number| number % SC_MANAGEMENT);
        for sc in channels.clone() {
            engine.inject(now, 0, Sent { sc, ..PLAIN }.packet(), PLAIN.address());
            now += 10_000;
            engine.handle_timeout(now);
        }
        let overflow = [("rx_overflow", 1)];
        assert_eq!(dropped(&mut engine), if sent > most { &overflow[..] } else { &[] });
        assert_eq!(received(&mut engine), []);
        engine.stall_port(now, 1, false);
        let kept: Vec<_> = channels.take(most).map(|sc| (1, sc)).collect();
        assert_eq!(received(&mut engine), kept, "and its room is free again");
    }
    let errors = engine.port_errors(now, End::Hfi(1));
    assert_eq!(
        errors.iter().map(|error| (error.reason, error.packets)).collect::<Vec<_>>(),
        [(Drop::RxOverflow, 1)]
    );
}

#[test]
fn data_that_is_no_packet_is_refused_and_counted() {
    let whole = PLAIN.packet();
    let mut longest = vec![0; MAX_PACKET];
    longest[..20].copy_from_slice(&whole[..20]);
    for (state, data, drop) in [
        (PortState::Active, &whole[..], None),
        (PortState::Active, &whole[..whole.len() - 1], Some(Drop::TxMalformed)),
        (PortState::Active, &longest[..], Some(Drop::TxMalformed)),
        (PortState::Active, &[&longest[..], &[0]].concat()[..], Some(Drop::TxMtu)),
        (PortState::Down, &whole[..], Some(Drop::TxPortDown)),
        (PortState::Down, &whole[..whole.len() - 1], Some(Drop::TxPortDown)),
    ] {
        let mut engine = engine();
        engine.set_port(0, 0, port_config(state, 1));
        assert_eq!(engine.send(0, 0, data), drop);
        engine.handle_timeout(LONG);
        let sent = engine.take_counted().into_iter().find_map(|counted| match counted {
            Counted::Port { port: 0, counted } => {
                Some((counted.0.element.in_packets, counted.0.element.dropped()))
            }
            _ => None,
        });
        assert_eq!(sent, Some((1, u64::from(drop.is_some()))));
    }
}

#[test]
fn stalled_port_holds_the_room_of_what_it_keeps_until_it_goes_on() {
    let mut line = Line::with(0, &FAST, Some(&one_lane()));
    let inside = |line: &mut Line| {
        let of = |counted: Counted| match counted {
            Counted::Port { port: RECEIVER, counted } => Some(counted.1.in_flight),
            _ => None,
        };
        line.engine.take_counted().into_iter().find_map(of)
    };
    line.engine.stall_port(0, RECEIVER, true);
    let len = line.packet(8000).len() as u64;
    for _ in 0..2 {
        line.send(0, line.packet(8000));
    }
    line.engine.handle_timeout(LONG);
    assert_eq!(line.engine.lanes(0).unwrap().occupied, [2 * len]);
    assert_eq!((received(&mut line.engine), inside(&mut line)), (vec![], Some(2)));
    line.engine.stall_port(LONG, RECEIVER, false);
    let tokens: Vec<u64> = std::iter::from_fn(|| line.engine.poll_output())
        .filter_map(|output| match output {
            Output::Delivered { token, .. } => token,
            _ => None,
        })
        .collect();
    assert_eq!((tokens.len(), inside(&mut line)), (2, Some(0)), "now they are at the host");
    for token in tokens {
        line.engine.release(LONG, token);
    }
    assert_eq!(line.engine.lanes(0).unwrap().occupied, [0]);
    line.engine.account(RECEIVER, 2, len as usize, None);
    assert_eq!(inside(&mut line), Some(-2));
    line.send(LONG, line.packet(8000));
    line.engine.handle_timeout(2 * LONG);
    assert_eq!(received(&mut line.engine).len(), 1, "it is not stalled any more");
}

#[test]
fn receiver_of_a_marked_packet_tells_its_sender_once() {
    let mut engine = engine();
    let answer = Sent { slid: 2, dlid: 1, ..PLAIN };
    let marked = |engine: &mut Engine, sent: Sent| engine.packets().with_fecn(sent.packet());
    let is_told = |engine: &mut Engine, now: u64, sent: Sent| {
        engine.inject(now, 1, sent.packet(), sent.address());
        engine.handle_timeout(now + LONG);
        std::iter::from_fn(|| engine.poll_output())
            .filter_map(|output| match output {
                Output::Delivered { burst, .. } => Some(becn(&burst.packet)),
                _ => None,
            })
            .last()
    };
    assert_eq!(is_told(&mut engine, 0, answer), Some(false));
    let packet = marked(&mut engine, PLAIN);
    engine.inject(LONG, 0, packet, PLAIN.address());
    engine.handle_timeout(2 * LONG);
    assert_eq!(
        is_told(&mut engine, 3 * LONG, Sent { dlid: 3, ..answer }),
        Some(false),
        "another did not mark"
    );
    assert_eq!(is_told(&mut engine, 4 * LONG, answer), Some(true));
    assert_eq!(is_told(&mut engine, 5 * LONG, answer), Some(false));
    let to_group = Sent { dlid: GROUP, ..PLAIN };
    let packet = marked(&mut engine, to_group);
    engine.inject(6 * LONG, 0, packet, to_group.address());
    engine.handle_timeout(7 * LONG);
    assert_eq!(is_told(&mut engine, 8 * LONG, answer), Some(false), "a group is too many to tell");
    let mut counted: Vec<_> = engine
        .take_counted()
        .into_iter()
        .filter_map(|counted| match counted {
            Counted::Congestion { port, counted: c } => {
                Some((port, c.fecn_received, c.becn_sent, c.becn_received))
            }
            _ => None,
        })
        .collect();
    counted.sort();
    assert_eq!(counted, [(0, 0, 0, 1), (1, 2, 1, 0), (2, 1, 0, 0)]);
}
