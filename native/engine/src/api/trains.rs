//! Trains: packets of one large send, with one header and of one length, that are handled together wherever no single
//! packet needs separate treatment. See docs/engine.md.
//!
//! A train is one entry on a wire, and decisions by its header are made once. Each packet keeps its bytes, its sequence
//! number, its arrival time and its own check; results, times and order are those of the single packets.
//!
//! On links with credits each packet is an event of its own (a car): it goes when there is room for it. It stays in the
//! buffer of its train on its way from host to host, and its room is free as of its arrival.

use super::{Engine, LOW_POOL};
use crate::config::End;
use crate::counters::Drop;
use crate::crossing::{Record, Records};
use crate::events::Place;
use crate::link::wire::Next;
use crate::outputs::{DirectionId, Output, PortId};
use crate::packet::{Packet, Train, longest_train};
use crate::port::Address;
use crate::share::WorkerId;

/// On paths of more directions than this from a switch on, trains are split into few packets at a time.
const LONGEST_WAY: usize = 12;

impl Engine {
    /// Let the host of an HFI port get packets of a train in one output, or one by one.
    pub fn take_trains(&mut self, port: PortId, takes: bool) {
        self.ports[port as usize].host_takes_trains = takes;
    }

    /// Whether `count` packets of `len` bytes with this header may be injected together: nothing on their way looks at
    /// single packets, and the port refuses none.
    pub fn may_inject_train(
        &mut self,
        now: u64,
        port: PortId,
        address: Address,
        header: &[u8],
        len: usize,
        count: usize,
    ) -> bool {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        let sender = &self.ports[port as usize];
        let Some(leaving) = sender.leaving else { return false };
        self.has_room()
            && sender.may_send_train(address)
            && self.directions[leaving as usize].has_room_for(&self.state, now, (len * count) as u64)
            && self.stays_whole(leaving, header, 0)
    }

    /// Whether a train that enters a direction after so many hops would be one up to an HFI port, or up to where it
    /// leaves for another engine, as everything is now: all links on its way have credits, or none has.
    fn stays_whole(&self, mut number: DirectionId, header: &[u8], mut hops: u32) -> bool {
        let in_cars = self.directions[number as usize].takes_cars();
        loop {
            let direction = &self.directions[number as usize];
            let takes = if in_cars { direction.takes_cars() } else { direction.takes_trains() };
            if !takes {
                return false;
            }
            let next = match direction.target {
                End::Hfi(port) => return self.ports[port as usize].may_receive_train(),
                End::Switch(switch, in_port) => {
                    hops += 1;
                    self.switches[switch as usize].way_of(self.state.switches, in_port, header, hops)
                }
                End::Boundary => return self.trains_leave && !in_cars,
            };
            match next {
                Some(next) if next != number => number = next,
                _ => return false,
            }
        }
    }

    /// Send a train from an HFI port; `may_inject_train` has just said that it may be.
    pub fn inject_train(&mut self, now: u64, port: PortId, packet: Packet, count: u32) {
        let sender = &mut self.ports[port as usize];
        let train = Train { packet, from: 0, count, hops: 0 };
        sender.sent_train(&mut self.state, &train);
        if let Some(leaving) = sender.leaving {
            let leaving = &mut self.directions[leaving as usize];
            if leaving.takes_cars() {
                return leaving.enter_cars(&mut self.state, now, train);
            }
            let times = std::iter::repeat_n(now, count as usize);
            leaving.enter_train(&mut self.state, times, train);
        }
    }

    /// Say what became of delivered packets of a train: their host took them, or why not.
    pub fn account_train(&mut self, port: PortId, train: &Train, drop: Option<Drop>) {
        self.ports[port as usize].account_train(&mut self.state, train, drop);
    }

    /// Let packets of a train leave for another engine in one output, or one by one.
    pub fn let_trains_leave(&mut self, may: bool) {
        self.trains_leave = may;
    }

    /// Take packets that have left the engine at the other end of a link: `cross` for each, but those that follow each
    /// other in one flow, of one length, enter as a train where nothing asks for a single one.
    pub fn cross_all(&mut self, now: u64, direction: DirectionId, records: &Records<'_>) {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        let mut rest = records.iter().peekable();
        while let Some(first) = rest.next() {
            let mut alike = vec![first];
            if first.may_be_in_train() {
                let most = longest_train(first.bytes.len());
                while alike.len() < most
                    && let Some(next) = rest.next_if(|next| next.is_like(&first))
                {
                    alike.push(next);
                }
            }
            if alike.len() > 1 && self.cross_train(now, direction, &alike) {
                continue;
            }
            for record in alike {
                let packet = record.packet(&mut self.state.packets);
                self.cross(now, direction, packet, record.hops());
            }
        }
    }

    /// Take in packets of one flow together; return whether they may be.
    fn cross_train(&mut self, now: u64, direction: DirectionId, alike: &[Record<'_>]) -> bool {
        let arriving = &self.directions[direction as usize];
        if !self.has_room() || !arriving.takes_what_crosses() {
            return false;
        }
        let (first, count) = (&alike[0], alike.len() as u32);
        let End::Switch(switch, in_port) = arriving.target else { return false };
        let hops = first.hops().saturating_add(1);
        let way = self.switches[switch as usize].way_of(self.state.switches, in_port, first.bytes, hops);
        let Some(leaving) = way else { return false };
        let bytes = (first.bytes.len() * alike.len()) as u64;
        if !self.directions[leaving as usize].has_room_for(&self.state, now, bytes)
            || !self.stays_whole(leaving, first.bytes, hops)
        {
            return false;
        }
        let mut each = alike.iter();
        let packet = self.state.packets.make_train(first.bytes.len(), alike.len(), |own| {
            each.next().expect("as many as there are").write(own);
        });
        let train = Train { packet, from: 0, count, hops };
        self.directions[direction as usize].cross_train(&mut self.state, now, &train);
        self.switches[switch as usize].forwarded(&mut self.state, train.count, train.packet.len());
        let times = std::iter::repeat_n(now, alike.len());
        self.directions[leaving as usize].enter_train(&mut self.state, times, train);
        true
    }

    /// Whether no event can see the first packets of a train that enters a direction before the last ones are here: then
    /// the train may enter as a whole. `arriving` is the direction by which the train came.
    ///
    /// The caller makes sure that there are no events but those of the train; a train must not meet itself. Captures
    /// and faults that span several directions depend on the exact order, and exclude trains here.
    #[inline]
    fn meets_nobody(
        &self,
        arriving: Option<DirectionId>,
        mut number: DirectionId,
        header: &[u8],
        mut hops: u32,
    ) -> bool {
        let entered = &self.directions[number as usize];
        if matches!(entered.target, End::Hfi(_)) || !entered.is_here() {
            return true; // another worker handles what follows
        }
        if !entered.is_quiet() {
            return false;
        }
        let mut way = [number; LONGEST_WAY];
        for at in 0..LONGEST_WAY {
            if way[..at].contains(&number) || arriving == Some(number) {
                return false;
            }
            way[at] = number;
            let (switch, in_port) = match self.directions[number as usize].target {
                End::Switch(switch, in_port) => (switch, in_port),
                End::Hfi(_) => return true,
                End::Boundary => return false,
            };
            hops = hops.saturating_add(1);
            match self.switches[switch as usize].way_of(self.state.switches, in_port, header, hops) {
                Some(next) => number = next,
                None => return false,
            }
        }
        false
    }

    /// Let packets of a train enter together that a worker has handed over: the one that is due, and those that are next
    /// of all. Return what `enter_one` returns; None: the packet is to enter by itself.
    #[inline]
    pub(super) fn enter_together(
        &mut self,
        worker: WorkerId,
        until: u64,
        in_rows: bool,
    ) -> Option<Option<(u64, u64)>> {
        let (first, number) = self.state.share.first_in(worker)?;
        let together = first.train.as_ref()?;
        let (now, direction) = (first.time, first.direction);
        let entered = &self.directions[direction as usize];
        if !entered.takes_trains() || !self.has_room() {
            return None;
        }
        let events = &self.state.events;
        let is_strict = !in_rows || events.is_strict();
        // as in `arrive_together`
        let is_alone = !is_strict && self.meets_nobody(None, direction, &first.packet, first.hops);
        let latest =
            if is_alone { until } else { until.min(now.saturating_add(entered.wire().latency_ns())) };
        let count = together.run(number, events.bound(Place::Inside, is_strict), latest);
        let bytes = first.packet.len() as u64 * u64::from(count);
        if !entered.has_room_for(&self.state, now, bytes) {
            return None;
        }
        let mut times = std::mem::take(&mut self.times);
        let (train, next) = self.state.share.next_train_in(worker, count, &mut times)?;
        self.directions[direction as usize].enter_train(&mut self.state, times.drain(..), train);
        self.times = times;
        Some(next)
    }

    /// Let packets of the train that is first on a wire arrive together: the one that is due, and those that are next of
    /// all. Return what `arrive_one` returns; None: the packet is to arrive by itself.
    #[inline]
    pub(super) fn arrive_together(
        &mut self,
        number: DirectionId,
        until: u64,
        in_rows: bool,
    ) -> Option<Option<Next>> {
        let arriving = &self.directions[number as usize];
        let (packet, hops) = arriving.wire().first_train()?;
        if arriving.takes_cars() {
            return self.arrive_car(number);
        }
        if !arriving.takes_trains() || !self.has_room() {
            return None;
        }
        let events = &self.state.events;
        let is_strict = !in_rows || events.is_strict();
        let now = arriving.wire().next()?.arrival;
        match arriving.target {
            End::Hfi(port) => {
                let receiver = &mut self.ports[port as usize];
                if !receiver.may_receive_train() {
                    return None;
                }
                let count = arriving.wire().run(events.bound(Place::Port, is_strict), until);
                let (train, next) = self.directions[number as usize].arrive_train(&mut self.state, count)?;
                receiver.receive_train(&mut self.state, now, train);
                Some(next)
            }
            End::Switch(switch, in_port) => {
                let hops = hops.saturating_add(1);
                let leaving =
                    self.switches[switch as usize].way_of(self.state.switches, in_port, packet, hops)?;
                let leaver = &self.directions[leaving as usize];
                // what enters now may be at the next switch before the rest of the train is here
                let is_alone = !is_strict && self.meets_nobody(Some(number), leaving, packet, hops);
                let latest =
                    if is_alone { until } else { until.min(now.saturating_add(leaver.wire().latency_ns())) };
                let count = arriving.wire().run(events.bound(Place::Inside, is_strict), latest);
                let bytes = packet.len() as u64 * u64::from(count);
                let has_room = leaver.has_room_for(&self.state, now, bytes);
                if leaving == number || !leaver.takes_trains() || !has_room {
                    return None;
                }
                let mut times = std::mem::take(&mut self.times);
                times.extend(arriving.wire().first_arrivals(count));
                let (mut train, next) =
                    self.directions[number as usize].arrive_train(&mut self.state, count)?;
                train.hops = hops;
                self.switches[switch as usize].forwarded(&mut self.state, train.count, train.packet.len());
                self.directions[leaving as usize].enter_train(&mut self.state, times.drain(..), train);
                self.times = times;
                Some(next)
            }
            End::Boundary if self.trains_leave => {
                let count = arriving.wire().run(events.bound(Place::Port, is_strict), until);
                let (train, next) = self.directions[number as usize].arrive_train(&mut self.state, count)?;
                let departed = Output::Departed { time: now, direction: number, train, token: None };
                self.state.outputs.push_back(departed);
                Some(next)
            }
            End::Boundary => None,
        }
    }

    /// Let the packet that is due of a train arrive on a link with credits. Return what `arrive_one` returns; None: it is to
    /// leave its train.
    #[inline]
    fn arrive_car(&mut self, number: DirectionId) -> Option<Option<Next>> {
        let arriving = &self.directions[number as usize];
        let (packet, hops) = arriving.wire().first_train()?;
        let now = arriving.wire().next()?.arrival;
        match arriving.target {
            End::Hfi(port) => {
                let receiver = &mut self.ports[port as usize];
                if !receiver.may_receive_train() {
                    return None;
                }
                let (car, room, next) = self.directions[number as usize].arrive_car(&mut self.state)?;
                receiver.receive_car(&mut self.state, now, car, room);
                Some(next)
            }
            End::Switch(switch, in_port) => {
                let hops = hops.saturating_add(1);
                let switch = &mut self.switches[switch as usize];
                let leaving = switch.way_of(self.state.switches, in_port, packet, hops)?;
                if !self.directions[leaving as usize].takes_cars() || self.state.pool <= LOW_POOL {
                    return None;
                }
                let (mut car, room, next) = self.directions[number as usize].arrive_car(&mut self.state)?;
                car.hops = hops;
                switch.forwarded(&mut self.state, 1, car.packet.len());
                self.directions[leaving as usize].enter_car(&mut self.state, now, car, room);
                Some(next)
            }
            End::Boundary => None,
        }
    }
}
