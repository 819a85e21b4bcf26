//! Packets for other machines of a cluster: they have reached the end of the local half of a link. Each remote machine
//! has a taker, a thread that takes as many packets as fit a message, in order within a direction and service channel. A
//! machine that accepts no packets blocks its own taker only.
//!
//! Under the lock only references to packets are moved; bytes are copied outside the lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use engine::burst::Burst;
use engine::crossing::{TAG, record_bytes};
use engine::outputs::{BufferToken, DirectionId};
use engine::packet::{Packet, Packets, sc};

use crate::Signal;

/// The most bytes that wait in one direction. Further packets are dropped; links with credits have their own limit.
const MOST_BYTES: usize = 8 << 20;

/// Packets that wait for their taker.
#[derive(Debug)]
pub struct Departure {
    pub burst: Burst,
    pub token: Option<BufferToken>,
}

/// Packets that reached the end of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    /// Dropped for lack of room.
    pub overflows: u64,
    /// Lost because the remote machine left.
    pub forgotten: u64,
    pub waiting: u64,
}

#[derive(Default)]
struct End {
    taker: usize,
    /// By service channel.
    lanes: BTreeMap<u32, VecDeque<Departure>>,
    waiting_bytes: usize,
    counts: Counts,
}

#[derive(Default)]
struct Waiting {
    ends: BTreeMap<DirectionId, End>,
    /// Takers that have been notified of packets, or will be by `tell`.
    told: Vec<bool>,
    /// Takers that `tell` will notify.
    untold: Vec<usize>,
    /// Packets that have been taken; their buffers can be used again.
    spent: Vec<Packet>,
}

/// The packets that wait for other machines.
#[derive(Default)]
pub struct Departures {
    waiting: Mutex<Waiting>,
    /// The signal of each taker: readable when packets wait that it has not been notified of. Unset until `open`.
    signals: OnceLock<Vec<Signal>>,
    /// Whether `tell` has a taker to notify.
    is_untold: AtomicBool,
}

impl Departures {
    /// Keep packets from now on, with one taker for each list of directions; later calls have no effect.
    pub fn open(&self, takers: &[Vec<DirectionId>]) -> std::io::Result<()> {
        let signals = takers.iter().map(|_| Signal::new()).collect::<std::io::Result<Vec<_>>>()?;
        // no packet is pushed before the takers are set up
        let mut waiting = self.lock();
        if self.signals.set(signals).is_ok() {
            waiting.told = vec![false; takers.len()];
            for (taker, directions) in takers.iter().enumerate() {
                for direction in directions {
                    waiting.ends.entry(*direction).or_default().taker = taker;
                }
            }
        }
        Ok(())
    }

    /// Whether packets are kept here; if not, they are passed to Python.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.signals.get().is_some()
    }

    /// The signal of a taker, if there is one.
    pub fn signal(&self, taker: usize) -> Option<&Signal> {
        self.signals.get()?.get(taker)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keep packets; those beyond the limit are dropped and counted.
    pub fn push(&self, packets: &mut Packets, direction: DirectionId, departure: Departure) {
        let burst = &departure.burst;
        let (count, bytes, channel) = (u64::from(burst.count()), burst.bytes(), sc(&burst.packet));
        let mut waiting = self.lock();
        waiting.spent.drain(..).for_each(|packet| packets.recycle(packet));
        let end = waiting.ends.entry(direction).or_default();
        end.counts.packets += count;
        end.counts.bytes += bytes as u64;
        if departure.token.is_none() && end.waiting_bytes + bytes > MOST_BYTES {
            end.counts.overflows += count;
            return packets.recycle(departure.burst.packet);
        }
        end.counts.waiting += count;
        end.waiting_bytes += bytes;
        end.lanes.entry(channel).or_default().push_back(departure);
        let taker = end.taker;
        if let Some(told) = waiting.told.get_mut(taker)
            && !*told
        {
            *told = true;
            waiting.untold.push(taker);
            self.is_untold.store(true, Ordering::Release);
        }
    }

    /// Whether a taker has not been notified yet of packets that wait.
    #[inline]
    pub fn is_untold(&self) -> bool {
        self.is_untold.load(Ordering::Acquire)
    }

    /// Notify takers of new packets: at the end of a burst, so that one message holds the whole burst.
    #[inline]
    pub fn tell(&self) {
        if self.is_untold() && self.is_untold.swap(false, Ordering::AcqRel) {
            let untold = std::mem::take(&mut self.lock().untold);
            untold.into_iter().filter_map(|taker| self.signal(taker)).for_each(Signal::raise);
        }
    }

    /// Return the directions and service channels with packets for a taker; its signal reports packets that come later.
    pub fn waiting(&self, taker: usize) -> Vec<(DirectionId, u32)> {
        let Some(signal) = self.signal(taker) else { return Vec::new() };
        signal.clear();
        let mut waiting = self.lock();
        waiting.told[taker] = false;
        let lanes = |(number, end): (&DirectionId, &End)| {
            let number = *number;
            let full = end.lanes.iter().filter(|(_, lane)| !lane.is_empty());
            full.map(|(channel, _)| (number, *channel)).collect::<Vec<_>>()
        };
        waiting.ends.iter().filter(|(_, end)| end.taker == taker).flat_map(lanes).collect()
    }

    /// Take the first packets of a service channel, within limits of packets and bytes of records. None: no packet waits.
    pub fn take(
        &self,
        direction: DirectionId,
        channel: u32,
        most: u32,
        most_bytes: usize,
    ) -> Option<Vec<Departure>> {
        let mut waiting = self.lock();
        let end = waiting.ends.get_mut(&direction)?;
        let lane = end.lanes.get_mut(&channel).filter(|lane| !lane.is_empty())?;
        let (mut taken, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(first) = lane.front_mut() {
            let each = first.burst.packet.len() + TAG;
            let fit = ((most_bytes - bytes) / each).min((most - count) as usize) as u32;
            if fit == 0 {
                break;
            }
            count += fit.min(first.burst.count());
            if fit >= first.burst.count() {
                bytes += record_bytes(&first.burst);
                taken.extend(lane.pop_front());
                continue;
            }
            let burst = first.burst.take_first(fit);
            bytes += record_bytes(&burst);
            taken.push(Departure { burst, token: None });
        }
        end.counts.waiting -= u64::from(count);
        end.waiting_bytes -= bytes - TAG * count as usize;
        Some(taken)
    }

    /// Drop the packets that wait in a direction as lost; return their tokens.
    pub fn forget(&self, direction: DirectionId) -> Vec<BufferToken> {
        let mut waiting = self.lock();
        let Some(end) = waiting.ends.get_mut(&direction) else { return Vec::new() };
        end.counts.forgotten += std::mem::take(&mut end.counts.waiting);
        end.waiting_bytes = 0;
        let lanes = std::mem::take(&mut end.lanes);
        lanes.into_values().flatten().filter_map(|departure| departure.token).collect()
    }

    /// Let the buffers of packets be used again.
    pub fn spend(&self, departures: Vec<Departure>) {
        self.lock().spent.extend(departures.into_iter().map(|departure| departure.burst.packet));
    }

    pub fn counts(&self, direction: DirectionId) -> Counts {
        self.lock().ends.get(&direction).map_or_else(Counts::default, |end| end.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(packet: Packet) -> Departure {
        Departure { burst: Burst::of(packet, 1), token: None }
    }

    /// Packets of three directions to one machine, and of one direction to a second machine.
    fn opened() -> Departures {
        let departures = Departures::default();
        departures.open(&[vec![0, 2, 4], vec![6]]).unwrap();
        departures
    }

    fn of(len: usize) -> Departure {
        departure(vec![0u8; len][..].into())
    }

    fn counts(departures: &[Departure]) -> Vec<u32> {
        departures.iter().map(|departure| departure.burst.count()).collect()
    }

    #[test]
    fn packets_are_taken_in_order_as_many_as_fit() {
        let (departures, mut packets) = (opened(), Packets::default());
        assert!(departures.take(4, 0, 9, 9999).is_none());
        [100, 200, 300].into_iter().for_each(|len| departures.push(&mut packets, 4, of(len)));
        assert_eq!(departures.waiting(0), [(4, 0)]);
        let lens = |taken: Vec<Departure>| taken.iter().map(|one| one.burst.packet.len()).collect::<Vec<_>>();
        assert_eq!(lens(departures.take(4, 0, 9, 102 + 202 + 301).unwrap()), [100, 200]);
        assert!(departures.take(4, 0, 0, 9999).unwrap().is_empty());
        assert!(departures.take(4, 0, 9, 301).unwrap().is_empty());
        assert_eq!(lens(departures.take(4, 0, 9, 302).unwrap()), [300]);
        assert!(departures.waiting(0).is_empty());
        let Counts { packets, bytes, waiting, .. } = departures.counts(4);
        assert_eq!((packets, bytes, waiting), (3, 600, 0));
    }

    #[test]
    fn burst_is_taken_in_parts() {
        let (departures, mut packets) = (opened(), Packets::default());
        let packet = packets.make_burst(100, 10, |own| own.bytes.fill(0));
        let burst = Burst::of(packet, 0);
        departures.push(&mut packets, 0, Departure { burst, token: None });
        assert_eq!(counts(&departures.take(0, 0, 4, 9999).unwrap()), [4]);
        assert_eq!(counts(&departures.take(0, 0, 99, 102 * 5 + 101).unwrap()), [5]);
        assert_eq!(departures.counts(0).waiting, 1);
        assert_eq!(counts(&departures.take(0, 0, 99, 9999).unwrap()), [1]);
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_what_waits_can_be_forgotten() {
        let (departures, mut packets) = (opened(), Packets::default());
        let fit = (MOST_BYTES / 9000) as u64;
        for _ in 0..fit + 5 {
            departures.push(&mut packets, 0, of(9000));
        }
        let counts = departures.counts(0);
        assert_eq!((counts.packets, counts.overflows, counts.waiting), (fit + 5, 5, fit));
        departures.push(&mut packets, 0, Departure { token: Some(7), ..of(9000) });
        assert_eq!(departures.forget(0), [7]);
        let counts = departures.counts(0);
        assert_eq!((counts.forgotten, counts.waiting), (fit + 1, 0));
        departures.push(&mut packets, 0, of(9000));
        assert_eq!(departures.counts(0).overflows, 5, "there is room again");
    }

    #[test]
    fn signal_tells_once_of_what_nobody_has_looked_at() {
        let (departures, mut packets) = (opened(), Packets::default());
        let has_told = || {
            departures.tell();
            departures.signal(0).unwrap().wait(0)
        };
        departures.push(&mut packets, 0, of(100));
        assert!(!departures.signal(0).unwrap().wait(0), "the burst goes on");
        departures.push(&mut packets, 0, of(100));
        assert!(has_told());
        departures.waiting(0);
        assert!(!has_told());
        departures.push(&mut packets, 0, of(100));
        assert!(has_told());
    }

    #[test]
    fn each_taker_is_told_of_what_is_its_own() {
        let (departures, mut packets) = (opened(), Packets::default());
        let has_told = |taker: usize| departures.signal(taker).unwrap().wait(0);
        departures.push(&mut packets, 6, of(100));
        departures.tell();
        assert_eq!((has_told(0), has_told(1)), (false, true));
        departures.push(&mut packets, 2, of(100));
        departures.tell();
        assert!(has_told(0), "the other one need not have looked");
        assert_eq!(departures.waiting(0), [(2, 0)]);
        assert_eq!(departures.waiting(1), [(6, 0)]);
        assert!(departures.waiting(2).is_empty() && departures.signal(2).is_none());
    }
}
