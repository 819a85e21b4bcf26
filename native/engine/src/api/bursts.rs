//! Several packets in one step, wherever no single packet needs separate treatment. See `burst` and docs/explanation/engine.md.

use super::Engine;
use crate::burst::Burst;
use crate::config::End;
use crate::crossing::{Frame, Record};
use crate::events::Place;
use crate::link::direction::Arrived;
use crate::link::wire::Next;
use crate::outputs::{DirectionId, PortId, SwitchId};
use crate::packet::longest_burst;
use crate::port::Address;
use crate::share::WorkerId;

/// On paths of more directions than this from a switch on, bursts are split into few packets at a time.
const LONGEST_WAY: usize = 12;

/// The packets of a buffer of several that arrive in one step.
#[derive(Clone, Copy)]
struct Step {
    count: u32,
    /// The switch to which they come, and the direction in which it passes them on.
    onward: Option<(SwitchId, DirectionId)>,
}

impl Engine {
    /// Deliver several packets at an HFI port in one output, or always one by one.
    pub fn take_bursts(&mut self, port: PortId, takes: bool) {
        self.ports[port as usize].host_takes_bursts = takes;
    }

    /// Let several packets leave for another engine in one output, or always one by one.
    pub fn let_bursts_depart(&mut self, may: bool) {
        self.bursts_depart = may;
    }

    /// Whether `count` packets of `len` bytes with this header may be injected together: nothing on their way handles
    /// packets one by one, and the port refuses none.
    pub fn may_inject_together(
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
            && sender.may_send_together(address)
            && self.directions[leaving as usize].has_room_for(&self.state, now, (len * count) as u64)
            && self.stays_whole(leaving, header, 0)
    }

    /// Whether a burst that enters a direction after so many hops would be one up to an HFI port, or up to where it
    /// leaves for another engine, as everything is now: all links on its way have credits, or none has.
    fn stays_whole(&self, mut number: DirectionId, header: &[u8], mut hops: u32) -> bool {
        let has_credits = self.directions[number as usize].has_credits();
        loop {
            let direction = &self.directions[number as usize];
            if !direction.takes_bursts() || direction.has_credits() != has_credits {
                return false;
            }
            let next = match direction.target {
                End::Hfi(port) => return self.ports[port as usize].may_receive_bursts(),
                End::Switch(switch, in_port) => {
                    hops += 1;
                    self.switches[switch as usize].way_of(self.state.switches, in_port, header, hops)
                }
                End::Boundary => return self.bursts_depart && !has_credits,
            };
            match next {
                Some(next) if next != number => number = next,
                _ => return false,
            }
        }
    }

    /// Take packets that have left the engine at the other end of a link: `cross` for each, but those that follow each
    /// other in one flow and have one length enter as a burst, unless something handles packets one by one.
    pub fn cross_all(&mut self, now: u64, direction: DirectionId, frame: &Frame<'_>) {
        if self.has_due(now) {
            self.handle_timeout(now);
        }
        let mut rest = frame.records().peekable();
        while let Some(first) = rest.next() {
            let mut alike = vec![first];
            if first.may_be_in_burst() {
                let most = longest_burst(first.bytes.len());
                while alike.len() < most
                    && let Some(next) = rest.next_if(|next| next.is_like(&first))
                {
                    alike.push(next);
                }
            }
            if alike.len() > 1 && self.cross_together(now, direction, &alike) {
                continue;
            }
            for record in alike {
                let packet = record.packet(&mut self.state.packets);
                self.cross(now, direction, packet, record.hops());
            }
        }
    }

    /// Take in packets of one flow together; return whether that is allowed.
    fn cross_together(&mut self, now: u64, direction: DirectionId, alike: &[Record<'_>]) -> bool {
        let arriving = &self.directions[direction as usize];
        if !self.has_room() || !arriving.takes_what_crosses() {
            return false;
        }
        let first = &alike[0];
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
        let packet = self.state.packets.make_burst(first.bytes.len(), alike.len(), |own| {
            each.next().expect("as many as there are").write(own);
        });
        let burst = Burst::of(packet, first.hops());
        if let Some(burst) = self.directions[direction as usize].cross(&mut self.state, now, burst) {
            let leaving = &mut self.directions[leaving as usize];
            let switch = &mut self.switches[switch as usize];
            switch.pass_along(leaving, &mut self.state, &mut vec![now; alike.len()], burst, None);
        }
        true
    }

    /// Whether no event can see the first packets of a burst that enters a direction before the last ones are here: then
    /// the burst may enter as a whole. `arriving` is the direction by which it came.
    ///
    /// The caller makes sure that there are no events but those of the burst; a burst must not meet itself. Captures
    /// and faults that span several directions depend on the exact order, and exclude bursts here.
    #[inline]
    fn is_undisturbed(
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

    /// How many of the packets that a worker has handed over and are due enter in one step; None: the first, alone.
    #[inline]
    fn entering_together(&self, worker: WorkerId, until: u64, in_rows: bool) -> Option<u32> {
        let inbox = &self.state.share.inboxes[worker as usize];
        let first = inbox.first().filter(|first| first.burst.is_of_several())?;
        let (now, direction, burst) = (first.time, first.fact, &first.burst);
        let entered = &self.directions[direction as usize];
        if entered.has_credits() || !entered.takes_bursts() || !self.has_room() {
            return None;
        }
        let events = &self.state.events;
        let is_strict = !in_rows || events.is_strict();
        let is_alone = !is_strict && self.is_undisturbed(None, direction, &burst.packet, burst.hops());
        let latest = self.latest_with(now, direction, until, is_alone);
        let count = inbox.run(events.bound(Place::Inside, is_strict), latest);
        let bytes = burst.packet.len() as u64 * u64::from(count);
        entered.has_room_for(&self.state, now, bytes).then_some(count)
    }

    /// The last time at which packets may enter a direction together with one of `now`: if they are not alone, the first
    /// could otherwise be at the next element before the rest is here.
    #[inline]
    fn latest_with(&self, now: u64, entered: DirectionId, until: u64, is_alone: bool) -> u64 {
        let latency_ns = self.directions[entered as usize].wire().latency_ns();
        if is_alone { until } else { until.min(now.saturating_add(latency_ns)) }
    }

    /// Let the packet that is due enter that a worker has handed over, and those that may with it; return time and number
    /// of the next one.
    #[inline]
    pub(super) fn enter_first(&mut self, worker: WorkerId, until: u64, in_rows: bool) -> Option<(u64, u64)> {
        let together = self.entering_together(worker, until, in_rows);
        let inbox = &mut self.state.share.inboxes[worker as usize];
        let direction = inbox.first()?.fact;
        let count = together.unwrap_or(1);
        self.times.extend(inbox.times(count));
        let mut burst = inbox.take(count)?;
        let next = inbox.first().map(|next| (next.time, next.number));
        if together.is_none() {
            burst = burst.alone(&mut self.state.packets);
        }
        self.directions[direction as usize].enter(&mut self.state, &mut self.times, burst, None);
        self.times.clear();
        next
    }

    /// Which packets of the first burst on a wire, in a buffer of several, arrive in one step; None: the first, alone.
    #[inline]
    fn arriving_together(&self, number: DirectionId, until: u64, in_rows: bool) -> Option<Step> {
        let arriving = &self.directions[number as usize];
        let first = arriving.wire().queue().first()?;
        if !arriving.takes_bursts() || !self.has_room() {
            return None;
        }
        let (now, burst) = (first.time, &first.burst);
        let events = &self.state.events;
        let is_strict = !in_rows || events.is_strict();
        // with credits each packet is an event of its own
        let run = |place: Place, latest: u64| match arriving.has_credits() {
            true => 1,
            false => arriving.wire().queue().run(events.bound(place, is_strict), latest),
        };
        match arriving.target {
            End::Hfi(port) => {
                let may = self.ports[port as usize].may_receive_bursts();
                may.then(|| Step { count: run(Place::Port, until), onward: None })
            }
            End::Switch(switch, in_port) => {
                let hops = burst.hops().saturating_add(1);
                let receiver = &self.switches[switch as usize];
                let leaving = receiver.way_of(self.state.switches, in_port, &burst.packet, hops)?;
                let leaver = &self.directions[leaving as usize];
                if !leaver.takes_bursts() || leaver.has_credits() != arriving.has_credits() {
                    return None;
                }
                let onward = Some((switch, leaving));
                if arriving.has_credits() {
                    return Some(Step { count: 1, onward });
                }
                let is_alone = !is_strict && self.is_undisturbed(Some(number), leaving, &burst.packet, hops);
                let count = run(Place::Inside, self.latest_with(now, leaving, until, is_alone));
                let bytes = burst.packet.len() as u64 * u64::from(count);
                let may = leaving != number && leaver.has_room_for(&self.state, now, bytes);
                may.then_some(Step { count, onward })
            }
            End::Boundary => {
                let may = self.bursts_depart && !arriving.has_credits();
                may.then(|| Step { count: run(Place::Port, until), onward: None })
            }
        }
    }

    /// Let the packet that is due arrive on a wire, and those of its burst that may with it; return the next arrival, which
    /// the caller schedules.
    #[inline]
    pub(super) fn arrive_first(
        &mut self,
        now: u64,
        number: DirectionId,
        until: u64,
        in_rows: bool,
    ) -> Option<Next> {
        let first = self.directions[number as usize].wire().queue().first()?;
        let is_single = !first.burst.is_of_several();
        let step = if is_single { None } else { self.arriving_together(number, until, in_rows) };
        let arriving = &mut self.directions[number as usize];
        let onward = step.and_then(|step| step.onward);
        if onward.is_some() {
            let count = step.map_or(1, |step| step.count);
            self.times.extend(arriving.wire().queue().times(count));
        }
        let count = step.map(|step| step.count);
        let Arrived { burst, space, next } = arriving.arrive(&mut self.state, count)?;
        let Some((switch, leaving)) = onward else {
            self.receive(now, number, burst, space);
            return next;
        };
        let leaving = &mut self.directions[leaving as usize];
        self.switches[switch as usize].pass_along(leaving, &mut self.state, &mut self.times, burst, space);
        self.times.clear();
        if let Some(space) = space {
            self.state.release(space);
        }
        next
    }
}
