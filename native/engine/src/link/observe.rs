//! Shows each packet of a direction to its observers: as an output, or copied into the rings of captures.

use std::collections::VecDeque;
use std::sync::Arc;

use super::capture::CaptureRing;
use crate::counters::Drop;
use crate::outputs::{DirectionId, Output};
use crate::packet::Packet;

/// The observers of one direction.
#[derive(Debug)]
pub struct Observer {
    /// Whether packets are outputs.
    pub reports: bool,
    /// Rings that get copies, each with the interface number of this direction in it.
    taps: Vec<(Arc<CaptureRing>, u32)>,
    direction: DirectionId,
}

impl Observer {
    /// Start without observers.
    pub fn new(direction: DirectionId) -> Self {
        Observer { reports: false, taps: Vec::new(), direction }
    }

    /// Whether there are no observers.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.reports && self.taps.is_empty()
    }

    /// Copy packets into a ring from now on.
    pub fn attach(&mut self, ring: Arc<CaptureRing>, interface: u32) {
        self.taps.push((ring, interface));
    }

    /// Copy no more into a ring; harmless when it is not attached.
    pub fn detach(&mut self, ring: &Arc<CaptureRing>) {
        self.taps.retain(|(other, _)| !Arc::ptr_eq(other, ring));
    }

    /// Show a packet as it enters, with the reason if it ends there.
    pub fn show(&self, outputs: &mut VecDeque<Output>, time: u64, packet: &Packet, drop: Option<Drop>) {
        if self.reports {
            let direction = self.direction;
            outputs.push_back(Output::Observed { time, direction, packet: packet.clone(), drop });
        }
        for (ring, interface) in &self.taps {
            ring.push(time, *interface, packet, drop);
        }
    }

    /// Whether packets of a train may enter together: no observer needs outputs.
    #[inline]
    pub fn takes_trains(&self) -> bool {
        !self.reports
    }

    /// Show one packet of a train to the capture rings, as `show` does.
    #[inline]
    pub fn show_one_of(&self, time: u64, train: &Packet, index: u32, drop: Option<Drop>) {
        for (ring, interface) in &self.taps {
            ring.push(time, *interface, train.nth(index), drop);
        }
    }
}
