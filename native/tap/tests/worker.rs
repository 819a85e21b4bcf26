//! The thread, with socket pairs in the place of TAPs: both keep frames apart.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use engine::core::Options;
use engine::core::fabric::{End, Fabric};
use engine::testing::two_hosts;
use offload::vnet::SIZE;
use tap::devices::Device;
use tap::worker::{Shared, Worker};

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

/// A frame from the second host to the first.
fn back() -> Vec<u8> {
    let mut frame = vec![0; SIZE];
    frame.extend([0x06, 0x2c, 0, 1, 0, 0, 0x06, 0x2c, 0, 2, 0, 0, 0x88, 0xb5]);
    frame.resize(SIZE + 60, 9);
    frame
}

struct Bed {
    shared: Arc<Shared>,
    hosts: Vec<UnixStream>,
}

impl Bed {
    fn new() -> Self {
        let core = two_hosts(Options { icrc: true, merge: true, enforce: true });
        let shared = Shared::new(core).unwrap();
        let mut hosts = Vec::new();
        for vport in 0..2 {
            let (host, device) = pair();
            shared.lock().devices.set(&shared.poller, vport, Some(Device::new(device))).unwrap();
            hosts.push(host);
        }
        Bed { shared, hosts }
    }

    /// Send a frame from the first host to the second.
    fn send(&mut self, mark: u8) {
        let mut frame = vec![0; SIZE];
        frame.extend([0x06, 0x2c, 0, 2, 0, 0, 0x06, 0x2c, 0, 1, 0, 0, 0x88, 0xb5]);
        frame.resize(SIZE + 60, mark);
        self.hosts[0].write_all(&frame).unwrap();
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
        self.shared.lock().devices.change(&self.shared.poller, vport, change).unwrap();
    }
}

#[test]
fn frames_pass_from_device_to_device_in_order() {
    let mut bed = Bed::new();
    let mut worker = Worker::start(Arc::clone(&bed.shared)).unwrap();
    for mark in 0..200 {
        bed.send(mark);
        if mark % 7 == 0 {
            assert_eq!(bed.mark(), mark / 7);
        }
    }
    for mark in 29..200 {
        assert_eq!(bed.mark(), mark);
    }
    worker.stop();
    assert_eq!(bed.shared.failure(), None);
}

#[test]
fn stopped_device_is_left_alone_until_it_is_woken() {
    let mut bed = Bed::new();
    let _worker = Worker::start(Arc::clone(&bed.shared)).unwrap();
    bed.change(0, |device| device.stopped = true);
    bed.send(1);
    // whatever the thread reads, it has read once another device's frame has passed
    bed.hosts[1].write_all(&back()).unwrap();
    assert_eq!(bed.hosts[0].read(&mut [0; 2048]).unwrap(), SIZE + 60);
    assert!(bed.nothing_arrived());
    bed.change(0, |device| device.stopped = false);
    assert_eq!(bed.mark(), 1);
}

#[test]
fn device_is_left_alone_while_much_waits_for_python() {
    let bed = Bed::new();
    let mut fabric = Fabric::clone(&bed.shared.lock().core.fabric);
    fabric.links[0].slow = true;
    bed.shared.lock().core.set_fabric(fabric).unwrap();
    let _worker = Worker::start(Arc::clone(&bed.shared)).unwrap();
    let mut host = bed.hosts[0].try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let mut frame = back();
        frame[SIZE + 3] = 2;
        // blocks where the device is left alone: nothing is dropped
        (0..3000).for_each(|_| host.write_all(&frame).unwrap());
    });
    let mut taken = 0;
    while taken < 3000 {
        bed.notice();
        bed.shared.notice.clear();
        let upcalls = bed.shared.lock().take_upcalls(&bed.shared.poller).unwrap();
        assert!(upcalls.len() < 600, "{} packets were waiting", upcalls.len());
        taken += upcalls.len();
    }
    sender.join().unwrap();
    assert_eq!(bed.shared.lock().core.directions[0][0].dropped(), 0);
}

#[test]
fn lost_device_is_reported_and_the_others_go_on() {
    let mut bed = Bed::new();
    let mut fds = [0; 2];
    // SAFETY: an array of two descriptors, as the call wants; both are new and become owned here
    let [reader, writer] = unsafe {
        assert_eq!(libc::pipe(fds.as_mut_ptr()), 0);
        fds.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    // a pipe that nobody reads wakes who waits for it, and cannot be read: as a TAP whose namespace is gone
    bed.shared.lock().devices.set(&bed.shared.poller, 0, Some(Device::new(writer))).unwrap();
    let _worker = Worker::start(Arc::clone(&bed.shared)).unwrap();
    drop(reader);
    bed.notice();
    assert_eq!(bed.shared.lock().lost, [(0, libc::EBADF)]);
    let mut frame = back();
    frame[SIZE + 3] = 2;
    bed.hosts[1].write_all(&frame).unwrap();
    assert_eq!(bed.mark(), 9);
    assert_eq!(bed.shared.failure(), None);
}

#[test]
fn panic_in_the_thread_is_reported_with_its_text() {
    let mut bed = Bed::new();
    let mut fabric = Fabric::clone(&bed.shared.lock().core.fabric);
    fabric.links[0].ends[1] = End::Switch(7, 0);
    // what set_fabric() would refuse: a bug, in short
    bed.shared.lock().core.fabric = Arc::new(fabric);
    let mut worker = Worker::start(Arc::clone(&bed.shared)).unwrap();
    bed.send(1);
    bed.notice();
    let reason = bed.shared.failure().unwrap();
    assert!(reason.starts_with("the native datapath broke: index out of bounds"), "{reason}");
    worker.stop();
}
