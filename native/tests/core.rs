//! The core as a whole: two hosts on a switch.

use opavnic_native::core::{Core, Options};
use opavnic_native::counters::Drop;
use opavnic_native::fabric::Fabric;
use opavnic_native::testing::{Kept, assert_balance, two_hosts};
use opavnic_native::vnet::{SIZE, VnetHeader};

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

#[test]
fn damage_of_every_packet_is_rejected_before_the_vport() {
    let mut core = two_hosts(OPTIONS);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.links[1].corrupt = u32::MAX;
    core.set_fabric(fabric).unwrap();
    let mut host = Kept::default();
    for _ in 0..2000 {
        send(&mut core, &mut host, 200);
    }
    // a flipped bit of SC, FECN, BECN or age is none of the ICRC's business; one in a thousand or so
    assert!(host.frames.iter().all(|(_, bytes)| bytes[SIZE..] == frame(200)[..]));
    assert!(host.frames.len() < 60);
    assert!(core.port_rx[1].drops[Drop::RxIcrc as usize] > 1800);
    assert_balance(&core);
}

#[test]
fn host_that_refuses_is_counted_per_frame() {
    let (mut core, mut host) = (two_hosts(OPTIONS), Kept { refuses: true, ..Kept::default() });
    send(&mut core, &mut host, 100);
    assert_eq!(core.vports[1].counters.rx_fifo, 1);
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
    assert_eq!(upcall.lane, (0, 0));
    assert_eq!(opavnic_native::wire::check(&upcall.packet, true), Ok(()));
    assert!(host.frames.is_empty());
}

#[test]
fn fabric_whose_indexes_point_nowhere_is_refused() {
    let mut core = two_hosts(OPTIONS);
    let mut fabric = Fabric::clone(&core.fabric);
    fabric.switches[0].lft[1] = 7;
    assert!(core.set_fabric(fabric).is_err());
}
