//! Disturbs packets: loss, damage, duplicates, delay, reordering, as rules say.
//!
//! How rules draw random words is in hfi_sim/base/random_stream.py: one for each packet that a rule selects and does not skip.

use ::wire::HEADER;
use offload::segment::Origin;

use super::rule::{FaultKind, FaultRule, Passage};
use super::wire_counters::WireTally;
use crate::burst::Burst;
use crate::counters::Drop;
use crate::events::Event;
use crate::outputs::{DirectionId, Output};
use crate::packet::{Packet, Packets};
use crate::random::Stream;
use crate::state::{ElementId, State};

/// Bytes of a packet behind its ICRC.
const TAIL: usize = 1;

/// A packet that later ones may overtake.
#[derive(Debug)]
pub struct Held {
    pub burst: Burst,
    pub delay_ns: u64,
    behind: u64,
    /// The sequence number of the event that releases it, unless enough packets overtake it before.
    number: u64,
}

/// The rules of one direction, in the order in which they were set, and the packets that they hold back.
#[derive(Debug)]
pub struct Faults {
    pub rules: Vec<FaultRule>,
    pub stream: Stream,
    direction: DirectionId,
    held: Vec<Held>,
    /// Kept empty for the next packet.
    passages: Vec<Passage>,
}

impl Faults {
    /// Start without rules.
    pub fn new(direction: DirectionId, stream: Stream) -> Self {
        Faults { rules: Vec::new(), stream, direction, held: Vec::new(), passages: Vec::new() }
    }

    /// Whether nothing is disturbed and nothing held back.
    pub fn is_idle(&self) -> bool {
        self.rules.is_empty() && self.held.is_empty()
    }

    /// Whether an event here may cause an output at once: a rule is spent, or a held packet is released.
    pub fn show_at_once(&self) -> bool {
        self.is_holding()
            || self.rules.iter().any(|rule| rule.count.is_some() || rule.kind == FaultKind::Reorder)
    }

    /// Whether a packet is held back for later ones to overtake.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Apply the rules to a packet: return the copies that pass, or the drop reason. Return the list with `recycle`.
    /// Errors that the far end notices are counted in `wire`.
    pub fn judge(
        &mut self,
        state: &mut State,
        now: u64,
        packet: &Packet,
        wire: &mut WireTally,
    ) -> Result<Vec<Passage>, Drop> {
        let mut passages = std::mem::take(&mut self.passages);
        passages.push(Passage { packet: packet.clone(), delay_ns: 0, behind: 0, hold_ns: 0 });
        for rule in &self.rules {
            if !hits(rule, state, now, packet, &mut self.stream) {
                continue;
            }
            if matches!(rule.kind, FaultKind::Loss | FaultKind::Corrupt) {
                wire.failed(now);
            }
            if rule.kind == FaultKind::Loss {
                self.recycle(passages);
                return Err(Drop::LinkFault);
            }
            apply(rule, &mut passages, &mut state.packets, &mut self.stream);
        }
        Ok(passages)
    }

    /// Whether all rules only drop packets, each independently at random, and without a limit that would be reported:
    /// then packets need not leave the buffer of their burst.
    pub fn take_bursts(&self) -> bool {
        let only_loses = |rule: &FaultRule| rule.kind == FaultKind::Loss && rule.count.is_none();
        self.held.is_empty() && self.rules.iter().all(only_loses)
    }

    /// Apply rules that take bursts to a packet, of which only the header counts: return whether it is lost.
    pub fn loses(&mut self, state: &mut State, now: u64, packet: &[u8], wire: &mut WireTally) -> bool {
        let is_lost = self.rules.iter().any(|rule| hits(rule, state, now, packet, &mut self.stream));
        if is_lost {
            wire.failed(now);
        }
        is_lost
    }

    /// Take the list of `judge` back, so that the next packet needs no other.
    pub fn recycle(&mut self, mut passages: Vec<Passage>) {
        passages.clear();
        self.passages = passages;
    }

    /// Hold a packet back until `behind` later ones have overtaken it, or for `hold_ns`. It no longer occupies room where it
    /// came from.
    pub fn hold(
        &mut self,
        state: &mut State,
        now: u64,
        burst: Burst,
        delay_ns: u64,
        (behind, hold_ns): (u64, u64),
    ) {
        let until = now.saturating_add(hold_ns);
        let number = state.events.schedule(until, Event::HeldLongEnough(self.direction));
        self.held.push(Held { burst, delay_ns, behind, number });
    }

    /// Count one more packet that has overtaken the one held at this index; return the held packet if it is released.
    pub fn overtaken(&mut self, state: &mut State, index: usize) -> Option<Held> {
        let held = &mut self.held[index];
        held.behind -= 1;
        if held.behind != 0 {
            return None;
        }
        state.events.cancel(held.number);
        Some(self.held.remove(index))
    }

    /// How many packets are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Return the packet that was to be held until the event of this number.
    pub fn held_until(&mut self, number: u64) -> Option<Held> {
        let index = self.held.iter().position(|held| held.number == number)?;
        Some(self.held.remove(index))
    }

    /// Remove and return the packets held back, because the link went down.
    pub fn cut(&mut self, state: &mut State) -> impl Iterator<Item = Burst> + use<> {
        for held in &self.held {
            state.events.cancel(held.number);
        }
        std::mem::take(&mut self.held).into_iter().map(|held| held.burst)
    }
}

/// Whether a rule hits a packet; count that, and report a rule that is spent by it.
fn hits(rule: &FaultRule, state: &mut State, now: u64, packet: &[u8], stream: &mut Stream) -> bool {
    let (tally, mark) = &mut state.tallies[rule.tally as usize];
    let is_spent = rule.count.is_some_and(|count| tally.hits() >= count);
    if is_spent || !rule.fits.fits(packet) {
        return false;
    }
    mark.set(&mut state.changed, ElementId::Tally(rule.tally));
    if tally.see() <= rule.skip || !stream.hits(rule.chance) {
        return false;
    }
    let Some(hits) = tally.hit(rule.count) else { return false };
    if rule.count == Some(hits) {
        state.outputs.push_back(Output::RuleSpent { time: now, rule: rule.number });
    }
    true
}

/// Apply the effect of a rule to a packet and its copies.
fn apply(rule: &FaultRule, passages: &mut Vec<Passage>, packets: &mut Packets, stream: &mut Stream) {
    match rule.kind {
        FaultKind::Loss => {}
        FaultKind::Duplicate => {
            let copy = passages[0].clone();
            passages.extend(std::iter::repeat_n(copy, rule.copies as usize));
        }
        FaultKind::Corrupt => {
            for passage in passages {
                flip_bits(packets, &mut passage.packet, rule.bits, stream);
            }
        }
        FaultKind::Delay => {
            for passage in passages {
                passage.delay_ns = passage.delay_ns.saturating_add(rule.delay_ns);
            }
        }
        FaultKind::Reorder => {
            passages[0].behind = rule.behind;
            passages[0].hold_ns = rule.hold_ns;
        }
    }
}

/// Flip bits between the header and the tail, where the ICRC covers them: as many different ones, by Floyd's sampling.
///
/// A packet that was sent without an ICRC gets one before, or the damage would go unnoticed.
pub fn flip_bits(packets: &mut Packets, packet: &mut Packet, bits: u64, stream: &mut Stream) {
    if packet.len() <= HEADER {
        return;
    }
    packets.seal(packet);
    let end = (packet.len() - TAIL).max(HEADER + 1);
    let span = (end - HEADER) as u64 * 8;
    let plain = packet.clone();
    packets.change(packet, |mut own| {
        own.set_origin(Origin::Unknown);
        let damaged = &mut own.bytes[HEADER..];
        let bit = |bytes: &[u8], position: u64| bytes[(position / 8) as usize] >> (position % 8) & 1;
        for last in span - bits.min(span)..span {
            let drawn = stream.word() % (last + 1);
            // a bit that was chosen before is the one that differs
            let is_new = bit(damaged, drawn) == bit(&plain[HEADER..], drawn);
            let position = if is_new { drawn } else { last };
            damaged[(position / 8) as usize] ^= 1 << (position % 8);
        }
    });
    packets.recycle(plain);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn flipped_bits_are_as_many_as_asked_for_and_covered_by_the_icrc() {
        let mut packets = Packets::default();
        for bits in [0, 1, 7, 64, 1000] {
            let plain = packets.copy(&(0..40).collect::<Vec<u8>>());
            let mut packet = plain.clone();
            flip_bits(&mut packets, &mut packet, bits, &mut Stream::new(bits));
            let flipped: u32 = plain.iter().zip(packet.iter()).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(u64::from(flipped), bits.min(23 * 8));
            assert_eq!((&packet[..16], packet[39]), (&plain[..16], plain[39]));
        }
    }

    #[test]
    fn bits_are_drawn_one_by_one_and_the_last_possible_one_stands_for_one_drawn_before() {
        let mut packets = Packets::default();
        for (seed, len) in (0..20).flat_map(|seed| [(seed, HEADER + 1), (seed, HEADER + 3)]) {
            let plain = packets.copy(&(0..len as u8).collect::<Vec<u8>>());
            let (mut packet, span, mut stream) =
                (plain.clone(), (len - 1 - HEADER).max(1) as u64 * 8, Stream::new(seed));
            flip_bits(&mut packets, &mut packet, 6, &mut stream);
            let (mut drawn, mut chosen) = (Stream::new(seed), BTreeSet::new());
            for last in span - 6..span {
                let position = drawn.word() % (last + 1);
                chosen.insert(if chosen.contains(&position) { last } else { position });
            }
            let differs = |at: &u64| {
                let byte = HEADER + (*at / 8) as usize;
                (plain[byte] ^ packet[byte]) >> (*at % 8) & 1 == 1
            };
            assert_eq!((0..span).filter(differs).collect::<BTreeSet<_>>(), chosen, "seed {seed}");
            assert_eq!(stream.state(), drawn.state());
        }
    }

    #[test]
    fn nothing_behind_a_header_cannot_be_damaged() {
        let mut packets = Packets::default();
        for len in 0..=HEADER {
            let mut packet = packets.copy(&vec![0; len]);
            flip_bits(&mut packets, &mut packet, 5, &mut Stream::new(1));
            assert!(packet.iter().all(|byte| *byte == 0));
        }
    }
}
