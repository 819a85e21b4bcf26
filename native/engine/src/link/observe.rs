//! Reports each packet of a direction to whoever observes it.

use std::collections::VecDeque;

use crate::counters::Drop;
use crate::outputs::{DirectionId, Output};
use crate::packet::Packet;

/// Report a packet as it enters, with the reason if it ends there.
pub fn report(
    outputs: &mut VecDeque<Output>,
    time: u64,
    direction: DirectionId,
    packet: &Packet,
    drop: Option<Drop>,
) {
    outputs.push_back(Output::Observed { time, direction, packet: packet.clone(), drop });
}
