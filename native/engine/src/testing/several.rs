//! The engines of several workers on one virtual time, without threads: what happens first happens first, wherever.

use std::collections::BTreeMap;

use crate::api::{Counted, Engine};
use crate::counters::{Drop, Passing};
use crate::outputs::{Output, PortId};
use crate::packet::Packet;
use crate::port::Address;

/// What an element counted: in, copies, out, then drops by reason; and what is in flight.
pub type Totals = (Vec<u64>, i64);

/// See the module.
pub struct Several {
    pub engines: Vec<Engine>,
    pub outputs: Vec<Output>,
    /// How often something was handed over, one packet or several.
    pub handed: u64,
    /// How many packets that was.
    pub handed_packets: u64,
}

impl Several {
    /// Make engines for so many workers, and the same fabric in each.
    pub fn new(workers: u32, build: impl Fn(&mut Engine)) -> Self {
        let mut several = Several {
            engines: (0..workers).map(|worker| Engine::of_worker(worker, workers)).collect(),
            outputs: Vec::new(),
            handed: 0,
            handed_packets: 0,
        };
        several.each(build);
        several
    }

    /// Change all engines alike.
    pub fn each(&mut self, change: impl Fn(&mut Engine)) {
        self.engines.iter_mut().for_each(change);
        self.exchange();
    }

    /// Let everything happen that is due by then.
    pub fn advance(&mut self, until: u64) {
        while let Some(now) =
            self.engines.iter().filter_map(Engine::next_event).min().filter(|now| *now <= until)
        {
            self.engines.iter_mut().for_each(|engine| engine.handle_timeout(now));
            self.exchange();
        }
    }

    /// The same in steps of so many nanoseconds, after which workers hear of each other.
    pub fn advance_by(&mut self, step: u64, until: u64) {
        while let Some(next) =
            self.engines.iter().filter_map(Engine::next_event).min().filter(|now| *now <= until)
        {
            let now = (next / step + 1).saturating_mul(step).min(until);
            self.engines.iter_mut().for_each(|engine| engine.handle_timeout(now));
            self.exchange();
        }
    }

    /// Send a packet from a port.
    pub fn inject(&mut self, now: u64, port: PortId, packet: Packet, address: Address) -> Option<Drop> {
        self.advance(now);
        let owner = self.engines[0].owner(port);
        let drop = self.engines[owner as usize].inject(now, port, packet, address);
        self.exchange();
        drop
    }

    /// Hand over what is to be handed over, and take the outputs.
    pub fn exchange(&mut self) {
        for from in 0..self.engines.len() {
            for to in 0..self.engines.len() {
                let packets = self.engines[from].outbox(to as u32).take();
                self.handed += packets.len() as u64;
                self.handed_packets +=
                    packets.iter().map(|handover| u64::from(handover.burst.count())).sum::<u64>();
                packets.into_iter().for_each(|handover| self.engines[to].take_in(from as u32, handover));
            }
            self.outputs.extend(std::iter::from_fn(|| self.engines[from].poll_output()));
        }
    }

    /// Return what each element has counted since the last time, in all engines together.
    pub fn totals(&mut self) -> BTreeMap<String, Totals> {
        totals(&mut self.engines)
    }
}

/// Return what each element has counted since the last time, in all these engines together.
pub fn totals(engines: &mut [Engine]) -> BTreeMap<String, Totals> {
    let mut totals = BTreeMap::new();
    for counted in engines.iter_mut().flat_map(Engine::take_counted) {
        match counted {
            Counted::Port { port, counted } => {
                add(&mut totals, format!("port {port} tx"), &counted.0);
                add(&mut totals, format!("port {port} rx"), &counted.1);
            }
            Counted::Switch { switch, counted } => add(&mut totals, format!("switch {switch}"), &counted),
            Counted::Direction { direction, counted, .. } => {
                add(&mut totals, format!("direction {direction}"), &counted);
            }
            Counted::Tally { tally, seen, hits } => {
                totals.insert(format!("tally {tally}"), (vec![seen, hits], 0));
            }
            Counted::Congestion { port, counted: c } => {
                let numbers = vec![c.fecn_received, c.becn_sent, c.becn_received, c.tx_stops];
                totals.insert(format!("congestion {port}"), (numbers, 0));
            }
        }
    }
    totals.retain(|_, (numbers, in_flight)| *in_flight != 0 || numbers.iter().any(|number| *number != 0));
    totals
}

fn add(totals: &mut BTreeMap<String, Totals>, name: String, counted: &Passing) {
    let numbers = counted.element.numbers().into_iter().map(|(_, number)| number);
    let numbers: Vec<u64> = numbers.chain(counted.element.drops.iter().copied()).collect();
    let (sums, in_flight) = totals.entry(name).or_insert_with(|| (vec![0; numbers.len()], 0));
    sums.iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += number);
    *in_flight += counted.in_flight;
}
