//! How a link is set up, and how packets leave by it, as an engine is told: replaced whole.

/// More than any link has; keeps what a wire computes within 64 bits.
pub const MAX_RATE_BPS: u64 = 1 << 62;
pub const SERVICE_CHANNELS: usize = 32;
pub const MAX_VLS: usize = 16;
/// An MTU is of the payload: so many bytes may come on top, for headers and ICRC. Source: hfi_sim/link/config.py.
pub const MTU_HEADROOM: u64 = 124;
/// The VL of each service channel.
pub type ScToVl = [u8; SERVICE_CHANNELS];

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
    pub sc_to_vl: ScToVl,
    /// A switch marks FECN on what it sends while this much, waiting or in the buffer, is ahead on the VL.
    pub fecn_bytes: u64,
    /// Weight of each VL in sharing the wire, 1 and more; there are as many VLs.
    pub weights: Vec<u32>,
    /// VLs with priority over all others, as bits.
    pub high: u16,
    /// After this many bytes of those, one packet of another VL goes first, if any waits; None: never.
    pub high_limit_bytes: Option<u64>,
}

/// How packets leave a port by its link, as the subnet manager says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// SC2VLt, entries 0 to 15; None: as the link has it. A VL that the link has not shares one of its own: it is taken
    /// modulo their number.
    pub sc_to_vl: Option<ScToVl>,
    /// MTU of each VL in bytes, see `MTU_HEADROOM`; 0: nothing leaves on it. None: no limits.
    pub vl_mtus: Option<[u32; MAX_VLS]>,
}

impl Egress {
    /// Whether a packet of `size` bytes is longer than the MTU of its VL.
    pub fn is_too_long(&self, size: u64, vl: u8) -> bool {
        self.vl_mtus.is_some_and(|mtus| {
            let mtu = u64::from(mtus[usize::from(vl)]);
            mtu == 0 || size > mtu + MTU_HEADROOM
        })
    }
}
