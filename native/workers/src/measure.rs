//! How many packets per second several workers carry, on real time and without a kernel: `opavnic bench engine`.
//!
//! Every port that sends builds packets with an ICRC, as many as are on their way at most; the engine checks each, and the
//! measurement its order.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use engine::api::Engine;
use engine::burst::Burst;
use engine::config::{End, PortConfig, PortNum, PortState, SwitchPortConfig};
use engine::link::config::LinkConfig;
use engine::outputs::{Output, PortId};
use engine::packet::slid;
use engine::random::Stream;
use engine::share::WorkerId;
use engine::switch::{LinearTable, MulticastTable};
use engine::testing::line::FAST;
use engine::testing::star::{PKEY, address, mark, packet, star};

use crate::crossing::Crossing;
use crate::team::{self, Failure, Stop};

/// Bytes of a frame.
pub const FRAME: usize = 1500;
pub const PORTS: u32 = 8;
/// Packets that a port sends at once, and those of it that are on their way at most.
const BATCH: u64 = 16;
const WINDOW: u64 = 64;
/// For how long a worker without work looks for some before it sleeps: longer than another takes for a batch of each of its
/// ports, since to be woken costs both more than that; and how often it looks before it lets other threads go first.
const LOOK_FOR: Duration = Duration::from_micros(100);
const LOOKS: u32 = 200;
/// For how long it sleeps at most.
const NAP: Duration = Duration::from_micros(50);
/// For how long packets may be on their way when no more are sent.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// All ports on one switch, each sends to each other.
    AllToAll,
    /// Half of the ports on each of two switches, and all packets over the one link between them.
    Bottleneck,
}

impl Case {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "all-to-all" => Case::AllToAll,
            "bottleneck" => Case::Bottleneck,
            _ => return None,
        })
    }

    fn build(self, engine: &mut Engine) {
        match self {
            Case::AllToAll => star(engine, PORTS, &FAST, None),
            Case::Bottleneck => two_switches(engine, &FAST),
        }
    }

    /// The ports that a port sends to; empty: it only receives.
    fn receivers(self, from: PortId) -> Vec<PortId> {
        match self {
            Case::AllToAll => (0..PORTS).filter(|to| *to != from).collect(),
            Case::Bottleneck if from < PORTS / 2 => (PORTS / 2..PORTS).collect(),
            Case::Bottleneck => vec![],
        }
    }
}

fn two_switches(engine: &mut Engine, config: &LinkConfig) {
    let half = PORTS / 2;
    let streams = |number: u32| [0, 1].map(|end| (Stream::new((number * 2 + end).into()), Stream::default()));
    let switches = [engine.add_switch(), engine.add_switch()];
    for number in 0..PORTS {
        let port = engine.add_port();
        engine.set_port(
            0,
            port,
            PortConfig::new(PortState::Active, number + 1, 0, vec![PKEY], vec![PKEY], vec![]),
        );
        let (switch, switch_port) = (switches[(number / half) as usize], (number % half) as PortNum + 1);
        engine.set_switch_port(0, switch, switch_port, SwitchPortConfig::plain(PortState::Active));
        engine.add_link(
            [End::Hfi(port), End::Switch(switch, switch_port)],
            [(config, None); 2],
            streams(number),
        );
    }
    let trunk = half as PortNum + 1;
    for switch in switches {
        engine.set_switch_port(0, switch, trunk, SwitchPortConfig::plain(PortState::Active));
        let way = |port: u32| if port / half == switch { (port % half) as PortNum + 1 } else { trunk };
        let entries = std::iter::once(0).chain((0..PORTS).map(way)).collect();
        engine.set_tables(0, switch, LinearTable { entries, groups: vec![] }, MulticastTable::default());
    }
    engine.add_link(switches.map(|switch| End::Switch(switch, trunk)), [(config, None); 2], streams(PORTS));
}

/// What came of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    pub sent: u64,
    pub delivered: u64,
    /// Packets that did not come next in their flow.
    pub astray: u64,
    /// Packets that one worker handed to another.
    pub handed: u64,
    pub elapsed: Duration,
}

/// What workers know of each other.
struct Shared {
    crossing: Crossing,
    start: Instant,
    send_for: Duration,
    /// By worker: what it has received. Only it writes there: a line that two wrote would go from processor to processor.
    arrived: Vec<Arrived>,
    /// Workers all of whose packets have arrived.
    done: AtomicUsize,
    workers: u32,
    /// To be woken where they sleep.
    threads: Vec<OnceLock<Thread>>,
}

/// By port: packets of it that have arrived at a worker.
#[derive(Default)]
#[repr(align(128))]
struct Arrived([AtomicU64; PORTS as usize]);

struct Sender {
    port: PortId,
    /// With how many packets each was sent.
    receivers: Vec<(PortId, u64)>,
    next: usize,
    sent: u64,
}

struct Worker<'a> {
    number: WorkerId,
    engine: Engine,
    shared: &'a Shared,
    senders: Vec<Sender>,
    /// By sender and receiver: the mark of the next packet.
    expected: Vec<u64>,
    /// By sender: packets that arrived here.
    arrived: [u64; PORTS as usize],
    figure: Figure,
}

/// Measure for so long how many packets per second so many workers carry. `begin` is called first on the thread of each.
pub fn measure(
    case: Case,
    workers: u32,
    send_for: Duration,
    begin: impl Fn(WorkerId) + Sync,
) -> Result<Figure, Failure> {
    let shared = Shared::new(workers, Instant::now(), send_for);
    let job = |number| {
        let (shared, begin) = (&shared, &begin);
        move |stop: &Stop| {
            begin(number);
            Worker::new(case, number, shared).run(stop)
        }
    };
    Ok(together(team::run((0..workers).map(job).collect())?))
}

/// Measure the same of as many threads that share nothing: each is one worker with a fabric of its own.
///
/// What they do at once is the most that the machine gives so many workers.
pub fn measure_apart(
    case: Case,
    threads: u32,
    send_for: Duration,
    begin: impl Fn(WorkerId) + Sync,
) -> Result<Figure, Failure> {
    let start = Instant::now();
    let job = |number| {
        let begin = &begin;
        move |stop: &Stop| {
            begin(number);
            Worker::new(case, 0, &Shared::new(1, start, send_for)).run(stop)
        }
    };
    Ok(together(team::run((0..threads).map(job).collect())?))
}

/// Add up what threads have measured at the same time.
fn together(figures: Vec<Figure>) -> Figure {
    figures.into_iter().fold(Figure::default(), |sum, figure| Figure {
        sent: sum.sent + figure.sent,
        delivered: sum.delivered + figure.delivered,
        astray: sum.astray + figure.astray,
        handed: sum.handed + figure.handed,
        elapsed: sum.elapsed.max(figure.elapsed),
    })
}

impl Shared {
    fn new(workers: u32, start: Instant, send_for: Duration) -> Self {
        Shared {
            crossing: Crossing::new(workers),
            start,
            send_for,
            arrived: (0..workers).map(|_| Arrived::default()).collect(),
            done: AtomicUsize::new(0),
            workers,
            threads: (0..workers).map(|_| OnceLock::new()).collect(),
        }
    }

    /// How many packets of a port have arrived.
    fn arrived(&self, port: PortId) -> u64 {
        self.arrived.iter().map(|worker| worker.0[port as usize].load(Ordering::Acquire)).sum()
    }
}

impl<'a> Worker<'a> {
    fn new(case: Case, number: WorkerId, shared: &'a Shared) -> Self {
        let mut engine = Engine::of_worker(number, shared.workers);
        case.build(&mut engine);
        let sender = |port| Sender {
            port,
            receivers: case.receivers(port).into_iter().map(|to| (to, 0)).collect(),
            next: port as usize,
            sent: 0,
        };
        let own =
            (0..PORTS).filter(|port| engine.owner(*port) == number && !case.receivers(*port).is_empty());
        Worker {
            number,
            shared,
            senders: own.map(sender).collect(),
            expected: vec![0; (PORTS * PORTS) as usize],
            arrived: [0; PORTS as usize],
            figure: Figure::default(),
            engine,
        }
    }

    fn run(mut self, stop: &Stop) -> Figure {
        let mut list = Vec::new();
        let (mut is_done, mut looks, mut idle_since) = (false, 0, Duration::ZERO);
        _ = self.shared.threads[self.number as usize].set(thread::current());
        loop {
            let elapsed = self.shared.start.elapsed();
            let now = elapsed.as_nanos() as u64;
            let handed = self.shared.crossing.receive(self.number, &mut self.engine, &mut list);
            self.figure.handed += handed as u64;
            self.engine.handle_timeout(now);
            let mut is_busy = self.take() | (handed > 0);
            // on a busy machine a thread may begin when the time is over
            let is_late = self.figure.sent == 0 && !self.senders.is_empty();
            if elapsed < self.shared.send_for || is_late {
                is_busy |= self.send(now);
            } else if !is_done && self.has_arrived() {
                is_done = true;
                self.figure.elapsed = elapsed;
                self.shared.done.fetch_add(1, Ordering::Release);
            }
            let threads = &self.shared.threads;
            let wake = |worker| threads[worker as usize].get().into_iter().for_each(Thread::unpark);
            self.shared.crossing.send(self.number, &mut self.engine, wake);
            let all_done = self.shared.done.load(Ordering::Acquire) == self.shared.workers as usize;
            if all_done || stop.is_set() || elapsed > self.shared.send_for + PATIENCE {
                return self.figure;
            }
            if is_busy {
                (looks, idle_since) = (0, elapsed);
                continue;
            }
            looks += 1;
            if elapsed > idle_since + LOOK_FOR {
                thread::park_timeout(NAP);
            } else if looks > LOOKS {
                thread::yield_now();
            }
        }
    }

    /// Take what was delivered; return whether anything was.
    fn take(&mut self) -> bool {
        let before = self.figure.delivered;
        while let Some(output) = self.engine.poll_output() {
            let Output::Delivered { port, burst: Burst { packet, .. }, .. } = output else { continue };
            let from = (slid(&packet) - 1) as usize;
            let expected = &mut self.expected[from * PORTS as usize + port as usize];
            self.figure.astray += u64::from(mark(&packet) != *expected);
            *expected += 1;
            self.arrived[from] += 1;
            self.figure.delivered += 1;
            self.engine.packets().send_home(packet);
        }
        let is_fresh = self.figure.delivered != before;
        if is_fresh {
            let told = &self.shared.arrived[self.number as usize].0;
            told.iter().zip(self.arrived).for_each(|(told, arrived)| told.store(arrived, Ordering::Release));
        }
        is_fresh
    }

    /// Send a batch from each port that has not too many packets on their way; return whether any has.
    fn send(&mut self, now: u64) -> bool {
        let before = self.figure.sent;
        for sender in &mut self.senders {
            if sender.sent - self.shared.arrived(sender.port) + BATCH > WINDOW {
                continue;
            }
            for _ in 0..BATCH {
                sender.next = (sender.next + 1) % sender.receivers.len();
                let (to, sequence) = &mut sender.receivers[sender.next];
                let address = address(sender.port, *to);
                let packet = packet(self.engine.packets(), address, FRAME, *sequence);
                *sequence += 1;
                let drop = self.engine.inject(now, sender.port, packet, address);
                debug_assert!(drop.is_none());
            }
            sender.sent += BATCH;
            self.figure.sent += BATCH;
        }
        self.figure.sent != before
    }

    fn has_arrived(&self) -> bool {
        self.senders.iter().all(|sender| self.shared.arrived(sender.port) == sender.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_delivered_in_order_by_any_number_of_workers() {
        for case in [Case::AllToAll, Case::Bottleneck] {
            for workers in 1..=4 {
                let figure = measure(case, workers, Duration::from_millis(30), |_| ()).unwrap();
                assert!(figure.sent > 0);
                assert_eq!(
                    (figure.delivered, figure.astray),
                    (figure.sent, 0),
                    "{case:?}, {workers} workers"
                );
                assert_eq!(figure.handed > 0, workers > 1);
            }
        }
    }
}
