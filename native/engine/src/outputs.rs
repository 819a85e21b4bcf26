//! The events that an engine reports, in order. The caller that drives the engine polls them and acts.

use crate::burst::Burst;
use crate::config::PortNum;
use crate::counters::Drop;
use crate::packet::Packet;

/// The number of an HFI port or of port 0 of a switch; never reused.
pub type PortId = u32;
/// The number of a switch; never reused.
pub type SwitchId = u32;
/// One direction of a link: twice the number of the link, plus 1 from its second end.
pub type DirectionId = u32;
/// Room in a receive buffer that a delivered packet occupies, on a link with credits.
pub type BufferToken = u64;

/// Something that happened, with its time in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An HFI port, or port 0 of a switch, received a packet, checked it, and passes it to its host; or several packets,
    /// from that time on, if the host takes bursts (`Engine::take_bursts`).
    Delivered {
        time: u64,
        port: PortId,
        burst: Burst,
        /// To be released once the host has taken the packet; None: the link has no credits.
        token: Option<BufferToken>,
        /// At port 0 of a switch: the port by which the packet came to the switch, which directed routes need.
        in_port: PortNum,
    },
    /// A packet entered an observed direction.
    Observed {
        time: u64,
        direction: DirectionId,
        packet: Packet,
        /// Why it ended there; None: it went on its way.
        drop: Option<Drop>,
    },
    /// The link stops an HFI port for lack of credits, or restarts it.
    FlowChanged { time: u64, port: PortId, stopped: bool },
    /// A fault has hit its maximum number of packets and has no further effect.
    RuleSpent { time: u64, rule: u64 },
    /// A packet has reached the end of a link that is at another engine; or several, if they may depart together
    /// (`Engine::let_bursts_depart`).
    Departed {
        time: u64,
        direction: DirectionId,
        burst: Burst,
        /// To be released once the other engine has taken it; None: the link has no credits.
        token: Option<BufferToken>,
    },
}
