//! Several workers with devices: hosts on a ring of switches all send to all, while links flap, tables are set anew, faults
//! hit, and the threads stop and go on. Socket pairs are in the place of TAPs.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{JoinHandle, yield_now};

use engine::api::{Counted, Engine};
use engine::counters::{Drop, Element, Passing};
use engine::encap::VportConfig;
use engine::link::config::LinkConfig;
use engine::link::rule::{FaultKind, FaultRule, Tally};
use engine::testing::line::FAST;
use engine::testing::ring::{PORTS, RING, SWITCHES, ring};
use engine::testing::star::{GROUP, PKEY};
use engine::vnics::Vnics;
use engine::vnics::demux::Demux;
use offload::vnet::SIZE;
use tap::carrier::Carrier;
use tap::devices::Device;
use tap::shared::Shared;
use tap::thread::Threads;

const VESW: u16 = 2;
const FRAMES: u32 = 60;
/// How many packets each fault is to hit.
const CUT: u64 = 20;
/// Where in a frame its number stands.
const NUMBER: usize = SIZE + 14;

fn vnics(engine: &mut Engine) -> Vnics {
    let mut vnics = Vnics::new(true, false);
    for port in 0..PORTS {
        let vport = vnics.add();
        vnics.vports[vport].port = Some(port);
        vnics.vports[vport].config = Arc::new(VportConfig {
            vesw_id: VESW,
            pkey: PKEY,
            slid: port + 1,
            u_mcast_dlid: GROUP,
            mtu: 1500,
            oper_up: true,
            ..VportConfig::default()
        });
        let vports = [(u32::from(VESW), vport as u32)].into_iter().collect();
        vnics.set_demux(engine, port, Demux { mask: 0xfff, vports, nohandler: None });
    }
    vnics
}

/// A frame from one host to another, or to all.
fn frame(from: u32, to: Option<u32>, number: u32) -> Vec<u8> {
    let mac = |host: u32| [0x06, 0x2c, 0, host as u8 + 1, 0, 0];
    let mut frame = vec![0; SIZE];
    frame.extend(to.map_or([0xff; 6], mac));
    frame.extend(mac(from));
    frame.extend(number.to_be_bytes());
    frame.resize(SIZE + 60 + number as usize % 7 * 200, 0x5a);
    frame
}

struct Bed {
    shared: Arc<Shared>,
    senders: Vec<JoinHandle<u64>>,
    /// Each gives how many frames its host received.
    receivers: Vec<JoinHandle<u64>>,
}

impl Bed {
    fn new(workers: u32) -> Self {
        let part = |worker| {
            let mut engine = Engine::of_worker(worker, workers);
            ring(&mut engine, &FAST, false, false);
            let vnics = vnics(&mut engine);
            (engine, vnics)
        };
        let shared = Shared::new((0..workers).map(part).collect()).unwrap();
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for host in 0..PORTS {
            let (near, device) = pair();
            let mut far = near.try_clone().unwrap();
            shared.lock_home(host as usize).set_device(host as usize, Some(Device::new(device))).unwrap();
            senders.push(std::thread::spawn(move || send(&mut far, host)));
            receivers.push(std::thread::spawn(move || receive(near, host)));
        }
        Bed { shared, senders, receivers }
    }

    fn change(&self, change: impl Fn(&mut Engine, u64)) {
        self.shared.change(0, |carrier, now| change(&mut carrier.engine, now));
    }

    /// Cut a link between switches and mend it, and set faults and tables anew: what was true stays true.
    fn disturb(&self, step: u32) {
        let link = RING + step % SWITCHES * 2;
        for up in [false, true] {
            for direction in [link, link + 1] {
                self.change(|engine, now| engine.set_link(now, direction, &LinkConfig { up, ..FAST }));
            }
            yield_now();
        }
    }

    /// Whether nothing is on its way, when so many frames have been sent.
    fn is_quiet(&self, sent: u64, counted: &mut Vec<Counted>) -> bool {
        let mut read = 0;
        let mut is_quiet = true;
        self.shared.change(0, |carrier, _| {
            let Carrier { engine, vnics, .. } = carrier;
            read += vnics.vports.iter().map(|vport| vport.tx_balance.in_packets).sum::<u64>();
            is_quiet &= engine.next_event().is_none() && !engine.hands_over() && !vnics.is_waiting();
            counted.extend(engine.take_counted());
        });
        is_quiet && read == sent
    }
}

/// A pair that keeps the bounds of what is written, as a TAP does.
fn pair() -> (UnixStream, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: an array of two descriptors, as the call wants; both are new and become owned here
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, fds.as_mut_ptr()), 0);
        assert_eq!(libc::fcntl(fds[1], libc::F_SETFL, libc::O_NONBLOCK), 0);
        (UnixStream::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    }
}

fn send(device: &mut UnixStream, host: u32) -> u64 {
    let mut sent = 0;
    for number in 0..FRAMES {
        let to_each = (0..PORTS).filter(|to| *to != host).map(Some);
        let to_all = number.is_multiple_of(10).then_some(None);
        for to in to_each.chain(to_all) {
            device.write_all(&frame(host, to, number)).unwrap();
            sent += 1;
        }
    }
    sent
}

/// Read until the device is gone, and see that each flow is in order; what a fault duplicates follows itself.
fn receive(mut device: UnixStream, host: u32) -> u64 {
    let (mut received, mut buffer) = (0, [0; 4096]);
    let mut latest: HashMap<(bool, u8), u32> = HashMap::new();
    while let Ok(len @ 1..) = device.read(&mut buffer) {
        let number = u32::from_be_bytes(buffer[NUMBER..NUMBER + 4].try_into().unwrap());
        let flow = (buffer[SIZE] == 0xff, buffer[SIZE + 9]);
        let before = latest.entry(flow).or_default();
        assert!(*before <= number, "{flow:?} to host {host}: {number} after {before}");
        *before = number;
        assert!(len >= SIZE + 60);
        received += 1;
    }
    received
}

fn rule(tally: u32, kind: FaultKind) -> FaultRule {
    FaultRule {
        count: Some(CUT),
        bits: 2,
        behind: 0,
        hold_ns: 0,
        ..FaultRule::plain(tally.into(), kind, (1 << 53) / 20, tally)
    }
}

#[derive(Default)]
struct Sum {
    copies: u64,
    in_flight: i64,
    drops: HashMap<usize, u64>,
}

impl Sum {
    fn add(&mut self, element: &Element, in_flight: i64) {
        let counts = |number: u64| number as i64;
        let ended = counts(element.out_packets + element.dropped()) + in_flight;
        assert_eq!(counts(element.in_packets + element.copies), ended, "{element:?}");
        self.copies += element.copies;
        self.in_flight += in_flight;
        for (reason, packets) in element.drops.iter().enumerate() {
            *self.drops.entry(reason).or_default() += packets;
        }
    }

    fn of(mut self, passing: &Passing) -> Self {
        self.add(&passing.element, passing.in_flight);
        self
    }
}

/// The counts of each element add up over workers and over the times that they were taken.
fn assert_all_counted(counted: Vec<Counted>) -> Sum {
    let mut elements: HashMap<(u8, u32), Passing> = HashMap::new();
    let mut enter = |kind, number, more: &Passing| {
        let sum = elements.entry((kind, number)).or_default();
        sum.in_flight += more.in_flight;
        let (element, more) = (&mut sum.element, &more.element);
        element.in_packets += more.in_packets;
        element.copies += more.copies;
        element.out_packets += more.out_packets;
        element.drops.iter_mut().zip(more.drops.iter()).for_each(|(sum, packets)| *sum += packets);
    };
    for one in &counted {
        match one {
            Counted::Port { port, counted } => {
                enter(0, *port, &counted.0);
                enter(1, *port, &counted.1);
            }
            Counted::Switch { switch, counted } => enter(2, *switch, counted),
            Counted::Direction { direction, counted, .. } => enter(3, *direction, counted),
            Counted::Congestion { .. } | Counted::Tally { .. } => {}
        }
    }
    elements.values().fold(Sum::default(), Sum::of)
}

#[test]
fn all_to_all_is_conserved_and_in_order_whatever_changes_meanwhile() {
    for workers in [1, 2, 4] {
        let mut bed = Bed::new(workers);
        let tallies: Vec<Arc<Tally>> = (0..2).map(|_| Arc::default()).collect();
        let mut threads = Threads::start(Arc::clone(&bed.shared)).unwrap();
        bed.change(|engine, now| {
            for (number, tally) in tallies.iter().enumerate() {
                engine.set_tally(number as u32, Arc::clone(tally));
            }
            for direction in 0..engine.directions() as u32 {
                let rules = vec![rule(0, FaultKind::Loss), rule(1, FaultKind::Duplicate)];
                engine.set_rules(now, direction, rules);
            }
        });
        let mut step = 0;
        while !bed.senders.iter().all(JoinHandle::is_finished) {
            bed.disturb(step);
            step += 1;
            if step % 8 == 0 {
                threads.stop(); // the hosts' frames wait meanwhile
                threads = Threads::start(Arc::clone(&bed.shared)).unwrap();
            }
        }
        let sent: u64 = bed.senders.drain(..).map(|sender| sender.join().unwrap()).sum();
        let mut counted = Vec::new();
        while !bed.is_quiet(sent, &mut counted) {
            yield_now();
        }
        threads.stop();
        assert_eq!(bed.shared.failure(), None);
        let (mut given, mut refused) = (0, 0);
        bed.shared.change(0, |carrier, _| {
            counted.extend(carrier.engine.take_counted());
            for vport in &carrier.vnics.vports {
                given += vport.rx_balance.out_packets;
                refused += vport.rx_balance.dropped();
            }
        });
        let sum = assert_all_counted(counted);
        assert_eq!(sum.in_flight, 0);
        let dropped: u64 = sum.drops.values().sum();
        assert_eq!(sent + sum.copies, given + refused + dropped, "{workers} workers");
        assert_eq!(sum.drops[&(Drop::LinkFault as usize)], CUT);
        assert_eq!((tallies[0].hits(), tallies[1].hits()), (CUT, CUT));
        drop(threads);
        drop(bed.shared); // its ends of the pairs
        assert_eq!(bed.receivers.into_iter().map(|it| it.join().unwrap()).sum::<u64>(), given);
    }
}
