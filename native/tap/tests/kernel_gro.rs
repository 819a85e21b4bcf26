//! Beside the running kernel's own GRO: the same frames go through a TAP with IFF_NAPI and through our merging. Ours
//! may merge less than the kernel, and never more. It needs root, and is passed over without it.
//! The number of sequences: `CASES=100000 cargo test`; `--nocapture` shows what the kernel merged and we did not.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, write};
use std::io::{Error, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use offload::checksum::{fold, get, put, sum};
use offload::gro::{Coalescer, Span};
use offload::segment::Origin;
use offload::vnet::SIZE;

const DEVICE: &str = "gro0";
const IFF_NAPI: i16 = 0x10;
const PACKET_VNET_HDR: i32 = 15;
/// How long the kernel keeps frames for others to follow. A sequence is written in a fraction of it.
const FLUSH_NS: &str = "1000000";
/// The kernel gives up frames when its clock ticks between them: then it merges less than it could.
const TRIES: usize = 6;
const MARK: [u8; 4] = [0xf5, 0x9a, 0x3c, 0xe7];
const LEAST_PAYLOAD: usize = 8;

/// Xorshift: the same frames for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// What a frame holds.
#[derive(Clone, Debug, Default)]
struct Headers {
    mac: [u8; 2],
    tags: Vec<u16>,
    ipv6: bool,
    class: u8,
    label: u32,
    hops: u8,
    /// IPv4 flags and fragment offset.
    fragment: u16,
    id: u16,
    ip_options: Vec<u8>,
    /// An IPv6 extension header in front of the rest.
    extension: Option<u8>,
    address: u8,
    port: u8,
    protocol: u8,
    seq: u32,
    ack: u32,
    /// With the bits above CWR.
    flags: u16,
    window: u16,
    urgent: u16,
    options: Vec<u8>,
    payload: usize,
    /// Added to the checksum of the layer.
    wrong_ip: u16,
    wrong_l4: u16,
    padding: usize,
    /// Bytes by which the length in the IP header is wrong.
    cut: u16,
}

impl Headers {
    fn build(&self, number: usize) -> Vec<u8> {
        let mut frame = vec![6, 0, 0, 0, 0, self.mac[0], 6, 0, 0, 0, 1, self.mac[1]];
        for tag in &self.tags {
            frame.extend([0x81, 0, (tag >> 8) as u8, *tag as u8]);
        }
        let mut payload = vec![0x11; self.payload];
        if self.payload > 0 {
            payload[..4].copy_from_slice(&MARK);
            payload[4..6].copy_from_slice(&(number as u16).to_be_bytes());
        }
        let l4 = self.l4(&payload);
        let l3 = if self.ipv6 { 0x86dd_u16 } else { 0x0800 };
        frame.extend(l3.to_be_bytes());
        let start = frame.len();
        if self.ipv6 {
            let extension = self.extension.map_or(vec![], |_| vec![self.protocol, 0, 1, 4, 0, 0, 0, 0]);
            let len = (extension.len() + l4.len()) as u16 - self.cut;
            frame.extend((6 << 28 | u32::from(self.class) << 20 | self.label).to_be_bytes());
            frame.extend(len.to_be_bytes());
            frame.extend([self.extension.unwrap_or(self.protocol), self.hops]);
            frame.extend(self.addresses());
            frame.extend(extension);
        } else {
            let words = 5 + self.ip_options.len() / 4;
            frame.extend([0x40 | words as u8, self.class]);
            frame.extend(((words * 4 + l4.len()) as u16 - self.cut).to_be_bytes());
            frame.extend(self.id.to_be_bytes());
            frame.extend(self.fragment.to_be_bytes());
            frame.extend([self.hops, self.protocol, 0, 0]);
            frame.extend(self.addresses());
            frame.extend(&self.ip_options);
            let value = !fold(sum(&frame[start..]));
            put(&mut frame, start + 10, value);
            let value = get(&frame, start + 10).wrapping_add(self.wrong_ip);
            put(&mut frame, start + 10, value);
        }
        frame.extend(l4);
        frame.resize(frame.len() + self.padding, 0);
        frame
    }

    fn addresses(&self) -> Vec<u8> {
        let mut addresses = if self.ipv6 {
            (0..32).map(|at| if at % 16 == 0 { 0xfd } else { at }).collect()
        } else {
            vec![10, 9, 2, 1, 10, 9, 2, 2]
        };
        *addresses.last_mut().unwrap() = self.address;
        addresses
    }

    fn l4(&self, payload: &[u8]) -> Vec<u8> {
        let mut l4 = vec![0x13, 0x89, 0xc0, self.port];
        let field = if self.protocol == 6 {
            l4.extend(self.seq.to_be_bytes());
            l4.extend(self.ack.to_be_bytes());
            let words = 5 + self.options.len() as u16 / 4;
            l4.extend((words << 12 | self.flags).to_be_bytes());
            l4.extend(self.window.to_be_bytes());
            l4.extend([0, 0]);
            l4.extend(self.urgent.to_be_bytes());
            l4.extend(&self.options);
            16
        } else {
            l4.extend((8 + payload.len() as u16).to_be_bytes());
            l4.extend([0, 0]);
            6
        };
        l4.extend(payload);
        let mut pseudo = self.addresses();
        pseudo.extend([0, self.protocol]);
        pseudo.extend((l4.len() as u16).to_be_bytes());
        let value = !fold(sum(&pseudo) + sum(&l4));
        put(&mut l4, field, value.wrapping_add(self.wrong_l4));
        l4
    }
}

fn stamps(value: u8, echoed: u8) -> Vec<u8> {
    vec![1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, echoed]
}

type Change = (&'static str, fn(&mut Headers, &mut Chance));

/// What may differ from one frame of a flow to the next.
const CHANGES: &[Change] = &[
    ("gap", |h, c| h.seq = h.seq.wrapping_add(1 + c.below(300) as u32)),
    ("back", |h, c| h.seq = h.seq.wrapping_sub(1 + c.below(300) as u32)),
    ("flag", |h, c| h.flags ^= 1 << c.below(12)),
    ("flags", |h, c| h.flags = c.below(1 << 9) as u16),
    ("push", |h, _| h.flags |= 8),
    ("fin", |h, _| h.flags |= 1),
    ("ack", |h, c| h.ack ^= 1 << c.below(32)),
    ("window", |h, c| h.window ^= 1 << c.below(16)),
    ("urgent", |h, c| h.urgent ^= 1 << c.below(16)),
    ("options", |h, c| {
        h.options = match c.below(5) {
            0 => vec![],
            1 => vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9],
            2 => vec![1, 1, 1, 0],
            kind => stamps(kind as u8, c.below(3) as u8),
        }
    }),
    ("class", |h, c| h.class ^= 1 << c.below(8)),
    ("hops", |h, c| h.hops ^= 1 << c.below(8)),
    ("label", |h, c| h.label ^= 1 << c.below(20)),
    ("id", |h, c| h.id = [h.id.wrapping_add(1), h.id.wrapping_sub(1), 0][c.below(3)]),
    ("do not fragment", |h, _| h.fragment ^= 0x4000),
    ("reserved flag", |h, _| h.fragment ^= 0x8000),
    ("more fragments", |h, _| h.fragment ^= 0x2000),
    ("fragment offset", |h, c| h.fragment ^= 1 << c.below(13)),
    ("IP options", |h, c| h.ip_options = if c.one_in(2) { vec![1, 1, 1, 0] } else { vec![148, 4, 0, 0] }),
    ("extension", |h, c| h.extension = Some([0, 60, 44][c.below(3)])),
    ("tags", |h, c| {
        h.tags = match c.below(4) {
            0 => vec![],
            1 => vec![5],
            2 => vec![0x6005],
            _ => vec![5, 7],
        }
    }),
    ("MAC", |h, c| h.mac[c.below(2)] ^= 1),
    ("port", |h, c| h.port ^= 1 << c.below(8)),
    ("address", |h, c| h.address ^= 1 << c.below(8)),
    ("wrong IP checksum", |h, c| h.wrong_ip = 1 << c.below(16)),
    ("wrong TCP checksum", |h, c| h.wrong_l4 = 1 << c.below(16)),
    ("padding", |h, c| h.padding = 1 + c.below(20)),
    ("IP length", |h, c| h.cut = 1 + c.below(4) as u16),
    ("UDP", |h, _| h.protocol = 17),
    ("longer", |h, c| h.payload += 1 + c.below(50)),
    ("no payload", |h, _| h.payload = 0),
];

struct Sent {
    frames: Vec<Vec<u8>>,
    /// Of each: what was changed in it, and what it holds.
    about: Vec<(&'static str, Headers)>,
}

impl Sent {
    fn only(&self, numbers: &[usize]) -> Sent {
        let frames = numbers.iter().map(|number| self.frames[*number].clone()).collect();
        Sent { frames, about: numbers.iter().map(|number| self.about[*number].clone()).collect() }
    }
}

/// Args: `tagged`: some with VLAN tags.
fn sequence(chance: &mut Chance, tagged: bool) -> Sent {
    let mut flows: Vec<Headers> = (0..1 + chance.below(3))
        .map(|flow| Headers {
            ipv6: chance.one_in(2),
            hops: 64,
            fragment: [0x4000, 0][chance.below(2)],
            id: [1, 0xfffc][chance.below(2)],
            address: 2,
            port: flow as u8,
            protocol: 6,
            seq: [1, u32::MAX - 400][chance.below(2)],
            ack: 7,
            flags: 0x10,
            window: 500,
            options: if chance.one_in(3) { vec![] } else { stamps(1, 2) },
            tags: if tagged && chance.one_in(4) { vec![5] } else { vec![] },
            payload: [40, 100, 600, 1448][chance.below(4)],
            ..Headers::default()
        })
        .collect();
    let steady = chance.one_in(4);
    let mut sent = Sent { frames: vec![], about: vec![] };
    let mut which = 0;
    while sent.frames.len() < 24 {
        if chance.one_in(4) {
            which = chance.below(flows.len());
        }
        let flow = &mut flows[which];
        let mut frame = flow.clone();
        let mut change = "";
        if chance.one_in(8) {
            frame.payload = LEAST_PAYLOAD + chance.below(frame.payload - LEAST_PAYLOAD);
            change = "shorter";
        } else if !steady && chance.one_in(3) {
            let (name, apply) = CHANGES[chance.below(CHANGES.len())];
            apply(&mut frame, chance);
            change = name;
            if !tagged {
                frame.tags.clear();
            }
            let lasts =
                !matches!(change, "longer" | "no payload" | "push" | "fin" | "flag" | "flags" | "IP length");
            if lasts && chance.one_in(3) {
                *flow = frame.clone();
            }
        }
        flow.seq = frame.seq.wrapping_add(frame.payload as u32);
        flow.id = if chance.one_in(30) { flow.id } else { frame.id.wrapping_add(1) };
        sent.frames.push(frame.build(sent.frames.len()));
        sent.about.push((change, frame));
        if chance.one_in(40) {
            sent.frames.push(sent.frames.last().unwrap().clone());
            sent.about.push(("double", sent.about.last().unwrap().1.clone()));
        }
    }
    sent
}

/// The frames of one that was received, by number, in order; and its bytes with the virtio-net header.
struct Received {
    numbers: Vec<usize>,
    bytes: Vec<u8>,
}

impl Received {
    fn of(bytes: Vec<u8>) -> Received {
        let at = |(start, window): (usize, &[u8])| {
            (window[..4] == MARK).then(|| (start, usize::from(u16::from_be_bytes([window[4], window[5]]))))
        };
        let numbers = bytes.windows(6).enumerate().filter_map(at).map(|(_, number)| number).collect();
        Received { numbers, bytes }
    }

    fn pairs(all: &[Received]) -> Vec<(usize, usize)> {
        all.iter().flat_map(|one| one.numbers.windows(2).map(|pair| (pair[0], pair[1]))).collect()
    }
}

fn ours(sent: &Sent) -> Vec<Received> {
    let mut coalescer = Coalescer::default();
    for (packet, frame) in sent.frames.iter().enumerate() {
        let span = Span { packet: packet as u32, at: 0, len: frame.len() as u32 };
        coalescer.push(&sent.frames, span, Origin::Unknown, true);
    }
    let mut out = Vec::new();
    coalescer.flush(&sent.frames, |_, parts| out.push(Received::of(parts.concat())));
    out
}

/// A TAP whose frames pass the kernel's GRO, in a network namespace of this thread's own.
struct Kernel {
    tap: File,
    sniffer: File,
}

fn done(result: i32) -> Result<i32, Error> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

impl Kernel {
    fn new() -> Result<Kernel, Error> {
        // SAFETY: plain system calls, on this thread's namespaces.
        unsafe {
            done(libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS))?;
            let (root, sys) = (c"/".as_ptr(), c"/sys".as_ptr());
            let none = std::ptr::null();
            done(libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
            done(libc::mount(c"sysfs".as_ptr(), sys, c"sysfs".as_ptr(), 0, none.cast()))?;
        }
        let _ = write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let tap = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: zero is a value of every field of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16 | IFF_NAPI;
        request.ifr_ifru.ifru_flags = flags;
        // SAFETY: the request outlives the calls; the descriptors are open, and the new one is owned once.
        let sniffer = unsafe {
            done(libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &mut request))?;
            let all = (libc::ETH_P_ALL as u16).to_be();
            let sniffer = done(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all)))?;
            let sniffer = File::from_raw_fd(sniffer);
            let fd = sniffer.as_raw_fd();
            request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
            done(libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &mut request))?;
            let one = 1i32;
            let wait = libc::timeval { tv_sec: 5, tv_usec: 0 };
            let set = |level, name, value: *const libc::c_void, len| {
                done(libc::setsockopt(fd, level, name, value, len as libc::socklen_t))
            };
            set(libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const one).cast(), size_of::<i32>())?;
            set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const wait).cast(), size_of::<libc::timeval>())?;
            sniffer
        };
        write(format!("/sys/class/net/{DEVICE}/gro_flush_timeout"), FLUSH_NS)?;
        Ok(Kernel { tap, sniffer })
    }

    fn merges_tagged(&mut self) -> bool {
        let headers =
            |seq| Headers { tags: vec![5], protocol: 6, flags: 0x10, seq, payload: 40, ..Headers::default() };
        let about: Vec<_> = [0, 40].map(|seq| ("", headers(seq))).into();
        let frames = about.iter().enumerate().map(|(number, (_, headers))| headers.build(number)).collect();
        let sent = Sent { frames, about };
        (0..TRIES).any(|_| self.pass(&sent).len() == 1)
    }

    /// Those of the pairs that the kernel never merges, and what it merged when tried last.
    fn misses(&mut self, sent: &Sent, pairs: &[(usize, usize)]) -> (Vec<(usize, usize)>, Vec<Received>) {
        let mut more = pairs.to_vec();
        let mut theirs = Vec::new();
        for _ in 0..TRIES {
            theirs = self.pass(sent);
            let known = Received::pairs(&theirs);
            more.retain(|pair| !known.contains(pair));
            if more.is_empty() {
                break;
            }
        }
        (more, theirs)
    }

    fn pass(&mut self, sent: &Sent) -> Vec<Received> {
        let marks = |frames: &[Received]| frames.iter().map(|one| one.numbers.len()).sum::<usize>();
        for frame in &sent.frames {
            self.tap.write_all(frame).unwrap();
        }
        let expected = sent.about.iter().filter(|(_, headers)| headers.payload > 0).count();
        let mut out = Vec::new();
        let mut buffer = vec![0; 1 << 17];
        while marks(&out) < expected {
            let len = std::io::Read::read(&mut self.sniffer, &mut buffer).expect("every frame comes");
            let one = Received::of(buffer[..len].to_vec());
            if !one.numbers.is_empty() {
                out.push(one);
            }
        }
        out
    }
}

#[test]
fn nothing_is_merged_that_the_kernel_would_not_merge_and_what_is_merged_has_the_same_bytes() {
    let mut kernel = match Kernel::new() {
        Ok(kernel) => kernel,
        Err(error) => return eprintln!("passed over: no TAP with IFF_NAPI: {error}"),
    };
    let tagged = kernel.merges_tagged();
    if !tagged {
        println!(
            "a kernel without VLAN_8021Q merges tagged frames only where a NIC takes the tags off: none are sent"
        );
    }
    let cases = std::env::var("CASES").map_or(400, |cases| cases.parse().unwrap());
    let (mut merged, mut same, mut left) = (0, 0, BTreeMap::<&str, usize>::new());
    for seed in 1..=cases {
        let sent = sequence(&mut Chance(0x9e37_79b9_7f4a_7c15 ^ seed), tagged);
        let ours = ours(&sent);
        let pairs = Received::pairs(&ours);
        let (mut more, theirs) = kernel.misses(&sent, &pairs);
        if !more.is_empty() {
            // what the kernel alone has merged in front shifts where its frames begin: then it is asked for ours alone
            let known = Received::pairs(&theirs);
            for one in
                ours.iter().filter(|one| known.iter().any(|(_, second)| Some(second) == one.numbers.first()))
            {
                let own = Received::pairs(std::slice::from_ref(one));
                if kernel.misses(&sent.only(&one.numbers), &own).0.is_empty() {
                    more.retain(|pair| !own.contains(pair));
                }
            }
        }
        for (a, b) in &more {
            eprintln!("{:?}\n{:?}", sent.about[*a], sent.about[*b]);
        }
        assert_eq!(more, [], "seed {seed}: merged here, but not by the kernel");
        merged += pairs.len();
        for (_, second) in Received::pairs(&theirs).iter().filter(|pair| !pairs.contains(pair)) {
            *left.entry(sent.about[*second].0).or_default() += 1;
        }
        for one in ours.iter().filter(|one| one.numbers.len() > 1) {
            // the sniffer sees tags apart from the frame
            let tagged = !sent.about[one.numbers[0]].1.tags.is_empty();
            let Some(other) = theirs.iter().find(|other| other.numbers == one.numbers).filter(|_| !tagged)
            else {
                continue;
            };
            same += 1;
            // the length of the headers is a hint
            let hint = 2..4;
            assert_eq!(one.bytes[..hint.start], other.bytes[..hint.start], "seed {seed}");
            assert_eq!(one.bytes[hint.end..SIZE], other.bytes[hint.end..SIZE], "seed {seed}");
            assert_eq!(one.bytes[SIZE..], other.bytes[SIZE..], "seed {seed}");
        }
    }
    println!("{cases} sequences: {merged} frames merged to one before, {same} merged frames compared");
    println!("merged by the kernel alone, by the change in the second frame: {left:?}");
    assert!(merged > 0 && same > 0);
}
