//! The load balancer's pipeline as a thread uses it.

#[path = "../../engine/tests/allocations/mod.rs"]
mod allocations;

use std::ops::Range;
use std::sync::Arc;

use ejfat::counters::Counters;
use ejfat::drops::Drop;
use ejfat::parse::headers;
use ejfat::pipeline::{Outcome, process};
use ejfat::shared::{MAX_PUNTS, Shared, Work};
use ejfat::tables::Row;
use ejfat::testing::{LB, MAC, WORKER, frame, tables};
use engine::testing::{TwoHosts, assert_balance};
use offload::vnet::{SIZE, VnetHeader};
use tap::carrier::Carrier;

fn work() -> Work {
    Work { tables: tables().into(), ..Work::default() }
}

#[test]
fn every_version_leaves_for_the_worker_with_a_right_header_checksum() {
    let tables = tables();
    let mut counters = Counters::default();
    for (version, removed) in [(1, 12), (2, 16), (3, 16)] {
        let mut buffer = frame(version, 5);
        let len = buffer.len();
        let Outcome::Forward(range) = process(&tables, &mut counters, &mut buffer) else {
            panic!("version {version} does not leave: {:?}", counters.drops);
        };
        let out = &buffer[range];
        assert_eq!(out.len(), len - removed);
        assert_eq!(out[30..34], WORKER.to_be_bytes());
        assert_eq!(out[40..42], [0, 0], "an absent checksum stays absent");
        assert!(out.ends_with(b"payload!"));
    }
    assert_eq!(counters.lbs[0].by_version, [1, 0, 0]);
    assert_eq!(counters.lbs[2].by_version, [0, 1, 1]);
    assert_eq!((counters.tx_packets, counters.balance()), (3, 0));
}

#[test]
fn every_prefix_and_every_changed_byte_is_accounted_for() {
    let tables = tables();
    let mut counters = Counters::default();
    for version in 0..5 {
        let whole = frame(version, 5);
        for len in 0..whole.len() {
            process(&tables, &mut counters, &mut whole[..len].to_vec());
        }
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut buffer = whole.clone();
                buffer[at] = value;
                let before = (buffer.clone(), counters.rx_packets);
                if process(&tables, &mut counters, &mut buffer) == Outcome::Punt {
                    assert_eq!((buffer, counters.rx_packets), before, "handed back as it came");
                }
            }
        }
    }
    assert_eq!(counters.balance(), 0);
}

/// The invariant of the fuzz target, on frames that are damaged at random (the same ones each time).
#[test]
fn damaged_frames_leave_are_dropped_or_are_handed_back() {
    let tables = tables();
    let mut random = 1u64;
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut counters = Counters::default();
    for round in 0..200_000 {
        let mut frame = frame((round % 4) as u8, round);
        if draw(4) == 0 {
            frame.splice(12..12, [0x81, 0x00, 0, draw(3) as u8]);
        }
        for _ in 0..draw(4) {
            let at = draw(frame.len());
            frame[at] = [draw(256) as u8, 0, 0xff, frame[at] ^ (1 << draw(8))][draw(4)];
        }
        if draw(8) == 0 {
            frame.truncate(draw(frame.len() + 1));
        }
        let mut buffer = frame.clone();
        match process(&tables, &mut counters, &mut buffer) {
            Outcome::Forward(range) => assert!(range.end == frame.len() && range.start <= 20),
            Outcome::Dropped(_) => {}
            Outcome::Punt => assert_eq!(buffer, frame),
        }
    }
    assert_eq!(counters.balance(), 0);
    assert!(counters.tx_packets > 20_000, "many are good all the same: {}", counters.tx_packets);
}

#[test]
fn tag_is_popped_and_a_punted_frame_has_it_back() {
    let tables = tables();
    let mut counters = Counters::default();
    let mut tagged = frame(2, 5);
    tagged.splice(12..12, [0x81, 0x00, 0, 7]);
    let mut buffer = tagged.clone();
    let Outcome::Forward(range) = process(&tables, &mut counters, &mut buffer) else { panic!("dropped") };
    assert_eq!(range.len(), tagged.len() - 4 - 16);
    assert_eq!(buffer[range][12..14], [0x81, 0x00]);
    let ports = 0..0x1_0000;
    let mut sync = tagged.clone();
    sync[46..48].copy_from_slice(b"LC");
    assert!(!headers(&sync).is_for_node(&sync, &ports), "of tagged frames, none is the node's");
    tagged[27] = 1; // ICMP
    let mut buffer = tagged.clone();
    assert_eq!(process(&tables, &mut counters, &mut buffer), Outcome::Punt);
    assert_eq!(buffer, tagged);
}

#[test]
fn source_filter_holds_for_version_1_where_it_is_said_so() {
    let mut tables = tables();
    tables.guard_v1 = true;
    let mut counters = Counters::default();
    // the filter of these tables is instance 2's: version 1 is instance 0's
    assert_eq!(process(&tables, &mut counters, &mut frame(1, 5)), Outcome::Dropped(Drop::SrcBlocked));
    assert_eq!(counters.lbs[0].last_tick, None, "a stranger's tick is not taken for one that was seen");
    tables.guard_v1 = false;
    assert!(matches!(process(&tables, &mut counters, &mut frame(1, 5)), Outcome::Forward(_)));
    assert_eq!(counters.balance(), 0);
}

#[test]
fn ticks_beyond_the_furthest_are_counted_and_hide_no_other_also_after_counts_were_taken() {
    let mut work = work();
    work.counters.lbs[2].furthest = Some(1000);
    for round in 1..3 {
        for tick in [5, 1000, 1001, u64::MAX] {
            assert!(work.take(&mut frame(2, tick)).is_some());
        }
        let taken = work.counters.take();
        let lb = &taken.lbs[2];
        assert_eq!((lb.max_tick, lb.last_tick, lb.ahead), (1000, Some(u64::MAX), 2), "round {round}");
        assert_eq!((taken.tx_packets, taken.balance()), (4, 0));
    }
    work.counters.lbs[2].furthest = None;
    work.take(&mut frame(2, u64::MAX));
    assert_eq!((work.counters.lbs[2].max_tick, work.counters.lbs[2].ahead), (u64::MAX, 0));
}

#[test]
fn frame_to_the_load_balancer_itself_comes_back_until_its_ttl_is_used_up() {
    let mut work = work();
    let member = |mac: u64, keep: u128| {
        let args = [u128::from(mac), u128::from(LB), 0x4c42, 0, keep];
        row(&[2, 0x0800, 9], &[u128::MAX; 3], "do_ipv4_member_rewrite", &args)
    };
    let sender = row(&[2, u128::from(LB)], &[u128::MAX; 2], "allow_ip_src", &[]);
    let tables = Arc::make_mut(&mut work.tables);
    tables.set("v2/v3:member_info_lookup_table", &[member(MAC, 1)], true).unwrap();
    tables.set("v2/v3:ipv4_src_filter_table", &[sender], false).unwrap();
    assert_eq!(work.take(&mut frame(2, 5)), None);
    assert_eq!(work.counters.drops[Drop::Ttl as usize], 1);
    assert_eq!((work.counters.rx_packets, work.counters.tx_packets), (64, 63));
    let tables = Arc::make_mut(&mut work.tables);
    tables.set("v2/v3:member_info_lookup_table", &[member(MAC, 0)], true).unwrap();
    assert_eq!(work.take(&mut frame(2, 5)), None);
    assert_eq!(work.counters.drops[Drop::ParserBadMagic as usize], 1, "without a header it is no data");
    assert_eq!(work.counters.balance(), 0);
}

#[test]
fn only_a_datagram_to_a_port_for_sync_messages_is_the_nodes() {
    let sync = |port: u16, options: usize| {
        let mut frame = frame(2, 5);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame[42..44].copy_from_slice(b"LC");
        frame[14] += (options / 4) as u8;
        frame.splice(34..34, vec![1; options]);
        frame
    };
    let is_for_node = |frame: &[u8], ports: &Range<u32>| headers(frame).is_for_node(frame, ports);
    let ports = 19531..19533;
    for options in [0, 4, 40] {
        assert!(is_for_node(&sync(19531, options), &ports) && is_for_node(&sync(19532, options), &ports));
        for port in [19530, 19533, 0x4c42] {
            assert!(!is_for_node(&sync(port, options), &ports));
        }
    }
    assert!(!is_for_node(&sync(19531, 0), &(0..0)), "no port takes sync messages");
    let whole = sync(19531, 0);
    assert!((0..44).all(|len| !is_for_node(&whole[..len], &ports)));
    let mut fragment = whole;
    fragment[21] = 1;
    assert!(!is_for_node(&fragment, &ports));
}

#[test]
fn steady_state_allocates_nothing() {
    let mut work = work();
    let frames = [frame(1, 5), frame(2, 6), frame(3, 7), frame(9, 8)];
    let mut buffer = [0; 256];
    let mut burst = |work: &mut Work| {
        for frame in &frames {
            let buffer = &mut buffer[..frame.len()];
            buffer.copy_from_slice(frame);
            work.take(buffer);
        }
    };
    burst(&mut work);
    let before = allocations::count();
    for _ in 0..100 {
        burst(&mut work);
    }
    assert_eq!(allocations::count(), before);
    assert_eq!(work.counters.tx_packets, 303);
}

#[test]
fn frames_of_the_node_wait_for_python_up_to_a_limit_and_are_counted_beyond() {
    let mut work = work();
    Arc::make_mut(&mut work.tables).sync_ports = 0x4c42..0x4c43;
    let mut sync = frame(2, 5);
    sync[42..44].copy_from_slice(b"LC");
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    for kept in [&mut sync, &mut arp] {
        assert!(work.take(kept).is_none());
    }
    assert_eq!(work.punts, [sync, arp.clone()]);
    assert_eq!(work.counters, Counters::default());
    for _ in 0..MAX_PUNTS {
        work.take(&mut arp);
    }
    assert_eq!(work.punts.len(), MAX_PUNTS);
    assert_eq!(work.counters.drops[Drop::HostQueue as usize], 2);
    assert_eq!((work.counters.rx_packets, work.counters.balance()), (2, 0));
}

/// A MAC that the datapath takes for the VNIC behind a LID.
fn lmac(lid: u128) -> u128 {
    0x062c_0000_0000 | lid << 16
}

fn row(values: &[u128], masks: &[u128], action: &str, args: &[u128]) -> Row {
    Row { values: values.to_vec(), masks: masks.to_vec(), action: action.into(), args: args.to_vec() }
}

#[test]
fn pipeline_behind_a_vport_answers_and_every_element_keeps_count() {
    let mut tables = tables();
    let (lb, worker) = (lmac(2), lmac(1));
    let gate = row(&[0, lb], &[0, u128::MAX], "set_mac_sa", &[lb]);
    tables.set("v2/v3:mac_dst_filter_table", &[gate], true).unwrap();
    let member = row(
        &[2, 0x0800, 9],
        &[u128::MAX; 3],
        "do_ipv4_member_rewrite",
        &[worker, u128::from(WORKER), 5000, 4, 0],
    );
    tables.set("v2/v3:member_info_lookup_table", &[member], true).unwrap();
    let shared = Shared::new(1).unwrap();
    shared.lock().tables = tables.into();
    let TwoHosts { engine, vnics, .. } = TwoHosts::default();
    let carrier = tap::shared::Shared::new(vec![(engine, vnics)]).unwrap();
    assert!(carrier.lock(0).set_app(1, Some(Arc::clone(&shared) as _)));
    let to_lb = |mut frame: Vec<u8>| {
        frame[0..6].copy_from_slice(&lb.to_be_bytes()[10..]);
        frame
    };
    let mut arp = frame(2, 5);
    arp[12..14].copy_from_slice(&[8, 6]);
    let sent = [to_lb(frame(2, 5)), to_lb(arp), to_lb(frame(7, 5)), to_lb(frame(3, 6))];
    for frame in &sent {
        let (mut buffer, len) = (frame.clone(), frame.len());
        carrier.input(0, 0, |Carrier { engine, vnics, .. }, now| {
            vnics.transmit(engine, now, 0, &VnetHeader::default(), (&mut buffer, len), None);
        });
    }
    carrier.input(0, 1_000_000, Carrier::pass);
    assert!(carrier.lock(0).devices.kept.is_empty(), "all of them are for the load balancer");
    carrier.input(0, 2_000_000, Carrier::pass);
    let kept = std::mem::take(&mut carrier.lock(0).devices.kept);
    assert_eq!(kept.len(), 2);
    for ((vport, out), port) in kept.iter().zip([5003u16, 5003]) {
        let out = &out[SIZE..];
        assert_eq!((*vport, out.len()), (0, 60.max(sent[0].len() - 16)));
        assert_eq!(out[0..6], worker.to_be_bytes()[10..]);
        assert_eq!(out[36..38], port.to_be_bytes());
    }
    let work = shared.lock();
    assert_eq!(work.punts, [sent[1].clone()]);
    assert_eq!(work.counters.drops[Drop::ParserBadVersion as usize], 1);
    assert_eq!((work.counters.tx_packets, work.counters.balance()), (2, 0));
    let carrier = carrier.lock(0);
    for vport in &carrier.vnics.vports {
        assert_balance(&vport.tx_balance);
        assert_balance(&vport.rx_balance);
    }
}
