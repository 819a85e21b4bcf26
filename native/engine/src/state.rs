//! The shared state of an engine's elements: events, outputs, buffers, returning credits, counters.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::events::Events;
use crate::hash::FastMap;
use crate::link::rule::Tally;
use crate::outputs::{BufferToken, DirectionId, Output, PortId};
use crate::packet::Packets;
use crate::share::Share;

/// Bytes of packets that one engine holds on its links; a further packet is a link_overflow.
///
/// Queues have limits of their own, but a wire of 100 Gbit/s that is an hour long would hold 45 TB.
pub const POOL_BYTES: i64 = 256 << 20;

/// Room in the receive buffer at the end of a direction, which goes back to its sender.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    pub direction: DirectionId,
    pub vl: u8,
    pub size: u64,
}

/// Room that a packet occupies in a receive buffer, until the last holder has released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceId(NonZeroU32);

impl SpaceId {
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Space {
    credit: Credit,
    holders: u32,
    /// Which one of those that have arrived where it is.
    packet: u32,
}

/// Room that a host no longer needs.
#[derive(Clone, Copy, Debug)]
struct Unused {
    time: u64,
    space: SpaceId,
    /// The last token that was made before: its room goes first, if it is released at the same time.
    after: BufferToken,
}

/// An element whose counters have changed since they were last taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementId {
    Port(u32),
    Congestion(u32),
    Switch(u32),
    Direction(u32),
    Tally(u32),
}

/// Whether an element stands among those that have changed.
#[derive(Debug, Default)]
pub struct Mark(bool);

impl Mark {
    /// Enter an element among those that have changed, once.
    #[inline]
    pub fn set(&mut self, changed: &mut Vec<ElementId>, element: ElementId) {
        if !self.0 {
            self.0 = true;
            changed.push(element);
        }
    }

    pub fn clear(&mut self) {
        self.0 = false;
    }
}

/// Congestion counters of an HFI port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    pub fecn_received: u64,
    pub becn_sent: u64,
    pub becn_received: u64,
    pub tx_stops: u64,
}

/// Made once for an engine; every handler gets it.
#[derive(Debug)]
pub struct State {
    pub events: Events,
    pub outputs: VecDeque<Output>,
    /// Buffers for packets.
    pub packets: Packets,
    /// What this engine carries of the fabric, if there are several.
    pub share: Share,
    /// Bytes that links may still take.
    pub pool: i64,
    /// Credits that have come back during an event. Passing them on at once would recurse along the whole path.
    pub returns: VecDeque<Credit>,
    /// The number of HFI ports stopped by their link for lack of credits: any credit may cause an output there.
    pub stopped: u32,
    /// The number of switches, including those that are off; a packet with more hops is in a loop.
    pub switches: u32,
    /// By HFI port, with whether they have changed; here because links count in them, too.
    pub congestion: Vec<(Congestion, Mark)>,
    /// What faults have done, over all the directions that they are on.
    pub tallies: Vec<(Arc<Tally>, Mark)>,
    /// Elements whose counters have changed since they were last taken.
    pub changed: Vec<ElementId>,
    /// Room that hosts occupy, and by how many holders.
    lent: FastMap<BufferToken, (SpaceId, u32)>,
    tokens: BufferToken,
    /// Room to be released once everything has happened that is due at its time, in order.
    unused: VecDeque<Unused>,
    spaces: Vec<Space>,
    free_spaces: Vec<SpaceId>,
}

impl Default for State {
    fn default() -> Self {
        State {
            events: Events::default(),
            outputs: VecDeque::new(),
            packets: Packets::default(),
            share: Share::default(),
            pool: POOL_BYTES,
            returns: VecDeque::new(),
            stopped: 0,
            switches: 0,
            congestion: Vec::new(),
            tallies: Vec::new(),
            changed: Vec::new(),
            lent: FastMap::default(),
            tokens: 0,
            unused: VecDeque::new(),
            spaces: Vec::new(),
            free_spaces: Vec::new(),
        }
    }
}

impl State {
    /// Return the room of a packet that has arrived, with one holder.
    pub fn occupy(&mut self, credit: Credit, packet: u32) -> SpaceId {
        let space = Space { credit, holders: 1, packet };
        if let Some(id) = self.free_spaces.pop() {
            self.spaces[id.index()] = space;
            return id;
        }
        self.spaces.push(space);
        SpaceId(NonZeroU32::new(self.spaces.len() as u32).expect("there is one"))
    }

    /// Return the credit that goes back once room is released, and the packet in it where it has several holders; 0: one.
    pub fn room_of(&self, space: SpaceId) -> (Credit, u32) {
        let Space { credit, holders, packet } = self.spaces[space.index()];
        (credit, if holders > 1 { packet } else { 0 })
    }

    /// Keep room for one more holder.
    pub fn keep(&mut self, space: SpaceId) {
        self.spaces[space.index()].holders += 1;
    }

    /// Release it for one holder; what waits for the room goes on when the current event is over.
    pub fn release(&mut self, space: SpaceId) {
        let held = &mut self.spaces[space.index()];
        held.holders -= 1;
        if held.holders == 0 {
            self.returns.push_back(held.credit);
            self.free_spaces.push(space);
        }
    }

    /// Make a token of room that a host occupies.
    pub fn lend(&mut self, space: SpaceId) -> BufferToken {
        self.keep(space);
        self.tokens += 1;
        self.lent.insert(self.tokens, (space, 1));
        self.tokens
    }

    /// Keep room until everything due at `now` has happened: the host has its own memory for the packet.
    #[inline]
    pub fn keep_until_after(&mut self, now: u64, space: SpaceId) {
        self.keep(space);
        self.unused.push_back(Unused { time: now, space, after: self.tokens });
    }

    /// Whether such room waits for its release.
    #[inline]
    pub fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    /// When such room is to be released next, at `now` or before; None: no room. Room that hosts release at `now` under
    /// this token or a later one comes first.
    #[inline]
    pub fn next_unused(&self, now: u64, before: BufferToken) -> Option<u64> {
        let Unused { time, after, .. } = *self.unused.front()?;
        (time < now || after < before).then_some(time)
    }

    /// Release the first such room.
    #[inline]
    pub fn release_unused(&mut self) {
        if let Some(Unused { space, .. }) = self.unused.pop_front() {
            self.release(space);
        }
    }

    /// How often hosts were given room to hold.
    #[inline]
    pub fn lent_so_far(&self) -> u64 {
        self.tokens
    }

    /// Keep the room of a token for one more holder; return whether there is such a token.
    pub fn keep_lent(&mut self, token: BufferToken) -> bool {
        self.lent.get_mut(&token).map(|(_, holders)| *holders += 1).is_some()
    }

    /// Release it for one holder; return whether there is such a token.
    pub fn release_lent(&mut self, token: BufferToken) -> bool {
        let Some((space, holders)) = self.lent.get_mut(&token) else { return false };
        *holders -= 1;
        if *holders == 0 {
            let space = *space;
            self.lent.remove(&token);
            self.release(space);
        }
        true
    }

    /// Return the congestion counters of an HFI port, to count in.
    pub fn congestion(&mut self, port: PortId) -> &mut Congestion {
        let (counters, mark) = &mut self.congestion[port as usize];
        mark.set(&mut self.changed, ElementId::Congestion(port));
        counters
    }

    /// Report that a link stops an HFI port for lack of credits, or lets it go on.
    pub fn stop(&mut self, now: u64, port: PortId, stopped: bool) {
        self.congestion(port).tx_stops += u64::from(stopped);
        self.stopped = if stopped { self.stopped + 1 } else { self.stopped - 1 };
        self.outputs.push_back(Output::FlowChanged { time: now, port, stopped });
    }
}
