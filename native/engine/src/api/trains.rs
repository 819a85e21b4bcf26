//! Trains: packets of one large send, with one header and of one length, that stand together wherever nothing asks
//! anything of a single one. See docs/engine.md.
//!
//! A train is one entry on a wire, and what is decided by the header is decided once. Each packet keeps its bytes, its
//! sequence number, its own time of arrival and its check at the far end; what comes of a train, at which time and in
//! which order, is what would have come of its packets.

use super::Engine;
use crate::config::End;
use crate::counters::Drop;
use crate::events::Place;
use crate::link::direction::Direction;
use crate::link::wire::Next;
use crate::outputs::{DirectionId, PortId};
use crate::packet::{Packet, Train};
use crate::port::Address;

impl Engine {
    /// Let the host of an HFI port get packets of a train in one output, or one by one.
    pub fn take_trains(&mut self, port: PortId, takes: bool) {
        self.ports[port as usize].host_takes_trains = takes;
    }

    /// Whether `count` packets of `len` bytes may be injected together: nothing on any link looks at single packets, and no
    /// packet is refused.
    pub fn may_inject_train(
        &mut self,
        now: u64,
        port: PortId,
        address: Address,
        len: usize,
        count: usize,
    ) -> bool {
        if self.state.events.has_due(now) {
            self.handle_timeout(now);
        }
        let directions = &self.directions;
        let takes_trains =
            *self.takes_trains.get_or_insert_with(|| directions.iter().all(Direction::takes_trains));
        let sender = &self.ports[port as usize];
        let Some(leaving) = sender.leaving else { return false };
        takes_trains
            && self.has_room()
            && sender.may_send_train(address)
            && self.directions[leaving as usize].has_room_for(now, (len * count) as u64)
    }

    /// Send a train from an HFI port; `may_inject_train` has just said that it may be.
    pub fn inject_train(&mut self, now: u64, port: PortId, packet: Packet, count: u32) {
        let sender = &mut self.ports[port as usize];
        let train = Train { packet, from: 0, count, hops: 0 };
        sender.sent_train(&mut self.state, &train);
        if let Some(leaving) = sender.leaving {
            let times = std::iter::repeat_n(now, count as usize);
            self.directions[leaving as usize].enter_train(&mut self.state, times, train);
        }
    }

    /// Say what became of delivered packets of a train: their host took them, or why not.
    pub fn account_train(&mut self, port: PortId, train: &Train, drop: Option<Drop>) {
        self.ports[port as usize].account_train(&mut self.state, train, drop);
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
        let (packet, hops) = self.directions[number as usize].wire().first_train().filter(|_| in_rows)?;
        let arriving = &self.directions[number as usize];
        if !arriving.takes_trains() {
            return None;
        }
        let now = arriving.wire().next()?.arrival;
        match arriving.target {
            End::Hfi(port) => {
                let receiver = &mut self.ports[port as usize];
                if !receiver.may_receive_train() {
                    return None;
                }
                let count = arriving.wire().run(self.state.events.bound(Place::Port), until);
                let (train, next) = self.directions[number as usize].arrive_train(&mut self.state, count)?;
                receiver.receive_train(&mut self.state, now, train);
                Some(next)
            }
            End::Switch(switch, in_port) => {
                let switch = &mut self.switches[switch as usize];
                let leaving = switch.way_of(self.state.switches, in_port, packet, hops.saturating_add(1))?;
                let leaver = &self.directions[leaving as usize];
                // what enters now may be at the next switch before the rest of the train is here
                let latest = match leaver.target {
                    End::Hfi(_) if !self.state.events.is_strict() => until,
                    _ => until.min(now.saturating_add(leaver.wire().latency_ns())),
                };
                let count = arriving.wire().run(self.state.events.bound(Place::Inside), latest);
                let bytes = packet.len() as u64 * u64::from(count);
                if leaving == number || !leaver.takes_trains() || !leaver.has_room_for(now, bytes) {
                    return None;
                }
                let mut times = std::mem::take(&mut self.times);
                times.extend(arriving.wire().first_arrivals(count));
                let (mut train, next) =
                    self.directions[number as usize].arrive_train(&mut self.state, count)?;
                train.hops = train.hops.saturating_add(1);
                switch.forwarded(&mut self.state, &train);
                self.directions[leaving as usize].enter_train(&mut self.state, times.drain(..), train);
                self.times = times;
                Some(next)
            }
            // it goes to another machine packet by packet
            End::Boundary => None,
        }
    }
}
