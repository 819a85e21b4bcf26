//! How a link is set up, as an engine is told: replaced whole.

/// More than any link has; keeps what a wire computes within 64 bits.
pub const MAX_RATE_BPS: u64 = 1 << 62;
pub const SERVICE_CHANNELS: usize = 32;
pub const MAX_VLS: usize = 16;

/// A link as an engine sees it, the same in both directions; its credits are set up once, with the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    pub up: bool,
    /// 1 to `MAX_RATE_BPS`.
    pub rate_bps: u64,
    pub latency_ns: u64,
    /// Most of an extra delay that is drawn for each packet; packets still arrive in order.
    pub jitter_ns: u64,
    /// What waits at the near end while the wire is busy; a packet that would exceed it is dropped (link_overflow).
    pub queue_bytes: u64,
}

/// How a link with credits is set up, the same in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowControl {
    /// Buffer of each VL at the receiving end.
    pub buffer_bytes: u64,
    /// The VL of each service channel.
    pub sc_to_vl: [u8; SERVICE_CHANNELS],
    /// A switch marks FECN on what it sends while this much, waiting or in the buffer, is ahead on the VL.
    pub fecn_bytes: u64,
    /// Weight of each VL in sharing the wire, 1 and more; there are as many VLs.
    pub weights: Vec<u32>,
    /// VLs with priority over all others, as bits.
    pub high: u16,
    /// After this many bytes of those, one packet of another VL goes first, if any waits; None: never.
    pub high_limit_bytes: Option<u64>,
}
