//! The core as a whole: two hosts on a switch.

use engine::core::fabric::{Direction, End, Fabric, Fault, Link, Switch, SwitchPort};
use engine::core::{Core, Options};
use engine::counters::{Drop, FaultCount};
use engine::testing::{Kept, assert_balance, two_hosts};
use offload::testing::LargeSend;
use offload::vnet::{SIZE, VnetHeader};

const OPTIONS: Options = Options { icrc: true, merge: true, enforce: true };

/// An Ethernet frame to the locally administered address of LID 2.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0x06, 0x2c, 0x00, 0x02, 0, 0, 0x06, 0x2c, 0x00, 0x01, 0, 0, 0x88, 0xb5];
    frame.resize(len, 0x5a);
    frame
}

fn send(core: &mut Core, host: &mut Kept, len: usize) {
    let mut buffer = frame(len);
    buffer.resize(len.max(60), 0);
    core.transmit(0, &VnetHeader::default(), &mut buffer, len, None);
    core.flush(host);
}

#[test]
fn frame_reaches_the_vport_that_its_address_names() {
    let (mut core, mut host) = (two_hosts(OPTIONS), Kept::default());
    for len in [60, 61, 1000, 1514] {
        send(&mut core, &mut host, len);
        let (vport, bytes) = host.frames.pop().unwrap();
        assert_eq!((vport, &bytes[SIZE..]), (1, &frame(len)[..]));
    }
    assert_eq!(core.vports[1].counters.rx.packets, 4);
    assert_balance(&core);
}

/// Two hosts; what enters the second link from the switch takes these chances.
fn with_faults(faults: &[Fault]) -> Core {
    let mut core = two_hosts(OPTIONS);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.links[1].faults[1] = faults.to_vec();
    core.set_fabric(fabric).unwrap();
    core
}

const ALWAYS: u64 = 1 << 53;

#[test]
fn damage_of_every_packet_is_rejected_before_the_vport() {
    for bits in [1, 2, 3, 40] {
        let mut core = with_faults(&[Fault { chance: ALWAYS, bits }]);
        let mut host = Kept::default();
        for _ in 0..1000 {
            send(&mut core, &mut host, 200);
        }
        assert!(host.frames.is_empty());
        assert_eq!(core.port_rx[1].drops[Drop::RxIcrc as usize], 1000);
        assert_eq!(core.fault_counts[1][1], [FaultCount { seen: 1000, hits: 1000 }]);
        assert_balance(&core);
    }
}

#[test]
fn icrc_that_was_left_out_is_there_where_a_packet_is_damaged_or_handed_over() {
    let mut core = with_faults(&[Fault { chance: ALWAYS / 2, bits: 1 }]);
    core.options.icrc = false;
    let mut host = Kept::default();
    for _ in 0..100 {
        send(&mut core, &mut host, 200);
    }
    let hits = core.fault_counts[1][1][0].hits;
    assert!(hits > 20 && core.port_rx[1].drops[Drop::RxIcrc as usize] == hits);
    assert_eq!(host.frames.len() as u64, 100 - hits);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.links[1].slow = true;
    core.set_fabric(fabric).unwrap();
    send(&mut core, &mut host, 200);
    assert_eq!(wire::check(&core.upcalls.pop_front().unwrap().packet, true), Ok(()));
}

#[test]
fn loss_takes_its_share_and_later_faults_see_what_it_leaves() {
    let mut core =
        with_faults(&[Fault { chance: ALWAYS / 4, bits: 0 }, Fault { chance: ALWAYS / 2, bits: 1 }]);
    let mut host = Kept::default();
    for _ in 0..4000 {
        send(&mut core, &mut host, 200);
    }
    let [loss, corrupt] = core.fault_counts[1][1][..] else { panic!("two faults were set") };
    assert!((900..1100).contains(&loss.hits));
    assert_eq!((loss.seen, corrupt.seen), (4000, 4000 - loss.hits));
    assert!((1350..1650).contains(&corrupt.hits));
    assert_eq!(core.directions[1][1].drops[Drop::LinkFault as usize], loss.hits);
    assert_eq!(core.port_rx[1].drops[Drop::RxIcrc as usize], corrupt.hits);
    assert_eq!(host.frames.len() as u64, 4000 - loss.hits - corrupt.hits);
    assert_balance(&core);
}

#[test]
fn fault_of_one_way_leaves_the_other_alone() {
    let mut core = with_faults(&[Fault { chance: ALWAYS, bits: 0 }]);
    let mut host = Kept::default();
    let mut back = frame(100);
    back[3] = 1;
    core.transmit(1, &VnetHeader::default(), &mut back, 100, None);
    core.flush(&mut host);
    assert_eq!(host.frames.len(), 1);
    assert!(core.fault_counts[1][0].is_empty());
}

#[test]
fn host_that_refuses_is_counted_per_frame() {
    let (mut core, mut host) = (two_hosts(OPTIONS), Kept { refuses: true, ..Kept::default() });
    send(&mut core, &mut host, 100);
    assert_eq!(core.vports[1].counters.rx_fifo_errors, 1);
    assert_eq!(core.vports[1].counters.rx.packets, 0);
    assert_balance(&core);
}

#[test]
fn slow_link_hands_the_sealed_packet_to_python() {
    let mut core = two_hosts(OPTIONS);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.links[0].slow = true;
    core.set_fabric(fabric).unwrap();
    let mut host = Kept::default();
    send(&mut core, &mut host, 100);
    let upcall = core.upcalls.pop_front().unwrap();
    assert_eq!(upcall.direction, Direction { link: 0, from: 0 });
    assert_eq!(wire::check(&upcall.packet, true), Ok(()));
    assert!(host.frames.is_empty());
}

#[test]
fn fabric_whose_indexes_point_nowhere_is_refused() {
    let mut core = two_hosts(OPTIONS);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.switches[0].lft[1] = 7;
    assert!(core.set_fabric(fabric).is_err());
}

#[test]
fn vport_whose_port_left_the_fabric_sends_nothing() {
    let (mut core, mut host) = (two_hosts(OPTIONS), Kept::default());
    core.set_fabric(Fabric::default()).unwrap();
    send(&mut core, &mut host, 100);
    assert_eq!(core.vports[0].counters.tx_drop_state, 1);
    assert!(host.frames.is_empty());
    assert_balance(&core);
}

/// The fabric of `two_hosts` with two more switches in a ring with the first, which knows LID 2 no more.
fn with_ring(options: Options) -> Core {
    let mut core = two_hosts(options);
    let mut fabric = Fabric::clone(&core.fabric);
    let port = |link, from| SwitchPort { active: true, direction: Some(Direction { link, from }) };
    let ring = |from, to| Link {
        ends: [
            End::Switch(from, if from == 0 { 3 } else { 1 }),
            End::Switch(to, if to == 0 { 2 } else { 0 }),
        ],
        up: true,
        slow: false,
        faults: Default::default(),
        streams: [0, 0],
    };
    fabric.links.extend([ring(0, 1), ring(1, 2), ring(2, 0)]);
    fabric.switches[0].ports.extend([port(4, 1), port(2, 0)]);
    fabric.switches[0].lft[2] = 3;
    for (ports, group) in [([port(2, 1), port(3, 0)], vec![0, 1]), ([port(3, 1), port(4, 0)], vec![0, 1])] {
        let mft = [(0xf0_0000, group)].into_iter().collect();
        fabric.switches.push(Switch { up: true, ports: ports.into(), lft: vec![0, 0, 1], mft });
    }
    fabric.switches[0].mft.insert(0xf0_0000, vec![0, 1, 2, 3]);
    core.set_fabric(fabric).unwrap();
    core
}

#[test]
fn routes_in_a_circle_end_in_a_counted_drop() {
    let large = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 14_480, size: 1448 };
    for icrc in [true, false] {
        let mut core = with_ring(Options { icrc, ..OPTIONS });
        let mut host = Kept::default();
        send(&mut core, &mut host, 100);
        let (header, mut bytes) = large.build();
        let len = bytes.len();
        core.transmit(0, &header, &mut bytes, len, None);
        core.flush(&mut host);
        let lost =
            |core: &Core, reason: Drop| core.switches.iter().map(|s| s.drops[reason as usize]).sum::<u64>();
        assert_eq!(lost(&core, Drop::SwNoRoute), 11);
        assert!(host.frames.is_empty());
        let mut group = frame(100);
        group[..6].fill(0xff);
        core.transmit(0, &VnetHeader::default(), &mut group, 100, None);
        core.flush(&mut host);
        assert!(lost(&core, Drop::SwNoGroup) >= 2);
        assert_balance(&core);
    }
}
