//! Segments that travel together arrive, and count, as they would one by one.

use std::sync::Arc;

use engine::core::fabric::Fabric;
use engine::core::{Core, Options};
use engine::counters::Drop;
use engine::testing::{Kept, assert_balance, assert_same_counters, two_hosts, two_hosts_one_by_one};
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;

const OPTIONS: Options = Options { icrc: true, merge: true, enforce: true };

/// Several sends in one burst from vport 0, through both cores; return what the hosts got, which is the same.
fn both_ways(
    options: Options,
    sends: &[(VnetHeader, Vec<u8>)],
    prepare: impl Fn(&mut Core),
) -> (Core, Vec<(usize, Vec<u8>)>) {
    let mut cores = [two_hosts(options), two_hosts_one_by_one(options)];
    let mut hosts = [Kept::default(), Kept::default()];
    for (core, host) in cores.iter_mut().zip(&mut hosts) {
        prepare(core);
        core.vports[1].take_datagrams_merged(true);
        for (header, frame) in sends {
            let mut buffer = frame.clone();
            core.transmit(0, header, &mut buffer, frame.len(), None);
        }
        core.flush(host);
        assert_balance(core);
    }
    let [together, one_by_one] = cores;
    let [received, expected] = hosts;
    assert!(received.frames == expected.frames, "{} and {}", received.frames.len(), expected.frames.len());
    assert_same_counters(&together, &one_by_one);
    (together, received.frames)
}

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
fn every_kind_of_send_arrives_as_it_would_one_by_one() {
    all_kinds(|send| {
        for flags in [0x10, 0x19, 0x18, 0x11, 0x90, 0x50, 0x30] {
            for (icrc, merge) in [(true, true), (false, true), (true, false)] {
                let options = Options { icrc, merge, enforce: true };
                let first = continued(send, 0, flags);
                let second = continued(send, send.payload as u32, 0x18);
                let (core, frames) = both_ways(options, &[first, second], |_| {});
                assert!(!frames.is_empty());
                let cut = 2 * send.payload.div_ceil(usize::from(send.size)) as u64;
                assert_eq!(core.vports[1].counters.rx.packets, cut);
            }
        }
    });
}

#[test]
fn every_reason_to_end_counts_as_it_would_one_by_one() {
    type Change = fn(&mut Fabric);
    let changes: [(Change, Drop); 8] = [
        (|fabric| fabric.ports[0].active = false, Drop::TxPortDown),
        (|fabric| fabric.ports[0].sendable.0.clear(), Drop::TxPkey),
        (|fabric| fabric.links[0].up = false, Drop::LinkDown),
        (|fabric| fabric.switches[0].up = false, Drop::SwDown),
        (|fabric| fabric.switches[0].lft.truncate(2), Drop::SwNoRoute),
        (|fabric| fabric.switches[0].ports[1].active = false, Drop::SwPortDown),
        (|fabric| fabric.ports[1].admitted.0.clear(), Drop::RxPkey),
        (|fabric| fabric.ports[1].demux.vports.clear(), Drop::VnicNoVesw),
    ];
    let send = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 14_480, size: 1448 };
    for (change, reason) in changes {
        let (core, frames) = both_ways(OPTIONS, &[send.build()], |core| {
            let mut fabric = Fabric::clone(&core.fabric);
            change(&mut fabric);
            core.set_fabric(fabric).unwrap();
        });
        assert!(frames.is_empty());
        let elements = core.port_tx.iter().chain(&core.port_rx).chain(&core.switches);
        let dropped: u64 = elements
            .chain(core.directions.iter().flatten())
            .map(|element| element.drops[reason as usize])
            .sum();
        assert_eq!(dropped, 10, "{reason:?}");
    }
}

#[test]
fn what_a_vport_does_not_take_counts_as_it_would_one_by_one() {
    let send = LargeSend { ipv6: true, tcp: true, tags: 0, payload: 14_000, size: 1400 };
    for (mtu, oper_up) in [(1500, false), (1000, true)] {
        let (core, frames) = both_ways(OPTIONS, &[send.build()], |core| {
            let config = Arc::make_mut(&mut core.vports[1].config);
            (config.mtu, config.oper_up) = (mtu, oper_up);
        });
        assert!(frames.is_empty());
        let counters = &core.vports[1].counters;
        assert_eq!(counters.rx_drop_state + counters.rx_oversize, 10);
    }
}

#[test]
fn sends_of_several_flows_in_one_burst_stay_apart() {
    let mut sends = Vec::new();
    for part in 0..3 {
        for flow in 0..20 {
            let send = LargeSend { ipv6: flow % 2 == 0, tcp: true, tags: 0, payload: 4200, size: 1400 };
            let (header, mut frame) = continued(&send, part * 4200, 0x10);
            frame[usize::from(header.csum_start) + 1] = flow;
            sends.push((header, frame));
        }
    }
    let (_, frames) = both_ways(OPTIONS, &sends, |_| {});
    assert!(frames.len() >= 20);
}
