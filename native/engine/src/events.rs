//! The future events of an engine, ordered by time, then by the order in which they were scheduled.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::hash::FastSet;
use crate::outputs::DirectionId;
use crate::share::WorkerId;

/// An event, mostly of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet on its wire arrives.
    Arrival(DirectionId),
    /// Its wire is free for packets that wait on several virtual lanes.
    WireFree(DirectionId),
    /// A packet has been held back for the time that its fault demands.
    HeldLongEnough(DirectionId),
    /// The first packet of a VL may have been that for too long.
    HeadsExpire(DirectionId),
    /// The first packet that this worker has handed over enters its direction.
    HandedOver(WorkerId),
}

/// Where an event happens, and so which outputs it can cause at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Within the fabric: visible only to an observer of the link.
    Inside,
    /// At an HFI port.
    Port,
    /// At a switch, for its port 0 perhaps.
    Switch,
}

/// An event taken from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub when: u64,
    pub number: u64,
    pub event: Event,
    /// Whether it may be handled before earlier events at ports.
    pub is_ahead: bool,
}

/// A queue entry: time, sequence number and event.
///
/// The event is a word here: a heap moves entries often, and a wide load right after several narrow stores stalls.
#[derive(Clone, Copy, Debug)]
struct Entry {
    when: u64,
    number: u64,
    code: u64,
}

impl Event {
    fn code(self) -> u64 {
        let (kind, subject) = match self {
            Event::Arrival(direction) => (0, direction),
            Event::WireFree(direction) => (1, direction),
            Event::HeldLongEnough(direction) => (2, direction),
            Event::HeadsExpire(direction) => (3, direction),
            Event::HandedOver(worker) => (4, worker),
        };
        kind << 32 | u64::from(subject)
    }
}

impl Entry {
    /// The sort key: one wide number, which compares without a branch.
    #[inline]
    fn order(&self) -> u128 {
        u128::from(self.when) << 64 | u128::from(self.number)
    }

    fn event(self) -> Event {
        let subject = self.code as u32;
        match self.code >> 32 & 7 {
            0 => Event::Arrival(subject),
            1 => Event::WireFree(subject),
            2 => Event::HeldLongEnough(subject),
            3 => Event::HeadsExpire(subject),
            _ => Event::HandedOver(subject),
        }
    }
}

impl PartialEq for Entry {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Which events happen at a switch where they may be outputs of the engine at once: a bit beside the code.
const AT_SWITCH: u64 = 1 << 40;

impl Entry {
    fn is_at_switch(self) -> bool {
        self.code & AT_SWITCH != 0
    }
}

/// The most entries of the run that a new one may pass.
const REACH: usize = 16;

/// Entries in order. Most are added nearly in order: each wire has one entry, and the events it causes follow soon.
///
/// These are kept in a sorted run and inserted near its end. An entry that would have to pass more of them, such as
/// those of slow wires, goes into a heap.
#[derive(Debug, Default)]
struct Queue {
    run: VecDeque<Entry>,
    heap: BinaryHeap<Reverse<Entry>>,
    /// How many of them are `AT_SWITCH`.
    at_switch: usize,
}

impl Queue {
    #[inline]
    fn push(&mut self, entry: Entry) {
        self.at_switch += usize::from(entry.is_at_switch());
        let end = self.run.len();
        if end == 0 || self.run[end - 1] < entry {
            return self.run.push_back(entry);
        }
        if entry < self.run[0] {
            return self.run.push_front(entry);
        }
        let behind = |at: &usize| *at == 0 || self.run[*at - 1] < entry;
        match (end.saturating_sub(REACH)..end).rev().find(behind) {
            Some(at) => self.run.insert(at, entry),
            None => self.heap.push(Reverse(entry)),
        }
    }

    #[inline]
    fn first(&self) -> Option<Entry> {
        match (self.run.front(), self.heap.peek()) {
            (Some(run), Some(Reverse(heap))) => Some(*run.min(heap)),
            (run, heap) => run.or(heap.map(|Reverse(entry)| entry)).copied(),
        }
    }

    /// Take off the entry that `first` returned.
    #[inline]
    fn drop_first(&mut self, first: Entry) {
        self.at_switch -= usize::from(first.is_at_switch());
        if self.run.front() == Some(&first) {
            self.run.pop_front();
        } else {
            self.heap.pop();
        }
    }

    /// Take out the entry of a sequence number, wherever it stands.
    fn take(&mut self, number: u64) -> Option<Entry> {
        let found = self.run.iter().chain(self.heap.iter().map(|Reverse(entry)| entry));
        let entry = found.copied().find(|entry| entry.number == number)?;
        self.retain(|other| other.number != number);
        Some(entry)
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        self.run.retain(&keep);
        self.heap.retain(|Reverse(entry)| keep(entry));
        let all = self.run.iter().chain(self.heap.iter().map(|Reverse(entry)| entry));
        self.at_switch = all.filter(|entry| entry.is_at_switch()).count();
    }

    fn len(&self) -> usize {
        self.run.len() + self.heap.len()
    }
}

/// Queues of (time in ns, sequence number, event).
///
/// A cancelled event stays in its queue until it comes to the top, or until most of the events are cancelled: a link that
/// flaps, or packets that overtake one that is held back for an hour, must not fill the memory.
#[derive(Debug, Default)]
pub struct Events {
    /// Arrivals at HFI ports, and at switches with a port 0 in service, which report what they receive.
    outward: Queue,
    /// All others. Most of them have no visible effect: they must be handled in order, not on time.
    inner: Queue,
    /// Sequence numbers of events that are cancelled and still in a queue, but never first in it.
    cancelled: FastSet<u64>,
    order: u64,
}

impl Events {
    /// Return the next sequence number, for an event that is pushed later, or not at all.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Return the first of so many sequence numbers in a row.
    #[inline]
    pub fn numbers(&mut self, count: u64) -> u64 {
        self.order += count;
        self.order + 1 - count
    }

    /// Schedule an event under a sequence number that `number` returned.
    #[inline]
    pub fn push(&mut self, when: u64, number: u64, event: Event, place: Place) {
        let at_switch = if place == Place::Switch { AT_SWITCH } else { 0 };
        let queue = if place == Place::Inside { &mut self.inner } else { &mut self.outward };
        queue.push(Entry { when, number, code: event.code() | at_switch });
    }

    /// Mark a scheduled inner event that causes an output at a switch at once.
    pub fn make_outward(&mut self, number: u64) {
        if let Some(entry) = self.inner.take(number) {
            self.outward.push(Entry { code: entry.code | AT_SWITCH, ..entry });
            self.clear_firsts();
        }
    }

    /// Schedule an event and return its sequence number.
    pub fn schedule(&mut self, when: u64, event: Event) -> u64 {
        let number = self.number();
        self.push(when, number, event, Place::Inside);
        number
    }

    /// Take an event that is due at `until` or before: the first one, or with `in_rows` the first one inside while
    /// there is one, and then the first of the others.
    ///
    /// What is inside happens in its order then, and so do arrivals at ports. Where nothing is at a switch, the two do
    /// not meet.
    #[inline]
    pub fn pop_due(&mut self, until: u64, in_rows: bool) -> Option<Due> {
        let mut is_ahead = false;
        let (queue, first) = match (self.outward.first(), self.inner.first()) {
            (_, Some(inner)) if inner.when <= until && self.goes_ahead(Place::Inside, in_rows) => {
                is_ahead = true;
                (&mut self.inner, inner)
            }
            (Some(outward), Some(inner)) if outward > inner => (&mut self.inner, inner),
            (Some(outward), _) => (&mut self.outward, outward),
            (None, inner) => (&mut self.inner, inner?),
        };
        if first.when > until {
            return None;
        }
        queue.drop_first(first);
        if !self.cancelled.is_empty() {
            self.clear_firsts();
        }
        Some(Due { when: first.when, number: first.number, event: first.event(), is_ahead })
    }

    /// Whether anything is due at `until` or before.
    #[inline]
    pub fn has_due(&self, until: u64) -> bool {
        [&self.outward, &self.inner]
            .iter()
            .any(|queue| queue.first().is_some_and(|first| first.when <= until))
    }

    /// Whether an event that is not queued would be the next one, with `in_rows` the next of its kind.
    #[inline]
    pub fn is_next(&self, when: u64, number: u64, place: Place, in_rows: bool) -> bool {
        let entry = Entry { when, number, code: 0 };
        let is_before = |queue: &Queue| queue.first().is_none_or(|first| entry < first);
        if in_rows && self.outward.at_switch == 0 {
            return match place {
                Place::Inside => is_before(&self.inner),
                Place::Port => is_before(&self.outward),
                Place::Switch => false,
            };
        }
        is_before(&self.outward) && is_before(&self.inner)
    }

    /// Whether an event may be handled early, as with `in_rows`: before earlier events at ports.
    #[inline]
    pub fn goes_ahead(&self, place: Place, in_rows: bool) -> bool {
        in_rows && place == Place::Inside && self.outward.at_switch == 0
    }

    /// Whether what is inside and what is at ports share one order although either could be taken in its own.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.outward.at_switch > 0
    }

    /// The time and number before which an event that is not queued would be the next one; with `strict` of all kinds.
    #[inline]
    pub fn bound(&self, place: Place, strict: bool) -> (u64, u64) {
        let first =
            |queue: &Queue| queue.first().map_or((u64::MAX, u64::MAX), |first| (first.when, first.number));
        match place {
            _ if strict => first(&self.inner).min(first(&self.outward)),
            Place::Inside => first(&self.inner),
            _ => first(&self.outward),
        }
    }

    fn clear_firsts(&mut self) {
        for queue in [&mut self.outward, &mut self.inner] {
            while let Some(first) = queue.first().filter(|first| self.cancelled.remove(&first.number)) {
                queue.drop_first(first);
            }
        }
    }

    /// Forget an event that is scheduled.
    pub fn cancel(&mut self, number: u64) {
        self.cancelled.insert(number);
        if self.cancelled.len() * 2 > self.len() {
            for queue in [&mut self.outward, &mut self.inner] {
                queue.retain(|entry| !self.cancelled.contains(&entry.number));
            }
            self.cancelled.clear();
        } else {
            self.clear_firsts();
        }
    }

    /// Return how many events and numbers take up memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.len() + self.cancelled.len()
    }

    fn len(&self) -> usize {
        self.outward.len() + self.inner.len()
    }

    /// The time of the first visible event.
    #[inline]
    pub fn next_outward(&self) -> Option<u64> {
        self.outward.first().map(|first| first.when)
    }

    /// The time of the first inner event.
    #[inline]
    pub fn next_inner(&self) -> Option<u64> {
        self.inner.first().map(|first| first.when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn events_come_in_one_order_without_the_cancelled() {
        let mut events = Events::default();
        let mut kept = Vec::new();
        for count in 0..1000u64 {
            let (when, number) = (count * 7919 % 13, events.number());
            let event = Event::Arrival(count as u32);
            events.push(when, number, event, if count % 3 == 0 { Place::Port } else { Place::Inside });
            if count % 5 < 3 {
                events.cancel(number);
            } else {
                kept.push((when, number, event));
            }
        }
        kept.sort_unstable_by_key(|(when, number, _)| (*when, *number));
        let first = [events.next_outward(), events.next_inner()].into_iter().flatten().min();
        assert_eq!(first, Some(kept[0].0));
        assert_eq!(
            std::iter::from_fn(|| events
                .pop_due(u64::MAX, false)
                .map(|due| (due.when, due.number, due.event)))
            .collect::<Vec<_>>(),
            kept
        );
        assert_eq!(events.memory(), 0);
    }

    #[test]
    fn cancelled_events_that_are_due_in_an_hour_take_no_memory() {
        let mut events = Events::default();
        events.schedule(1, Event::WireFree(0));
        for _ in 0..100_000 {
            let number = events.schedule(HOUR, Event::HeldLongEnough(0));
            events.cancel(number);
        }
        assert!(events.memory() <= 4);
    }

    #[test]
    fn cancelled_event_is_not_the_next() {
        let mut events = Events::default();
        let numbers = [5, 10, 20, 30].map(|when| {
            let number = events.number();
            events.push(when, number, Event::Arrival(0), Place::Port);
            number
        });
        events.cancel(numbers[0]);
        assert_eq!(events.next_outward(), Some(10));
        events.cancel(numbers[2]);
        assert_eq!(events.pop_due(15, false).map(|due| (due.when, due.number)), Some((10, numbers[1])));
        assert_eq!(events.next_outward(), Some(30));
    }
}
