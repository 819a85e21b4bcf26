//! The thread, with socket pairs in the place of TAPs: both keep frames apart.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use engine::api::{Counted, Engine};
use engine::app::{Batch, NativeApp, Outlet};
use engine::counters::Drop;
use engine::link::config::{FlowControl, LinkConfig};
use engine::outputs::Output;
use engine::testing::line::{FAST, one_lane};
use engine::testing::{TwoHosts, dropped};
use engine::vnics::demux::Demux;
use offload::vnet::SIZE;
use tap::carrier::{BUFFER, Carrier};
use tap::clock::now;
use tap::devices::Device;
use tap::shared::Shared;
use tap::thread::Threads;

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

/// A frame to the host with this LID.
fn frame(lid: u8, mark: u8) -> Vec<u8> {
    let mut frame = vec![0; SIZE];
    frame.extend([0x06, 0x2c, 0, lid, 0, 0, 0x06, 0x2c, 0, 3 - lid, 0, 0, 0x88, 0xb5]);
    frame.resize(SIZE + 60, mark);
    frame
}

/// Each test runs with one worker, and with one for each host.
const WORKERS: [u32; 2] = [1, 2];

struct Bed {
    shared: Arc<Shared>,
    hosts: Vec<UnixStream>,
}

impl Bed {
    fn new(workers: u32) -> Self {
        Bed::with(workers, &FAST)
    }

    /// Both links as configured.
    fn with(workers: u32, config: &LinkConfig) -> Self {
        Bed::over(workers, config, None)
    }

    /// Args: `flow`: the links have credits.
    fn over(workers: u32, config: &LinkConfig, flow: Option<&FlowControl>) -> Self {
        let part = |worker| {
            let engine = Engine::of_worker(worker, workers);
            let TwoHosts { mut engine, vnics, .. } = TwoHosts::with(engine, true, flow);
            for direction in 0..4 {
                engine.set_link(0, direction, config);
            }
            (engine, vnics)
        };
        let shared = Shared::new((0..workers).map(part).collect()).unwrap();
        let mut hosts = Vec::new();
        for vport in 0..2 {
            let (host, device) = pair();
            shared.lock_home(vport).set_device(vport, Some(Device::new(device))).unwrap();
            hosts.push(host);
        }
        Bed { shared, hosts }
    }

    fn start(&self) -> Threads {
        Threads::start(Arc::clone(&self.shared)).unwrap()
    }

    /// Send a frame from the first host to the second.
    fn send(&mut self, mark: u8) {
        self.hosts[0].write_all(&frame(2, mark)).unwrap();
    }

    /// Wait for a frame at the second host and return the byte that marks it.
    fn mark(&mut self) -> u8 {
        let mut buffer = [0; 2048];
        assert_eq!(self.hosts[1].read(&mut buffer).unwrap(), SIZE + 60);
        buffer[SIZE + 59]
    }

    fn nothing_arrived(&mut self) -> bool {
        self.hosts[1].set_nonblocking(true).unwrap();
        let outcome = self.hosts[1].read(&mut [0; 2048]);
        self.hosts[1].set_nonblocking(false).unwrap();
        outcome.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Wait until the thread says that there is something to take.
    fn notice(&self) {
        let mut entry = libc::pollfd { fd: self.shared.notice.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry
        assert_eq!(unsafe { libc::poll(&raw mut entry, 1, 60_000) }, 1, "the thread said nothing");
    }

    fn change(&self, vport: usize, change: impl FnOnce(&mut Device)) {
        self.shared.lock_home(vport).change_device(vport, change).unwrap();
    }

    /// How many packets were dropped for a reason, in all.
    fn dropped(&self, reason: Drop) -> u64 {
        let of = |carrier: &mut Carrier, _| dropped(&carrier.engine.take_counted(), reason);
        self.shared.change(0, of).iter().sum()
    }

    /// Leave the packets for the second host to Python.
    fn leave_to_python(&self) {
        let mut all = self.shared.lock_all();
        let owner = all.owner(1);
        owner.vnics.set_demux(&mut owner.engine, 1, Demux::default());
    }
}

#[test]
fn frames_pass_from_device_to_device_in_order() {
    for workers in WORKERS {
        let mut bed = Bed::new(workers);
        let mut thread = bed.start();
        for mark in 0..200 {
            bed.send(mark);
            if mark % 7 == 0 {
                assert_eq!(bed.mark(), mark / 7);
            }
        }
        for mark in 29..200 {
            assert_eq!(bed.mark(), mark);
        }
        thread.stop();
        assert_eq!(bed.shared.failure(), None);
    }
}

#[test]
fn frame_enters_as_of_when_it_waited_and_not_when_it_was_read() {
    let mut bed = Bed::new(1);
    bed.send(1);
    bed.send(2);
    let (began, read) = (10_000, 50_000);
    {
        let mut carrier = bed.shared.lock_home(0);
        carrier.advance(began);
        carrier.drain(0, &mut [0; BUFFER], || read, Some(began));
        carrier.advance(read);
        // the second one may have come while the first was being read
        assert!(carrier.vnics.is_waiting());
        carrier.flush(read);
    }
    assert_eq!(bed.mark(), 1);
    assert!(bed.nothing_arrived());
    bed.shared.lock_home(0).advance(read + 1_000);
    bed.shared.lock_home(0).flush(read + 1_000);
    assert_eq!(bed.mark(), 2);
}

#[test]
fn large_frame_enters_as_of_when_its_reading_began() {
    let bed = Bed::new(1);
    let mut large = frame(2, 7);
    large.resize(SIZE + 1_400, 7);
    bed.hosts[0].try_clone().unwrap().write_all(&large).unwrap();
    let mut carrier = bed.shared.lock_home(0);
    carrier.drain(0, &mut [0; BUFFER], || 10_000, None);
    let takes = 300 + (1_400u64 + 28).next_multiple_of(8) * 8 / 100;
    let at_switch = carrier.engine.next_event().expect("the frame is on its way");
    assert!((10_000 + takes - 100..10_000 + takes).contains(&at_switch), "{at_switch}");
}

#[test]
fn no_frame_comes_before_its_time() {
    for workers in WORKERS {
        let latency_ns = 2_000_000;
        let mut bed = Bed::with(workers, &LinkConfig { latency_ns, ..FAST });
        let _thread = bed.start();
        for mark in 0..10 {
            let sent = now();
            bed.send(mark);
            assert_eq!(bed.mark(), mark);
            assert!(now() >= sent + 2 * latency_ns);
        }
    }
}

#[test]
fn device_that_the_link_stops_is_read_on_whenever_it_may_be() {
    let flow = FlowControl { buffer_bytes: 300, ..one_lane() };
    for workers in WORKERS {
        let mut bed = Bed::over(workers, &LinkConfig { rate_bps: 2_000_000, ..FAST }, Some(&flow));
        for mark in 0..100 {
            bed.send(mark);
        }
        let mut threads = bed.start();
        for mark in 0..100 {
            assert_eq!(bed.mark(), mark);
        }
        bed.send(200); // nothing has waited for frames meanwhile
        assert_eq!(bed.mark(), 200);
        threads.stop();
        let stops =
            |one: &Counted| matches!(one, Counted::Congestion { port: 0, counted } if counted.tx_stops > 0);
        let mut all = bed.shared.lock_all();
        let has_stopped =
            |carrier: &mut Carrier| carrier.engine.take_counted().iter().filter(|one| stops(one)).count() > 0;
        assert_eq!(all.iter_mut().filter_map(|carrier| has_stopped(carrier).then_some(())).count(), 1);
        for carrier in all.iter_mut() {
            assert!(carrier.outbox.is_empty(), "all VNICs are native: Python need not know");
        }
    }
}

#[test]
fn burst_goes_on_where_the_link_has_meanwhile_carried_what_stopped_it() {
    let flow = FlowControl { buffer_bytes: 300, ..one_lane() };
    // three frames of each seven have room at the switch; with four more waiting, the port is stopped
    for (late_ns, taken) in [(0, 7), (1_000_000, 14)] {
        let mut bed = Bed::over(1, &FAST, Some(&flow));
        (0..20).for_each(|mark| bed.send(mark));
        let looks = Cell::new(0);
        let clock = || if looks.replace(looks.get() + 1) < 7 { 0 } else { late_ns };
        let carrier = &mut *bed.shared.lock(0);
        carrier.drain(0, &mut [0; BUFFER], clock, None);
        assert_eq!(carrier.vnics.vports[0].counters.tx.packets, taken, "{late_ns} ns later");
        assert!(carrier.engine.is_stopped(0), "{late_ns} ns later");
    }
}

#[test]
fn room_is_free_as_of_the_arrival_however_late_the_thread_is() {
    let flow = FlowControl { buffer_bytes: 300, ..one_lane() };
    let arrivals = |late_ns: u64| {
        let bed = Bed::over(1, &FAST, Some(&flow));
        let mut buffer = frame(2, 7)[SIZE..].to_vec();
        let carrier = &mut *bed.shared.lock(0);
        for _ in 0..20 {
            let frame = (&mut buffer[..], 60);
            carrier.vnics.transmit(&mut carrier.engine, 0, 0, &Default::default(), frame, None);
        }
        carrier.engine.observe(0, 3, true); // what leaves the switch for the second host
        for now in (late_ns..100_000).step_by(late_ns as usize) {
            carrier.pass(now);
        }
        let seen = carrier.outbox.take().into_iter().filter_map(|output| match output {
            Output::Observed { time, .. } => Some(time),
            _ => None,
        });
        seen.collect::<Vec<_>>()
    };
    assert_eq!(arrivals(1).len(), 20);
    assert_eq!(arrivals(1), arrivals(90_000));
}

#[test]
fn what_python_injects_wakes_the_thread_for_its_arrival() {
    for workers in WORKERS {
        let mut bed = Bed::with(workers, &LinkConfig { latency_ns: 1_000_000, ..FAST });
        let _thread = bed.start();
        // the thread sleeps with nothing to wait for; a frame that Python sends is its next event
        let mut buffer = frame(2, 7)[SIZE..].to_vec();
        bed.shared.input(0, 0, |carrier, now| {
            let frame = (&mut buffer[..], 60);
            carrier.vnics.transmit(&mut carrier.engine, now, 0, &Default::default(), frame, None);
        });
        assert_eq!(bed.mark(), 7);
    }
}

#[test]
fn stopped_device_is_left_alone_until_it_is_woken() {
    for workers in WORKERS {
        let mut bed = Bed::new(workers);
        let _thread = bed.start();
        bed.change(0, |device| device.stopped = true);
        bed.send(1);
        // the thread has read everything once another device's frame has passed
        bed.hosts[1].write_all(&frame(1, 9)).unwrap();
        assert_eq!(bed.hosts[0].read(&mut [0; 2048]).unwrap(), SIZE + 60);
        assert!(bed.nothing_arrived());
        bed.change(0, |device| device.stopped = false);
        assert_eq!(bed.mark(), 1);
    }
}

#[test]
fn device_is_left_alone_while_much_waits_for_python() {
    for workers in WORKERS {
        let bed = Bed::new(workers);
        bed.leave_to_python();
        let _thread = bed.start();
        let mut host = bed.hosts[0].try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            // blocks where the device is left alone: nothing is dropped
            (0..3000).for_each(|_| host.write_all(&frame(2, 1)).unwrap());
        });
        let mut taken = 0;
        while taken < 3000 {
            bed.notice();
            let outputs = bed.shared.take_outputs().unwrap();
            assert!(outputs.len() < 700, "{} packets were waiting", outputs.len());
            taken += outputs.len();
        }
        sender.join().unwrap();
        assert_eq!(bed.dropped(Drop::RxOverflow), 0);
    }
}

#[test]
fn packets_that_python_never_takes_fill_no_memory_and_are_counted_once() {
    for workers in WORKERS {
        let bed = Bed::new(workers);
        bed.leave_to_python();
        let packets = 10_000;
        bed.shared.input(0, 0, |carrier, now| {
            for _ in 0..packets {
                let mut buffer = frame(2, 1)[SIZE..].to_vec();
                let frame = (&mut buffer[..], 60);
                carrier.vnics.transmit(&mut carrier.engine, now, 0, &Default::default(), frame, None);
            }
        });
        bed.shared.change(1_000_000_000, Carrier::pass);
        let waiting = bed.shared.take_outputs().unwrap();
        let is_packet = |output: &Output| matches!(output, Output::Delivered { .. });
        assert!(waiting.iter().all(is_packet) && waiting.len() < packets);
        assert_eq!(bed.dropped(Drop::RxOverflow) as usize, packets - waiting.len());
    }
}

#[test]
fn lost_device_is_reported_and_the_others_go_on() {
    for workers in WORKERS {
        let mut bed = Bed::new(workers);
        let mut fds = [0; 2];
        // SAFETY: an array of two descriptors, as the call wants; both are new and become owned here
        let [reader, writer] = unsafe {
            assert_eq!(libc::pipe(fds.as_mut_ptr()), 0);
            fds.map(|fd| OwnedFd::from_raw_fd(fd))
        };
        // a pipe without a reader wakes its waiter and cannot be read, like a TAP whose namespace is gone
        bed.shared.lock_home(0).set_device(0, Some(Device::new(writer))).unwrap();
        let _thread = bed.start();
        drop(reader);
        bed.notice();
        assert_eq!(bed.shared.lock_home(0).lost, [(0, libc::EBADF)]);
        bed.hosts[1].write_all(&frame(2, 9)).unwrap();
        assert_eq!(bed.mark(), 9);
        assert_eq!(bed.shared.failure(), None);
    }
}

struct Broken;

impl NativeApp for Broken {
    fn run(&self, _batch: &mut Batch, _outlet: &mut Outlet<'_>) {
        panic!("a bug, in short");
    }
}

#[test]
fn panic_in_the_thread_is_reported_with_its_text() {
    for workers in WORKERS {
        let mut bed = Bed::new(workers);
        assert!(bed.shared.lock_home(1).set_app(1, Some(Arc::new(Broken))));
        bed.shared.lock_home(1).set_device(1, None).unwrap();
        let mut thread = bed.start();
        bed.send(1);
        bed.notice();
        assert_eq!(bed.shared.failure().unwrap(), "the native datapath broke: a bug, in short");
        thread.stop();
    }
}
