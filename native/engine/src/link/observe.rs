//! Shows each packet of a direction to its observers: as an output, or copied into the rings of captures.

use std::collections::VecDeque;
use std::sync::Arc;

use super::capture::CaptureRing;
use crate::burst::Burst;
use crate::counters::Drop;
use crate::outputs::{DirectionId, Output};

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

    /// Show packets as they enter, each at its time, with the reason if they end there. `takes_bursts` says whether they
    /// may be several.
    pub fn show(
        &self,
        outputs: &mut VecDeque<Output>,
        times: impl Iterator<Item = u64> + Clone,
        burst: &Burst,
        drop: Option<Drop>,
    ) {
        if self.reports {
            let (direction, packet) = (self.direction, burst.packet.clone());
            let observed = |time| Output::Observed { time, direction, packet, drop };
            outputs.extend(times.clone().next().map(observed));
        }
        for (ring, interface) in &self.taps {
            ring.push(*interface, times.clone(), burst, drop);
        }
    }

    /// Whether packets may enter in the buffer of a burst: no observer needs outputs.
    #[inline]
    pub fn takes_bursts(&self) -> bool {
        !self.reports
    }
}
