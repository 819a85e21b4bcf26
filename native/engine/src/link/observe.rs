//! Reports each packet of a direction to whoever observes it.

use std::sync::Arc;

use crate::counters::Drop;
use crate::outputs::{DirectionId, Output};
use crate::packet::{Packet, complete};
use crate::state::State;

/// Report a packet as it enters, with the reason if it ends there. Who looks at it sees it whole.
pub fn report(state: &mut State, time: u64, direction: DirectionId, packet: &Packet, drop: Option<Drop>) {
    let mut packet = Arc::clone(packet);
    if !state.icrc {
        complete(&mut packet);
    }
    state.outputs.push_back(Output::Observed { time, direction, packet, drop });
}
