//! How packets cross from the engine of one worker to that of another: in order, in batches, bounded.
//!
//! From each worker to each other there is a lane. A batch costs a lock that is never held for long: both sides swap
//! lists, and no packet is copied. Where packets go one way only, their buffers would gather at one end: the receiver
//! leaves spare ones in the lane for the sender.

use std::mem::swap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::api::Engine;
use engine::packet::ReturnedBuffer;
use engine::share::{Handover, WorkerId};
use wire::near::LINE;

struct Content {
    waiting: Vec<Handover>,
    spare: Vec<ReturnedBuffer>,
}

/// All of it is in one cache line, which both workers write, and no two lanes share the pair of lines that processors fetch
/// together.
#[repr(align(128))]
struct Lane {
    /// The bytes that the waiting packets take up, readable without the lock; 0: no packet waits.
    bytes: AtomicU32,
    content: Mutex<Content>,
}

const _: () = assert!(size_of::<(AtomicU32, Mutex<Content>)>() <= LINE);

impl Lane {
    fn new() -> Self {
        Lane {
            bytes: AtomicU32::new(0),
            content: Mutex::new(Content { waiting: Vec::new(), spare: Vec::new() }),
        }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.bytes.load(Ordering::Acquire) != 0
    }

    /// A worker that panics stops all workers, but the lane stays consistent: no code under the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
pub struct Crossing {
    workers: u32,
    lanes: Vec<Lane>,
}

impl Crossing {
    pub fn new(workers: u32) -> Self {
        Crossing { workers, lanes: (0..workers * workers).map(|_| Lane::new()).collect() }
    }

    fn lane(&self, from: WorkerId, to: WorkerId) -> &Lane {
        &self.lanes[(from * self.workers + to) as usize]
    }

    /// Hand over what waits in a worker's engine. `wake` gets each worker for which nothing waited before.
    ///
    /// Packets that find no room are counted by the engine as link_overflow.
    pub fn send(&self, from: WorkerId, engine: &mut Engine, mut wake: impl FnMut(WorkerId)) {
        for to in 0..self.workers {
            if !engine.outbox(to).packets.is_empty() && self.send_to(from, to, engine) {
                wake(to);
            }
        }
    }

    fn send_to(&self, from: WorkerId, to: WorkerId, engine: &mut Engine) -> bool {
        let lane = self.lane(from, to);
        let mut content = lane.lock();
        engine.packets().take_home(&mut content.spare);
        let outbox = engine.outbox(to);
        if content.waiting.is_empty() {
            swap(&mut content.waiting, &mut outbox.packets);
            lane.bytes.store(std::mem::take(&mut outbox.bytes) as u32, Ordering::Release);
            return true;
        }
        let waiting = lane.bytes.load(Ordering::Relaxed) as usize;
        let (bytes, refused) = outbox.move_behind(&mut content.waiting, waiting);
        lane.bytes.store(bytes as u32, Ordering::Release);
        drop(content);
        refused.into_iter().for_each(|handover| engine.overflow(handover));
        false
    }

    /// Whether packets wait for a worker.
    #[inline]
    pub fn is_waiting(&self, to: WorkerId) -> bool {
        (0..self.workers).any(|from| self.lane(from, to).is_waiting())
    }

    /// Take in what others have handed over; return how many packets. `list` is empty before and after.
    pub fn receive(&self, to: WorkerId, engine: &mut Engine, list: &mut Vec<Handover>) -> usize {
        let mut taken = 0;
        for from in 0..self.workers {
            let lane = self.lane(from, to);
            if !lane.is_waiting() {
                continue;
            }
            let mut content = lane.lock();
            swap(list, &mut content.waiting);
            lane.bytes.store(0, Ordering::Relaxed);
            engine.packets().returned_to(from, &mut content.spare);
            if engine.packets().has_surplus() {
                let sizes = list.iter().map(|handover| handover.burst.packet.buffer().len());
                content.spare.extend(sizes.map_while(|size| engine.packets().surplus(size)));
            }
            drop(content);
            touch(list);
            taken += list.iter().map(|handover| handover.burst.count() as usize).sum::<usize>();
            list.drain(..).for_each(|handover| engine.take_in(from, handover));
        }
        taken
    }
}

/// Ask for the header of each packet before any is handled: they come from the cache of another processor, all at a time.
fn touch(list: &[Handover]) {
    list.iter().for_each(|handover| handover.burst.packet.read_soon());
}

#[cfg(test)]
mod tests {
    use engine::burst::Burst;
    use engine::outputs::Output;
    use engine::packet::SPARE_BYTES;
    use engine::share::HANDOVER_BYTES;
    use engine::testing::line::FAST;
    use engine::testing::star::{address, mark, packet, star};

    use super::*;

    /// Two workers with a port each.
    fn pair() -> (Crossing, [Engine; 2]) {
        let mut engines = [0, 1].map(|worker| Engine::of_worker(worker, 2));
        engines.iter_mut().for_each(|engine| star(engine, 2, &FAST, None));
        (Crossing::new(2), engines)
    }

    fn send(engine: &mut Engine, now: u64, mark: u64) {
        let address = address(0, 1);
        let packet = packet(engine.packets(), address, 1400, mark);
        assert_eq!(engine.inject(now, 0, packet, address), None);
    }

    fn marks(engine: &mut Engine) -> Vec<u64> {
        let mut marks = Vec::new();
        while let Some(output) = engine.poll_output() {
            let Output::Delivered { burst: Burst { packet, .. }, .. } = output else { panic!("{output:?}") };
            marks.push(mark(&packet));
            engine.packets().recycle(packet);
        }
        marks
    }

    #[test]
    fn packets_cross_in_order_and_wake_the_other_once() {
        let (crossing, [mut first, mut second]) = pair();
        let mut woken = Vec::new();
        for sent in 0..100 {
            send(&mut first, sent * 1000, sent);
            first.handle_timeout(sent * 1000 + 900);
            crossing.send(0, &mut first, |worker| woken.push(worker));
        }
        assert_eq!(woken, [1]);
        assert_eq!(crossing.receive(1, &mut second, &mut Vec::new()), 100);
        assert_eq!(crossing.receive(1, &mut second, &mut Vec::new()), 0);
        second.handle_timeout(1_000_000);
        assert_eq!(marks(&mut second), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn lane_that_nobody_empties_is_bounded_and_keeps_the_first() {
        let (crossing, [mut first, mut second]) = pair();
        for sent in 0..20_000 {
            send(&mut first, sent * 1000, sent);
            first.handle_timeout(sent * 1000 + 900);
            crossing.send(0, &mut first, |_| ());
        }
        let taken = crossing.receive(1, &mut second, &mut Vec::new());
        assert!((HANDOVER_BYTES / 2 / 1600..HANDOVER_BYTES / 2 / 1400).contains(&taken));
        second.handle_timeout(u64::MAX);
        assert_eq!(marks(&mut second), (0..taken as u64).collect::<Vec<_>>());
    }

    #[test]
    fn buffers_of_unread_packets_are_used_again_where_they_were_made() {
        let (crossing, [mut first, mut second]) = pair();
        let mut buffers = std::collections::HashSet::new();
        for sent in 0..100 {
            let packet = packet(first.packets(), address(0, 1), 1400, sent);
            buffers.insert(packet.as_ptr() as usize);
            first.inject(sent * 1000, 0, packet, address(0, 1));
            first.handle_timeout(sent * 1000 + 900);
            crossing.send(0, &mut first, |_| ());
            crossing.receive(1, &mut second, &mut Vec::new());
            second.handle_timeout(sent * 1000 + 1000);
            while let Some(Output::Delivered { burst: Burst { packet, .. }, .. }) = second.poll_output() {
                assert!(packet.is_sound());
                second.packets().send_home(packet);
            }
        }
        assert!(buffers.len() < 5, "{}", buffers.len());
    }

    #[test]
    fn buffers_come_back_where_packets_go_one_way() {
        let (crossing, [mut first, mut second]) = pair();
        let mut list = Vec::new();
        let mut now = 0;
        let mut round = |packets: u64| {
            let mut buffers = std::collections::HashSet::new();
            for sent in 0..packets {
                now += 1000;
                let address = address(0, 1);
                let packet = packet(first.packets(), address, 1400, sent);
                buffers.insert(packet.as_ptr() as usize);
                first.inject(now, 0, packet, address);
            }
            first.handle_timeout(now + 900);
            crossing.send(0, &mut first, |_| ());
            crossing.receive(1, &mut second, &mut list);
            second.handle_timeout(now + 10_000);
            assert_eq!(marks(&mut second).len() as u64, packets);
            buffers
        };
        let packets = 1000;
        let mut known = std::collections::HashSet::new();
        for _ in 0..2 * SPARE_BYTES / 2048 / packets {
            known.extend(round(packets as u64));
        }
        for _ in 0..20 {
            assert!(round(packets as u64).is_subset(&known), "no new buffer is needed any more");
        }
    }
}
