//! Packets for other machines of a cluster: they have reached the end of the local half of a link. Each remote machine
//! has a taker, a thread that takes packets, in order within a direction and service channel. A machine that accepts no
//! packets blocks its own taker only, and one that pauses a service channel only that.
//!
//! Under the lock only references to packets are moved; bytes are copied outside the lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use engine::burst::Burst;
use engine::outputs::{BufferToken, DirectionId};
use engine::packet::{Packet, Packets, sc};

use crate::Signal;

/// The most bytes that wait in one direction. Further packets are dropped; links with credits have their own limit.
const MOST_BYTES: usize = 8 << 20;

/// Sends what waits for a taker; returns whether its thread need not.
pub type Offer = Box<dyn Fn() -> bool + Send + Sync>;

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
    /// Service channels that the remote machine has paused.
    paused: BTreeSet<u32>,
    waiting_bytes: usize,
    counts: Counts,
}

#[derive(Default)]
struct Waiting {
    ends: BTreeMap<DirectionId, End>,
    /// By taker: the directions in which packets wait.
    full: Vec<BTreeSet<DirectionId>>,
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
    /// The signal of each taker: readable when packets wait that it has not been notified of; and what may send instead
    /// of it. Unset until `open`.
    takers: OnceLock<Vec<(Signal, OnceLock<Offer>)>>,
    /// Whether `tell` has a taker to notify.
    is_untold: AtomicBool,
}

impl Departures {
    /// Keep packets from now on, with one taker for each list of directions; later calls have no effect.
    pub fn open(&self, takers: &[Vec<DirectionId>]) -> std::io::Result<()> {
        let signal = |_| Signal::new().map(|signal| (signal, OnceLock::new()));
        let signals = takers.iter().map(signal).collect::<std::io::Result<Vec<_>>>()?;
        // no packet is pushed before the takers are set up
        let mut waiting = self.lock();
        if self.takers.set(signals).is_ok() {
            waiting.told = vec![false; takers.len()];
            waiting.full = vec![BTreeSet::new(); takers.len()];
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
        self.takers.get().is_some()
    }

    /// The signal of a taker, if there is one.
    pub fn signal(&self, taker: usize) -> Option<&Signal> {
        self.takers.get()?.get(taker).map(|(signal, _)| signal)
    }

    /// Have what waits for a taker offered from now on before the taker is notified, by the thread that would do so.
    pub fn offer(&self, taker: usize, offer: Offer) {
        if let Some((_, offered)) = self.takers.get().and_then(|takers| takers.get(taker)) {
            let _ = offered.set(offer);
        }
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
        if let Some(full) = waiting.full.get_mut(taker) {
            full.insert(direction);
        }
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
            for (signal, offer) in untold.into_iter().filter_map(|taker| self.takers.get()?.get(taker)) {
                if !offer.get().is_some_and(|offer| offer()) {
                    signal.raise();
                }
            }
        }
    }

    /// Return the directions and service channels with packets for a taker; its signal reports packets that come later.
    pub fn waiting(&self, taker: usize) -> Vec<(DirectionId, u32)> {
        let Some(signal) = self.signal(taker) else { return Vec::new() };
        signal.clear();
        let mut waiting = self.lock();
        waiting.told[taker] = false;
        let lanes = |number: &DirectionId| {
            let end = &waiting.ends[number];
            let full = end.lanes.iter().filter(|(_, lane)| !lane.is_empty());
            let goes = full.filter(|(channel, _)| !end.paused.contains(channel));
            goes.map(|(channel, _)| (*number, *channel)).collect::<Vec<_>>()
        };
        waiting.full[taker].iter().flat_map(lanes).collect()
    }

    /// Bytes that wait for a taker.
    pub fn bytes(&self, taker: usize) -> usize {
        let waiting = self.lock();
        waiting.full[taker].iter().map(|direction| waiting.ends[direction].waiting_bytes).sum()
    }

    /// Take the first packets of a service channel, of `most_bytes` at most, but one always.
    pub fn take(&self, direction: DirectionId, channel: u32, most_bytes: usize) -> Vec<Departure> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut waiting = self.lock();
        let Some(end) = waiting.ends.get_mut(&direction) else { return taken };
        let Some(lane) = end.lanes.get_mut(&channel) else { return taken };
        while let Some(first) = lane.front_mut() {
            let fit = most_bytes.saturating_sub(bytes) / first.burst.packet.len().max(1);
            let fit = if taken.is_empty() { fit.max(1) } else { fit };
            if fit == 0 {
                break;
            }
            if fit >= first.burst.count() as usize {
                bytes += first.burst.bytes();
                taken.extend(lane.pop_front());
                continue;
            }
            let burst = first.burst.take_first(fit as u32);
            bytes += burst.bytes();
            taken.push(Departure { burst, token: None });
        }
        end.counts.waiting -= taken.iter().map(|one| u64::from(one.burst.count())).sum::<u64>();
        end.waiting_bytes -= bytes;
        if end.counts.waiting == 0 {
            let taker = end.taker;
            waiting.full[taker].remove(&direction);
        }
        taken
    }

    /// Pause a service channel of a direction, or let its packets go again.
    pub fn pause(&self, direction: DirectionId, channel: u32, paused: bool) {
        let mut waiting = self.lock();
        let Some(end) = waiting.ends.get_mut(&direction) else { return };
        if paused {
            end.paused.insert(channel);
        } else if end.paused.remove(&channel)
            && let Some(signal) = self.signal(end.taker)
        {
            signal.raise();
        }
    }

    /// Let the packets of all service channels of a direction go: its remote machine is another process now.
    pub fn unpause(&self, direction: DirectionId) {
        if let Some(end) = self.lock().ends.get_mut(&direction) {
            end.paused.clear();
        }
    }

    /// Drop the packets that wait in a direction as lost; return their tokens.
    pub fn forget(&self, direction: DirectionId) -> Vec<BufferToken> {
        let mut waiting = self.lock();
        let Some(end) = waiting.ends.get_mut(&direction) else { return Vec::new() };
        end.counts.forgotten += std::mem::take(&mut end.counts.waiting);
        end.waiting_bytes = 0;
        let (lanes, taker) = (std::mem::take(&mut end.lanes), end.taker);
        waiting.full[taker].remove(&direction);
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
        assert!(departures.take(4, 0, 9999).is_empty());
        [100, 200, 300].into_iter().for_each(|len| departures.push(&mut packets, 4, of(len)));
        assert_eq!(departures.waiting(0), [(4, 0)]);
        let lens = |taken: Vec<Departure>| taken.iter().map(|one| one.burst.packet.len()).collect::<Vec<_>>();
        assert_eq!(lens(departures.take(4, 0, 100 + 200 + 299)), [100, 200]);
        assert_eq!(lens(departures.take(4, 0, 299)), [300], "one always fits");
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
        assert_eq!(counts(&departures.take(0, 0, 400)), [4]);
        assert_eq!(counts(&departures.take(0, 0, 100 * 5 + 99)), [5]);
        assert_eq!(departures.counts(0).waiting, 1);
        assert_eq!(counts(&departures.take(0, 0, 9999)), [1]);
    }

    #[test]
    fn paused_channel_stops_no_other() {
        let (departures, mut packets) = (opened(), Packets::default());
        // the bytes of a header that have the service channel
        let of_channel = |channel: u8| departure([channel; 16][..].into());
        let channels = [0x00, 0x7f].map(|channel| sc(&of_channel(channel).burst.packet));
        for channel in [0x00, 0x7f] {
            departures.push(&mut packets, 0, of_channel(channel));
            departures.push(&mut packets, 2, of_channel(channel));
        }
        assert_eq!(departures.waiting(0).len(), 4);
        departures.pause(0, channels[0], true);
        assert_eq!(departures.waiting(0), [(0, channels[1]), (2, channels[0]), (2, channels[1])]);
        departures.pause(0, channels[0], false);
        assert!(departures.signal(0).unwrap().wait(0));
        assert_eq!(departures.waiting(0).len(), 4);
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
