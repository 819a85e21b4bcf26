//! VNICs over the engine: two hosts on a switch.

use std::sync::Arc;

use engine::api::Counted;
use engine::config::{End, PortConfig, PortState, SwitchPortConfig};
use engine::counters::Drop;
use engine::link::config::{LinkConfig, MAX_VLS, SERVICE_CHANNELS};
use engine::link::rule::FaultKind;
use engine::random::Stream;
use engine::switch::{LinearTable, MulticastTable};
use engine::testing::line::FAST;
use engine::testing::{ALWAYS, GROUP, Kept, PKEY, TwoHosts, dropped, port_config};
use engine::vnics::demux::Demux;
use offload::testing::LargeSend;
use offload::vnet::{SIZE, VnetHeader};

/// An Ethernet frame to the locally administered address of a LID.
fn frame(lid: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0x06, 0x2c, 0x00, lid, 0, 0, 0x06, 0x2c, 0x00, 0x01, 0, 0, 0x88, 0xb5];
    frame.resize(len, 0x5a);
    frame
}

fn send(bed: &mut TwoHosts, host: &mut Kept, len: usize) {
    bed.send(0, &VnetHeader::default(), &frame(2, len));
    bed.settle(host);
}

/// How many packets a fault has seen, and how many it has hit.
fn tally(counted: &[Counted], number: u32) -> (u64, u64) {
    let of = |element: &Counted| match element {
        Counted::Tally { tally, seen, hits } if *tally == number => Some((*seen, *hits)),
        _ => None,
    };
    counted.iter().find_map(of).unwrap_or_default()
}

/// The direction from the switch to the second host.
const LAST: u32 = 3;

#[test]
fn frame_reaches_the_vport_that_its_address_names() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    for len in [60, 61, 1000, 1514] {
        send(&mut bed, &mut host, len);
        let (vport, bytes) = host.frames.pop().unwrap();
        assert_eq!((vport, &bytes[SIZE..]), (1, &frame(2, len)[..]));
    }
    assert_eq!(bed.vnics.vports[1].counters.rx.packets, 4);
    bed.counted();
}

#[test]
fn nothing_is_written_before_it_has_arrived() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    let slow = LinkConfig { rate_bps: 8_000_000, latency_ns: 1_000_000, ..FAST };
    for direction in 0..4 {
        bed.engine.set_link(0, direction, &slow);
    }
    bed.send(0, &VnetHeader::default(), &frame(2, 75)); // a packet of 100 bytes and 100 us
    let due = 2 * (104_000 + 1_000_000);
    for (now, frames) in [(due - 1, 0), (due, 1)] {
        bed.engine.handle_timeout(now);
        while let Some(output) = bed.engine.poll_output() {
            bed.vnics.take(&mut bed.engine, output);
        }
        assert_eq!(bed.vnics.is_waiting(), frames > 0);
        bed.vnics.flush(&mut bed.engine, &mut host);
        assert_eq!(host.frames.len(), frames);
    }
}

#[test]
fn damage_of_every_packet_is_rejected_before_the_vport() {
    for icrc in [true, false] {
        let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
        bed.vnics.icrc = icrc;
        bed.disturb(LAST, &[(FaultKind::Corrupt, ALWAYS)]);
        for _ in 0..1000 {
            send(&mut bed, &mut host, 200);
        }
        assert!(host.frames.is_empty());
        let counted = bed.counted();
        assert_eq!(dropped(&counted, Drop::RxIcrc), 1000);
        assert_eq!(tally(&counted, 0), (1000, 1000));
    }
}

#[test]
fn loss_takes_its_share_and_later_faults_see_what_it_leaves() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    bed.disturb(LAST, &[(FaultKind::Loss, ALWAYS / 4), (FaultKind::Corrupt, ALWAYS / 2)]);
    for _ in 0..4000 {
        send(&mut bed, &mut host, 200);
    }
    let counted = bed.counted();
    let ((seen, lost), (later, damaged)) = (tally(&counted, 0), tally(&counted, 1));
    assert!((900..1100).contains(&lost));
    assert_eq!((seen, later), (4000, 4000 - lost));
    assert!((1350..1650).contains(&damaged));
    assert_eq!(dropped(&counted, Drop::LinkFault), lost);
    assert_eq!(dropped(&counted, Drop::RxIcrc), damaged);
    assert_eq!(host.frames.len() as u64, 4000 - lost - damaged);
}

#[test]
fn host_that_refuses_is_counted_per_frame() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept { refuses: true, ..Kept::default() });
    send(&mut bed, &mut host, 100);
    assert_eq!(bed.vnics.vports[1].counters.rx_fifo_errors, 1);
    assert_eq!(bed.vnics.vports[1].counters.rx.packets, 0);
    bed.counted();
}

#[test]
fn vport_without_a_port_sends_nothing() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    bed.vnics.vports[0].port = None;
    send(&mut bed, &mut host, 100);
    assert_eq!(bed.vnics.vports[0].counters.tx_drop_state, 1);
    assert!(host.frames.is_empty());
    bed.counted();
}

#[test]
fn packets_for_others_on_the_port_are_left_to_them() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    bed.vnics.set_demux(&mut bed.engine, 1, Demux { mask: 0xfff, ..Demux::default() });
    bed.send(0, &VnetHeader::default(), &frame(2, 100));
    assert_eq!(bed.settle(&mut host), 1);
    assert!(host.frames.is_empty());
}

// --- large sends ---------------------------------------------------------------------------------------------

fn all_kinds(mut check: impl FnMut(&LargeSend)) {
    for (ipv6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        for tags in 0..2 {
            for (payload, size) in [(5000, 1400), (64_000, 1400), (2800, 1400), (40_001, 1399), (900, 10)] {
                check(&LargeSend { ipv6, tcp, tags, payload, size });
            }
        }
    }
}

/// The send `later` bytes further on in its stream, with other TCP flags.
fn continued(send: &LargeSend, later: u32, flags: u8) -> (VnetHeader, Vec<u8>) {
    let (header, mut frame) = send.build();
    if send.tcp {
        let l4 = usize::from(header.csum_start);
        let seq = 0xffff_ff00u32.wrapping_add(later);
        frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
        frame[l4 + 13] = flags;
    }
    (header, frame)
}

#[test]
fn every_kind_of_send_is_cut_and_arrives_whole() {
    all_kinds(|send| {
        for flags in [0x10, 0x19, 0x18, 0x11, 0x90, 0x50, 0x30] {
            for (icrc, merge) in [(true, true), (false, true), (true, false)] {
                let (mut bed, mut host) = (TwoHosts::new(merge), Kept::default());
                bed.vnics.icrc = icrc;
                bed.vnics.vports[1].take_datagrams_merged(true);
                for (later, flags) in [(0, flags), (send.payload as u32, 0x18)] {
                    let (header, frame) = continued(send, later, flags);
                    bed.send(0, &header, &frame);
                }
                bed.settle(&mut host);
                let cut = 2 * send.payload.div_ceil(usize::from(send.size)) as u64;
                let counters = &bed.vnics.vports[1].counters;
                assert_eq!(counters.rx.packets, cut);
                assert_eq!(counters.rx_merged, cut - host.frames.len() as u64);
                // segments of less than a frame's 60 bytes bring padding, and are not merged
                assert!(!merge || send.size < 60 || host.frames.len() < cut as usize);
                bed.counted();
            }
        }
    });
}

#[test]
fn every_reason_to_end_counts_each_segment_once() {
    type Change = fn(&mut TwoHosts);
    let down = |lid| PortConfig::new(PortState::Down, lid, 0, vec![PKEY], vec![PKEY], vec![GROUP]);
    assert_ne!(down(1), port_config(1));
    let changes: [(Change, Drop); 13] = [
        (|bed| bed.engine.set_port(0, 0, port_config(3)), Drop::TxSlid),
        (
            |bed| {
                let mut config = port_config(1);
                config.egress.vl_mtus = Some([0; MAX_VLS]);
                bed.engine.set_port(0, 0, config);
            },
            Drop::TxMtu,
        ),
        (
            |bed| bed.engine.set_switch_port(0, 0, 1, SwitchPortConfig::plain(PortState::Armed)),
            Drop::SwPortDown,
        ),
        (
            |bed| {
                let sc_to_sc = [(2, [15; SERVICE_CHANNELS])].into();
                let config = SwitchPortConfig { sc_to_sc, ..SwitchPortConfig::plain(PortState::Active) };
                bed.engine.set_switch_port(0, 0, 1, config);
            },
            Drop::SwSc,
        ),
        (
            |bed| {
                // to another switch, which sends all back
                bed.engine.add_switch();
                let streams = [(Stream::new(1), Stream::new(2)); 2];
                let ends = [End::Switch(0, 3), End::Switch(1, 1)];
                bed.engine.add_link(ends, [(&FAST, None); 2], streams);
                bed.route(&[0, 1, 3]);
                let lft = LinearTable { entries: [0, 1, 1].into(), groups: vec![] };
                bed.engine.set_tables(0, 1, lft, MulticastTable::default());
                for (switch, port) in [(0, 3), (1, 1)] {
                    let config = SwitchPortConfig::plain(PortState::Active);
                    bed.engine.set_switch_port(0, switch, port, config);
                }
            },
            Drop::SwNoRoute,
        ),
        (
            |bed| {
                let down = PortConfig::new(PortState::Down, 1, 0, vec![PKEY], vec![PKEY], vec![GROUP]);
                bed.engine.set_port(0, 0, down)
            },
            Drop::TxPortDown,
        ),
        (
            |bed| {
                bed.engine.set_port(
                    0,
                    0,
                    PortConfig::new(PortState::Active, 1, 0, vec![], vec![PKEY], vec![GROUP]),
                )
            },
            Drop::TxPkey,
        ),
        (|bed| bed.engine.set_link(0, 0, &LinkConfig { up: false, ..FAST }), Drop::LinkDown),
        (|bed| bed.engine.set_switch(0, 0, false), Drop::SwDown),
        (|bed| bed.route(&[0, 1]), Drop::SwNoRoute),
        (
            |bed| bed.engine.set_switch_port(0, 0, 2, SwitchPortConfig::plain(PortState::Down)),
            Drop::SwPortDown,
        ),
        (
            |bed| {
                bed.engine.set_port(
                    0,
                    1,
                    PortConfig::new(PortState::Active, 2, 0, vec![PKEY], vec![], vec![GROUP]),
                )
            },
            Drop::RxPkey,
        ),
        (
            |bed| {
                let no_vnic = Demux { mask: 0xfff, nohandler: Some(1), ..Demux::default() };
                bed.vnics.set_demux(&mut bed.engine, 1, no_vnic);
            },
            Drop::VnicNoVesw,
        ),
    ];
    let (header, large) = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 14_480, size: 1448 }.build();
    for (change, reason) in changes {
        let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
        change(&mut bed);
        bed.send(0, &header, &large);
        bed.settle(&mut host);
        assert!(host.frames.is_empty());
        assert_eq!(dropped(&bed.counted(), reason), 10, "{reason:?}");
        let nohandler = bed.vnics.vports[1].counters.rx_nohandler;
        assert_eq!(nohandler, if reason == Drop::VnicNoVesw { 10 } else { 0 });
    }
}

#[test]
fn what_a_vport_does_not_take_is_counted() {
    let (header, large) = LargeSend { ipv6: true, tcp: true, tags: 0, payload: 14_000, size: 1400 }.build();
    for (mtu, oper_up) in [(1500, false), (1000, true)] {
        let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
        let config = Arc::make_mut(&mut bed.vnics.vports[1].config);
        (config.mtu, config.oper_up) = (mtu, oper_up);
        bed.send(0, &header, &large);
        bed.settle(&mut host);
        assert!(host.frames.is_empty());
        let counters = &bed.vnics.vports[1].counters;
        assert_eq!(counters.rx_drop_state + counters.rx_oversize, 10);
        bed.counted();
    }
}

#[test]
fn sends_of_several_flows_at_once_stay_apart() {
    let (mut bed, mut host) = (TwoHosts::default(), Kept::default());
    for part in 0..3 {
        for flow in 0..20 {
            let send = LargeSend { ipv6: flow % 2 == 0, tcp: true, tags: 0, payload: 4200, size: 1400 };
            let (header, mut frame) = continued(&send, part * 4200, 0x10);
            frame[usize::from(header.csum_start) + 1] = flow;
            bed.send(0, &header, &frame);
        }
    }
    bed.settle(&mut host);
    assert!(host.frames.len() >= 20);
    let of_one_flow = |parts: &[u8]| parts[SIZE..].len() > 1500;
    assert!(host.frames.iter().all(|(_, parts)| of_one_flow(parts)));
    bed.counted();
}
