//! What will happen in an engine, in one order: by time, and at one instant in the order in which it was scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::FastSet;
use crate::outputs::DirectionId;

/// Something that happens to one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The first packet on its wire arrives.
    Arrival(DirectionId),
    /// Its wire is free for what waits on several virtual lanes.
    WireFree(DirectionId),
    /// It has held a packet back for as long as a fault wanted.
    HeldLongEnough(DirectionId),
}

type Heap = BinaryHeap<Reverse<(u64, u64, Event)>>;

/// Heaps of (time in ns, sequence number, event).
///
/// A cancelled event stays in its heap until it comes to the top, or until most of the events are cancelled: a link that
/// flaps, or packets that overtake one that is held back for an hour, must not fill the memory.
#[derive(Debug, Default)]
pub struct Events {
    /// Arrivals at HFI ports, and at switches with a port 0 in service, which report what they receive.
    outward: Heap,
    /// All others. Most of them nobody sees: they need not be handled on time, only in order.
    inner: Heap,
    /// Sequence numbers of events that are cancelled and still in a heap, but never on top of it.
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

    /// Schedule an event under a sequence number that `number` returned.
    #[inline]
    pub fn push(&mut self, when: u64, number: u64, event: Event, is_outward: bool) {
        let heap = if is_outward { &mut self.outward } else { &mut self.inner };
        heap.push(Reverse((when, number, event)));
    }

    /// Note that an event brings about an output at once.
    pub fn make_outward(&mut self, number: u64) {
        let found = self.inner.iter().find(|Reverse((_, other, _))| *other == number).copied();
        if let Some(event) = found {
            self.inner.retain(|Reverse((_, other, _))| *other != number);
            self.outward.push(event);
            self.clear_tops();
        }
    }

    /// Schedule an event and return its sequence number.
    pub fn schedule(&mut self, when: u64, event: Event) -> u64 {
        let number = self.number();
        self.push(when, number, event, false);
        number
    }

    /// Take the first event that is due at `until` or before.
    #[inline]
    pub fn pop_due(&mut self, until: u64) -> Option<(u64, u64, Event)> {
        let heap = match (self.outward.peek(), self.inner.peek()) {
            (Some(outward), Some(inner)) if outward > inner => &mut self.outward,
            (Some(_), None) => &mut self.outward,
            _ => &mut self.inner,
        };
        if heap.peek()?.0.0 > until {
            return None;
        }
        let event = heap.pop().map(|Reverse(event)| event);
        if !self.cancelled.is_empty() {
            self.clear_tops();
        }
        event
    }

    fn clear_tops(&mut self) {
        for heap in [&mut self.outward, &mut self.inner] {
            while heap.peek().is_some_and(|Reverse((_, number, _))| self.cancelled.remove(number)) {
                heap.pop();
            }
        }
    }

    /// Forget an event that is scheduled.
    pub fn cancel(&mut self, number: u64) {
        self.cancelled.insert(number);
        if self.cancelled.len() * 2 > self.len() {
            for heap in [&mut self.outward, &mut self.inner] {
                heap.retain(|Reverse((_, number, _))| !self.cancelled.contains(number));
            }
            self.cancelled.clear();
        } else {
            self.clear_tops();
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

    /// When the first event is due that shows outside.
    #[inline]
    pub fn next_outward(&self) -> Option<u64> {
        self.outward.peek().map(|Reverse((when, ..))| *when)
    }

    /// When the first of the other events is due.
    #[inline]
    pub fn next_inner(&self) -> Option<u64> {
        self.inner.peek().map(|Reverse((when, ..))| *when)
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
            events.push(when, number, event, count % 3 == 0);
            if count % 5 < 3 {
                events.cancel(number);
            } else {
                kept.push((when, number, event));
            }
        }
        kept.sort_unstable();
        let first = [events.next_outward(), events.next_inner()].into_iter().flatten().min();
        assert_eq!(first, Some(kept[0].0));
        assert_eq!(std::iter::from_fn(|| events.pop_due(u64::MAX)).collect::<Vec<_>>(), kept);
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
            events.push(when, number, Event::Arrival(0), true);
            number
        });
        events.cancel(numbers[0]);
        assert_eq!(events.next_outward(), Some(10));
        events.cancel(numbers[2]);
        assert_eq!(events.pop_due(15), Some((10, numbers[1], Event::Arrival(0))));
        assert_eq!(events.next_outward(), Some(30));
    }
}
