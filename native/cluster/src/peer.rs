//! Another machine: the links to it, what has gone over them, and its connection while there is one.
//!
//! A connection has two threads. One sends what has departed and waits while the other machine takes nothing; the other
//! takes in what arrives and never waits for the first, so that two machines that send to each other cannot get stuck.
//! Few packets are sent by the thread whose engine they leave, as long as the kernel takes them at once.

use std::collections::{BTreeSet, HashMap};
use std::io::{Error, IoSlice, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use engine::crossing::{Frame, HEAD, Head, Kind, MOST_BODY, MOST_PACKETS, head_of};
use engine::outputs::DirectionId;
use tap::Signal;
use tap::carrier::Carrier;
use tap::clock::now;
use tap::departures::Departure;
use tap::shared::Shared;

use crate::connection::Connection;
use crate::link::Link;

/// The service channel of SMPs, whose packets go ahead.
const MANAGEMENT: u32 = 15;
/// Bytes of one link and service channel that go in a row while others wait.
const TURN: usize = 64 << 10;
/// Bytes that wait for the credits of the receiver behind a link, on one VL, above which its sender is paused.
const FULL_BYTES: u64 = 1 << 20;
/// Bytes that leave at once, at most, without waking the thread that sends: few packets are to arrive soon.
const FEW: usize = 16 << 10;
/// How often it is seen whether a paused sender may go on.
const PAUSED_MS: i32 = 1;
/// How long the number of packets that have arrived waits for more of them.
const REPORT: Duration = Duration::from_millis(10);
/// Bytes that are read at a time, at most, besides a frame of which a part has come.
const READ: usize = 1 << 20;

/// What both threads of a peer need.
struct Ends {
    shared: Arc<Shared>,
    taker: usize,
    links: Vec<Link>,
    /// By the direction that goes there.
    numbers: HashMap<DirectionId, u32>,
    /// Frames that go ahead of packets.
    ahead: Mutex<Vec<u8>>,
    sending: Mutex<Sending>,
    /// Readable when the connection has ended.
    ended: Signal,
}

/// What only one thread at a time does: taking packets and writing them.
#[derive(Default)]
struct Sending {
    connection: Option<Arc<Connection>>,
    /// Bytes that the kernel did not take at once.
    rest: Vec<u8>,
    /// Packets that have been sent, and occupy room.
    spent: Vec<(u32, Departure)>,
}

/// See the module.
pub struct Peer {
    ends: Arc<Ends>,
    connected: Mutex<Option<Connected>>,
}

/// What a thread does until the connection ends.
type Run = fn(&Ends, &Connection, &AtomicBool) -> Result<()>;

struct Connected {
    connection: Arc<Connection>,
    has_ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Peer {
    /// `taker`: its number among those that take packets; see `Departures::open`.
    pub fn new(shared: Arc<Shared>, taker: usize, links: Vec<Link>) -> Result<Self> {
        let numbers = links.iter().map(|link| link.leaves).zip(0..).collect();
        let (ahead, sending, ended) = (Mutex::default(), Mutex::default(), Signal::new()?);
        let ends = Arc::new(Ends { shared, taker, links, numbers, ahead, sending, ended });
        let offered = Arc::downgrade(&ends);
        let offer = move || offered.upgrade().is_some_and(|ends| ends.send_few());
        ends.shared.departures.offer(taker, Box::new(offer));
        Ok(Peer { ends, connected: Mutex::default() })
    }

    pub fn links(&self) -> &[Link] {
        &self.ends.links
    }

    /// Readable when the connection has ended, until the next one.
    pub fn ended(&self) -> &Signal {
        &self.ends.ended
    }

    /// Count from 0 again: it is another process now.
    pub fn begin(&self) {
        self.ends.links.iter().flat_map(Link::counts).for_each(|count| count.store(0, Ordering::Release));
    }

    /// Carry packets over a connection from now on. `reported`: by link, how many the other machine has taken in so far.
    pub fn connect(&self, connection: Arc<Connection>, reported: &[u64]) -> Result<()> {
        self.disconnect();
        let ends = &self.ends;
        for (link, reported) in ends.links.iter().zip(reported) {
            link.reported.store(*reported, Ordering::Release);
            ends.shared.departures.unpause(link.leaves);
        }
        lock(&ends.ahead).clear();
        *lock(&ends.sending) = Sending { connection: Some(Arc::clone(&connection)), ..Sending::default() };
        ends.ended.clear();
        let has_ended = Arc::<AtomicBool>::default();
        let mut connected = Connected {
            connection: Arc::clone(&connection),
            has_ended: Arc::clone(&has_ended),
            threads: Vec::new(),
        };
        let runs: [(&str, Run); 2] = [("to", Ends::send), ("from", Ends::receive)];
        for (way, run) in runs {
            let (ends, connection, has_ended) =
                (Arc::clone(ends), Arc::clone(&connection), Arc::clone(&has_ended));
            let named = Builder::new().name(format!("{way} machine {}", ends.taker));
            connected.threads.push(named.spawn(move || {
                // the other thread ends too, and Python is told
                if catch_unwind(AssertUnwindSafe(|| run(&ends, &connection, &has_ended))).is_err() {
                    ends.shared.fail("the native datapath broke: a connection to another machine".to_owned());
                }
                has_ended.store(true, Ordering::Release);
                connection.close();
                ends.wake();
                ends.ended.raise();
            })?);
        }
        self.ends.wake();
        *lock(&self.connected) = Some(connected);
        Ok(())
    }

    /// End the connection, and wait until nothing of it can arrive any more.
    pub fn disconnect(&self) {
        let Some(connected) = lock(&self.connected).take() else { return };
        connected.has_ended.store(true, Ordering::Release);
        connected.connection.close();
        self.ends.wake();
        // a panic has already been caught and reported by the thread itself
        connected.threads.into_iter().for_each(|thread| _ = thread.join());
        let left = std::mem::take(&mut *lock(&self.ends.sending));
        self.ends.spend(left.spent);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.disconnect();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ends {
    /// Have the sending thread look.
    fn wake(&self) {
        self.signal().raise();
    }

    fn signal(&self) -> &Signal {
        self.shared.departures.signal(self.taker).expect("it is open")
    }

    // --- sending ---------------------------------------------------------------------------------------------

    fn send(&self, connection: &Connection, has_ended: &AtomicBool) -> Result<()> {
        loop {
            self.signal().wait(-1);
            loop {
                if has_ended.load(Ordering::Acquire) {
                    return Ok(());
                }
                let mut sending = lock(&self.sending);
                let rest = std::mem::take(&mut sending.rest);
                connection.write_rest(&rest)?;
                let (ahead, taken) = self.take();
                let is_nothing = ahead.is_empty() && taken.is_empty();
                let written = if is_nothing { Ok(()) } else { write(connection, &ahead, &taken) };
                let mut spent = std::mem::take(&mut sending.spent);
                drop(sending); // the engine may be waited for now
                spent.extend(taken);
                self.spend(spent);
                written?;
                if is_nothing {
                    break;
                }
            }
        }
    }

    /// Take frames and packets that are to be sent, one turn of each link and service channel, management first.
    fn take(&self) -> (Vec<u8>, Vec<(u32, Departure)>) {
        let departures = &self.shared.departures;
        let mut waiting = departures.waiting(self.taker);
        waiting.sort_by_key(|(_, channel)| *channel != MANAGEMENT);
        let mut taken = Vec::new();
        for (direction, channel) in waiting {
            let number = self.numbers[&direction];
            let some = departures.take(direction, channel, TURN);
            let count: u32 = some.iter().map(|one| one.burst.count()).sum();
            self.links[number as usize].sent.fetch_add(count.into(), Ordering::AcqRel);
            taken.extend(some.into_iter().map(|one| (number, one)));
        }
        (std::mem::take(&mut *lock(&self.ahead)), taken)
    }

    /// Send what waits if that is little, and no thread sends; return whether nothing is left to do for one.
    fn send_few(&self) -> bool {
        let Ok(mut sending) = self.sending.try_lock() else { return false };
        let Some(connection) = sending.connection.clone() else { return false };
        if !sending.rest.is_empty() || self.shared.departures.bytes(self.taker) > FEW {
            return false;
        }
        let (ahead, taken) = self.take();
        let mut bytes = ahead;
        each_part(&heads_of(&taken), &taken, |part| bytes.extend_from_slice(part));
        // an error ends the connection where it is read
        sending.rest = connection.write_soon(bytes).unwrap_or_default();
        let (occupies, free): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(_, one)| one.token.is_some());
        self.shared.departures.spend(free.into_iter().map(|(_, one)| one).collect());
        sending.spent.extend(occupies);
        sending.rest.is_empty() && sending.spent.is_empty()
    }

    /// Give back what packets that are on their way occupied.
    fn spend(&self, taken: Vec<(u32, Departure)>) {
        let tokens: Vec<_> = taken.iter().filter_map(|(_, one)| one.token).collect();
        self.shared.departures.spend(taken.into_iter().map(|(_, one)| one).collect());
        if !tokens.is_empty() {
            self.shared.input(0, now(), |carrier, now| {
                tokens.iter().for_each(|token| _ = carrier.engine.release(now, *token));
            });
        }
    }

    // --- receiving -------------------------------------------------------------------------------------------

    fn receive(&self, connection: &Connection, _: &AtomicBool) -> Result<()> {
        let mut buffer = vec![0; READ + HEAD + MOST_BODY];
        let mut end = 0;
        let mut owed = Owed::default();
        loop {
            let Some(count) = connection.read(&mut buffer[end..], owed.wait_ms())? else {
                self.report(&mut owed);
                continue;
            };
            end += count;
            let used = self.take_in(&buffer[..end], &mut owed)?;
            buffer.copy_within(used..end, 0);
            end -= used;
            self.report(&mut owed);
        }
    }

    /// Take in the whole frames that these bytes begin with; return their bytes.
    fn take_in(&self, bytes: &[u8], owed: &mut Owed) -> Result<usize> {
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some(frame) = Frame::first(&bytes[at..]).map_err(|_| Error::other("no frame"))? {
            let link = self.links.get(frame.head.link as usize);
            frames.push((frame, link.ok_or_else(|| Error::other("no link"))?));
            at += frame.len();
        }
        let mut packets = false;
        for (frame, link) in &frames {
            match frame.head.kind {
                Kind::Packets => packets = true,
                Kind::Received if frame.number() <= link.sent.load(Ordering::Acquire) => {
                    link.reported.store(frame.number(), Ordering::Release);
                }
                Kind::Received => return Err(Error::other("more than was sent")),
                Kind::Pause | Kind::Resume => {
                    let paused = frame.head.kind == Kind::Pause;
                    self.shared.departures.pause(link.leaves, frame.head.sc.into(), paused);
                }
            }
        }
        if packets {
            let enter = |carrier: &mut Carrier, now: u64| {
                for (frame, link) in frames.iter().filter(|(frame, _)| frame.head.kind == Kind::Packets) {
                    carrier.engine.cross_all(now, link.arrives, frame);
                    let channel = u32::from(frame.head.sc) % 32;
                    if carrier.engine.waiting_on(link.arrives, channel) > FULL_BYTES {
                        owed.pause(frame.head.link, frame.head.sc);
                    }
                }
            };
            self.shared.carry(0, now(), enter);
            for (frame, link) in frames.iter().filter(|(frame, _)| frame.head.kind == Kind::Packets) {
                link.received.fetch_add(frame.head.count.into(), Ordering::AcqRel);
                link.received_bytes.fetch_add(frame.body.len() as u64, Ordering::AcqRel);
                owed.report(frame.head.link);
            }
        }
        Ok(at)
    }

    /// Have the other machine told what is due.
    fn report(&self, owed: &mut Owed) {
        let mut said = std::mem::take(&mut owed.pauses);
        let before = owed.paused.len();
        if before > 0 {
            let waiting = |carrier: &mut Carrier, _| {
                let is_full = |(link, sc): &(u32, u8)| {
                    let arrives = self.links[*link as usize].arrives;
                    carrier.engine.waiting_on(arrives, u32::from(*sc) % 32) > FULL_BYTES / 2
                };
                let (full, free) = owed.paused.iter().copied().partition::<Vec<_>, _>(is_full);
                owed.paused = full;
                free
            };
            for (link, sc) in self.shared.input(0, now(), waiting) {
                said.extend(Head::alone(Kind::Resume, link, sc).build());
            }
        }
        if owed.since.is_some_and(|since| since.elapsed() >= REPORT) {
            owed.since = None;
            for link in std::mem::take(&mut owed.links) {
                let head = Head { count: 1, size: 8, ..Head::alone(Kind::Received, link, 0) };
                let received = self.links[link as usize].received.load(Ordering::Acquire);
                said.extend(head.build());
                said.extend(received.to_be_bytes());
            }
        }
        if !said.is_empty() {
            lock(&self.ahead).extend(said);
            self.wake();
        }
    }
}

/// What the other machine is still to be told.
#[derive(Default)]
struct Owed {
    /// Links whose packets have arrived, and since when.
    links: BTreeSet<u32>,
    since: Option<Instant>,
    /// Links and service channels whose sender is paused.
    paused: Vec<(u32, u8)>,
    /// Frames that pause senders.
    pauses: Vec<u8>,
}

impl Owed {
    fn report(&mut self, link: u32) {
        self.since.get_or_insert_with(Instant::now);
        self.links.insert(link);
    }

    fn pause(&mut self, link: u32, sc: u8) {
        if !self.paused.contains(&(link, sc)) {
            self.paused.push((link, sc));
            self.pauses.extend(Head::alone(Kind::Pause, link, sc).build());
        }
    }

    /// How long nothing is due; negative: ever.
    fn wait_ms(&self) -> i32 {
        if !self.paused.is_empty() {
            return PAUSED_MS;
        }
        let left = |since: Instant| REPORT.saturating_sub(since.elapsed()).as_micros().div_ceil(1000) as i32;
        self.since.map_or(-1, left)
    }
}

/// Write frames: those that go ahead, then packets.
fn write(connection: &Connection, ahead: &[u8], taken: &[(u32, Departure)]) -> Result<()> {
    let heads = heads_of(taken);
    let mut parts = vec![IoSlice::new(ahead)];
    each_part(&heads, taken, |part| parts.push(IoSlice::new(part)));
    connection.write(&mut parts)
}

type Heads = Vec<(usize, [u8; HEAD])>;

/// Return the heads of the frames of packets, each with the place of its first ones: those that follow each other over
/// one link and are alike are one frame.
fn heads_of(taken: &[(u32, Departure)]) -> Heads {
    let mut heads: Vec<(usize, Head)> = Vec::new();
    for (at, (link, departure)) in taken.iter().enumerate() {
        let head = head_of(*link, &departure.burst);
        if let Some((_, last)) = heads.last_mut()
            && (Head { count: last.count, ..head }) == *last
            && usize::from(last.count) + usize::from(head.count) <= MOST_PACKETS
            && last.body() + head.body() <= MOST_BODY
        {
            last.count += head.count;
        } else {
            heads.push((at, head));
        }
    }
    heads.into_iter().map(|(at, head)| (at, head.build())).collect()
}

/// Pass on each part of the frames of packets.
fn each_part<'a>(heads: &'a Heads, taken: &'a [(u32, Departure)], mut each: impl FnMut(&'a [u8])) {
    let mut heads = heads.iter().peekable();
    for (at, (_, departure)) in taken.iter().enumerate() {
        if let Some((_, head)) = heads.next_if(|(first, _)| *first == at) {
            each(head);
        }
        departure.burst.packets().for_each(&mut each);
    }
}
