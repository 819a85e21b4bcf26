//! The configuration of a link and of the way packets leave by it, always replaced as a whole.

use std::iter::Sum;

use super::arbiter::Shares;

/// More than any real link; keeps the arithmetic of a wire within 64 bits.
pub const MAX_RATE_BPS: u64 = 1 << 62;
pub const SERVICE_CHANNELS: usize = 32;
pub const MAX_VLS: usize = 16;
/// An MTU is of the payload: so many bytes may come on top, for headers and ICRC. Source: hfi_sim/engine/link/config.py.
pub const MTU_HEADROOM: u64 = 124;
/// Source: hfi_sim/engine/link/config.py.
const HOQ_UNIT_NS: u64 = 4096;
const MAX_HOQ_CODE: u8 = 19;
/// The VL of each service channel.
pub type ScToVl = [u8; SERVICE_CHANNELS];

/// The service channel on which each leaves.
pub type ScToSc = [u8; SERVICE_CHANNELS];

/// One direction of a link as an engine sees it; its credits are set up once, with the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    pub up: bool,
    // generated: link-options (made by `make generated` from hfi_sim/engine/link/config.py; do not edit)
    /// Bits per second, above 0.
    pub rate_bps: u64,
    /// Delay of every packet.
    pub latency_ns: u64,
    /// Additional delay from 0 to this value, drawn for each packet; packets stay in order.
    pub jitter_ns: u64,
    /// What may wait for the wire in one direction, `64K` or `20ms`; more is dropped (`link_overflow`).
    pub queue_bytes: u64,
    // end of generated
}

impl LinkConfig {
    /// A direction that is up, whose options have their defaults.
    pub const PLAIN: Self = {
        LinkConfig {
            up: true,
            // generated: link-option-defaults (made by `make generated` from hfi_sim/engine/link/config.py; do not edit)
            rate_bps: 100000000000,
            latency_ns: 300,
            jitter_ns: 0,
            queue_bytes: 16777216,
            // end of generated
        }
    };
}

/// The credits of one direction of a link.
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
    /// Room at the receiving end beside those buffers, for packets of any VL whose own is full.
    pub shared_bytes: u64,
    /// How long a packet may be the first of its VL at a switch; see `hoq_life_ns`.
    pub hoq_code: u8,
}

/// Add up what VLs have that share a lane: the VL modulo their number. Lanes beyond that number have nothing.
fn of_lanes<T: Copy + Default + Sum>(of_vls: &[T; MAX_VLS], vls: usize) -> [T; MAX_VLS] {
    std::array::from_fn(|lane| {
        if lane < vls { of_vls.iter().skip(lane).step_by(vls).copied().sum() } else { T::default() }
    })
}

impl FlowControl {
    pub fn vls(&self) -> usize {
        self.weights.len()
    }

    /// How the lanes of a direction share its wire. Lanes beyond the VLs are being drained.
    pub fn shares(&self, arbitration: Option<&Arbitration>) -> Shares {
        let vls = self.vls();
        let is_high = |vl: &usize| self.high >> vl & 1 == 1;
        let mut shares = match arbitration {
            Some(arbitration) => Shares {
                low: of_lanes(&arbitration.low, vls),
                high: of_lanes(&arbitration.high, vls),
                high_limit_bytes: arbitration.high_limit_bytes,
                first: (vls == MAX_VLS).then_some(MAX_VLS - 1),
            },
            None => {
                let weight = |lane: usize| self.weights.get(lane).copied().unwrap_or(0);
                Shares {
                    low: std::array::from_fn(|lane| if is_high(&lane) { 0 } else { weight(lane) }),
                    high: std::array::from_fn(|lane| if is_high(&lane) { weight(lane) } else { 0 }),
                    high_limit_bytes: self.high_limit_bytes,
                    first: None,
                }
            }
        };
        shares.low[vls..].fill(1);
        if let Some(first) = shares.first {
            (shares.low[first], shares.high[first]) = (0, 0);
        }
        shares
    }

    /// What the lanes of a direction may occupy at its far end.
    pub fn rooms(&self, buffers: Option<&Buffers>) -> Buffers {
        let vls = self.vls();
        match buffers {
            Some(buffers) => Buffers {
                dedicated: of_lanes(&buffers.dedicated, vls),
                shared: of_lanes(&buffers.shared, vls),
                overall_shared: buffers.overall_shared,
            },
            None => Buffers {
                dedicated: std::array::from_fn(|lane| if lane < vls { self.buffer_bytes } else { 0 }),
                shared: std::array::from_fn(|lane| if lane < vls { self.shared_bytes } else { 0 }),
                overall_shared: self.shared_bytes,
            },
        }
    }
}

/// Nanoseconds that a packet may be the first of its VL, by HOQLife of PortInfo; 0: no limit.
fn hoq_life_ns(code: u8) -> u64 {
    if code <= MAX_HOQ_CODE { HOQ_UNIT_NS << code } else { 0 }
}

/// How VLs share a wire: the tables VLArb of a port, the weights of all entries of a VL added up; index: VL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// Weights in the low-priority table; 0: not in the table.
    pub low: [u32; MAX_VLS],
    /// Weights in the high-priority table; 0: not in the table.
    pub high: [u32; MAX_VLS],
    /// As in `FlowControl`.
    pub high_limit_bytes: Option<u64>,
}

/// Room at the far end of a link that packets of each VL may occupy, in bytes; index: VL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Room for nothing but its packets.
    pub dedicated: [u64; MAX_VLS],
    /// How much it may have of what all share.
    pub shared: [u64; MAX_VLS],
    /// What all share.
    pub overall_shared: u64,
}

/// How packets leave a port by its link, as the subnet manager says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// SC2VLt, entries 0 to 15; None: as the link has it. A VL that the link has not shares one of its own: it is taken
    /// modulo their number.
    pub sc_to_vl: Option<ScToVl>,
    /// MTU of each VL in bytes, see `MTU_HEADROOM`; 0: nothing leaves on it. None: no limits.
    pub vl_mtus: Option<[u32; MAX_VLS]>,
    /// How VLs share the wire of a link with credits; None: as the link has it.
    pub arbitration: Option<Box<Arbitration>>,
    /// What VLs may occupy at the far end of a link with credits; None: as the link has it.
    pub buffers: Option<Box<Buffers>>,
    /// HOQLife of each VL of a switch's port; None: as the link has it.
    pub hoq_codes: Option<[u8; MAX_VLS]>,
}

impl Egress {
    /// How long a packet may be the first of its lane, in nanoseconds; 0: no limit.
    pub fn hoq_lives_ns(&self, flow: &FlowControl) -> [u64; MAX_VLS] {
        let codes = self.hoq_codes.unwrap_or([flow.hoq_code; MAX_VLS]);
        std::array::from_fn(|lane| if lane < flow.vls() { hoq_life_ns(codes[lane]) } else { 0 })
    }

    /// Whether a packet of `size` bytes is longer than the MTU of its VL.
    pub fn is_too_long(&self, size: u64, vl: u8) -> bool {
        self.vl_mtus.is_some_and(|mtus| {
            let mtu = u64::from(mtus[usize::from(vl)]);
            mtu == 0 || size > mtu + MTU_HEADROOM
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three VLs with weights 1, 2 and 3, of which the last has priority.
    fn flow() -> FlowControl {
        FlowControl {
            buffer_bytes: 1000,
            sc_to_vl: [0; SERVICE_CHANNELS],
            fecn_bytes: 0,
            weights: vec![1, 2, 3],
            high: 0b100,
            high_limit_bytes: Some(7),
            shared_bytes: 50,
            hoq_code: MAX_HOQ_CODE,
        }
    }

    /// What lanes have: the first ones as given, the others `rest`.
    fn lanes<T: Copy>(first: &[T], rest: T) -> [T; MAX_VLS] {
        std::array::from_fn(|lane| first.get(lane).copied().unwrap_or(rest))
    }

    #[test]
    fn lanes_share_as_the_link_says_and_those_beyond_its_vls_drain() {
        let shares = flow().shares(None);
        assert_eq!((shares.low, shares.high), (lanes(&[1, 2, 0], 1), lanes(&[0, 0, 3], 0)));
        assert_eq!((shares.high_limit_bytes, shares.first), (Some(7), None));
        let rooms = flow().rooms(None);
        assert_eq!((rooms.dedicated, rooms.shared), (lanes(&[1000; 3], 0), lanes(&[50; 3], 0)));
        assert_eq!(rooms.overall_shared, 50);
    }

    #[test]
    fn tables_of_a_port_are_of_16_vls_which_share_the_lanes_that_there_are() {
        let arbitration = Arbitration { low: [1; MAX_VLS], high: lanes(&[0, 4], 0), high_limit_bytes: None };
        let shares = flow().shares(Some(&arbitration));
        assert_eq!((shares.low, shares.high), (lanes(&[6, 5, 5], 1), lanes(&[0, 4], 0)));
        assert_eq!((shares.high_limit_bytes, shares.first), (None, None));
        let shares = FlowControl { weights: vec![1; MAX_VLS], ..flow() }.shares(Some(&arbitration));
        assert_eq!((shares.first, shares.low), (Some(15), lanes(&[1; 15], 0)));
        let all_high = Arbitration { high: [1; MAX_VLS], ..arbitration };
        let shares = FlowControl { weights: vec![1; MAX_VLS], ..flow() }.shares(Some(&all_high));
        assert_eq!((shares.first, shares.high), (Some(15), lanes(&[1; 15], 0)));
        let buffers = Buffers { dedicated: [10; MAX_VLS], shared: lanes(&[1, 2], 0), overall_shared: 9 };
        let rooms = flow().rooms(Some(&buffers));
        assert_eq!((rooms.dedicated, rooms.shared), (lanes(&[60, 50, 50], 0), lanes(&[1, 2], 0)));
        assert_eq!(rooms.overall_shared, 9);
    }

    #[test]
    fn lifetimes_double_with_each_code_up_to_two_seconds() {
        assert_eq!([0, 1, 19, 20, 255].map(hoq_life_ns), [4096, 8192, 4096 << 19, 0, 0]);
        assert_eq!(Egress::default().hoq_lives_ns(&flow()), lanes(&[4096 << 19; 3], 0));
        let egress = Egress { hoq_codes: Some(lanes(&[0, 20], 1)), ..Egress::default() };
        assert_eq!(egress.hoq_lives_ns(&flow()), lanes(&[4096, 0, 8192], 0));
    }

    #[test]
    fn packet_may_be_as_long_as_the_mtu_of_its_vl_and_headers() {
        let egress = Egress { vl_mtus: Some(lanes(&[2048], 0)), ..Egress::default() };
        assert_eq!([2048, 2172, 2173].map(|size| egress.is_too_long(size, 0)), [false, false, true]);
        assert!(egress.is_too_long(1, 1));
        assert!(!Egress::default().is_too_long(1 << 20, 0));
    }
}
