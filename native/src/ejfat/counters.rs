//! How a frame can end, under the names of ejfat/drops.py, and what is counted of it.

use crate::hash::FastMap;

macro_rules! drops {
    ($($variant:ident = $name:literal,)*) => {
        /// Why a frame ended in the pipeline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Drop { $($variant),* }

        /// Their names, by number: `stage:reason`.
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

drops! {
    ShortEthernet = "parser:too_short_ethernet",
    ShortVlan = "parser:too_short_vlan",
    ShortIpv4 = "parser:too_short_ipv4",
    ShortIpv4Options = "parser:too_short_ipv4_options",
    ShortIpv6 = "parser:too_short_ipv6",
    ShortUdp = "parser:too_short_udp",
    ShortUdplb = "parser:too_short_udplb",
    InvalidIp = "parser:invalid_ip",
    Fragment = "parser:fragment",
    EtherType = "parser:ether_type",
    Protocol = "parser:protocol",
    BadMagic = "parser:bad_magic",
    BadVersion = "parser:bad_version",
    BadLength = "parser:bad_length",
    DstFilterMiss = "dst_filter:miss",
    DstFilterDrop = "dst_filter:drop_action",
    NotUdp = "not_udplb:not_udp",
    NotUdplbPort = "not_udplb:dst_port",
    MacDstMiss = "mac_dst_filter:miss",
    IpDstMiss = "ip_dst_filter:miss",
    SrcBlocked = "src_filter:miss",
    Ttl = "forward:ttl",
    EpochMiss = "epoch_assign:miss",
    EpochDrop = "epoch_assign:drop_action",
    CalendarMiss = "calendar:miss",
    CalendarDrop = "calendar:drop_action",
    MemberMiss = "member_info:miss",
    MemberDrop = "member_info:drop_action",
    MemberSoftEvicted = "member_info:drop_soft_evicted",
    MemberDeregistered = "member_info:drop_deregistered",
    MemberFamily = "member_info:family",
    HostQueue = "host:queue_full",
}

const DROPS: usize = NAMES.len();

/// Instances that a destination filter can name (3 bits).
pub const LBS: usize = 8;

/// Packets of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lb {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    /// By header version, from 1.
    pub by_version: [u64; 3],
    /// None while no packet with a tick has come.
    pub last_tick: Option<u64>,
    pub max_tick: u64,
    pub drops: [u64; DROPS],
}

impl Lb {
    #[inline]
    pub fn tick(&mut self, version: u8, tick: u64) {
        self.by_version[usize::from(version - 1)] += 1;
        self.last_tick = Some(tick);
        self.max_tick = self.max_tick.max(tick);
    }
}

/// Everything counted since the last harvest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub drops: [u64; DROPS],
    pub lbs: [Lb; LBS],
    /// Packets and bytes by member number.
    pub members: FastMap<u32, (u64, u64)>,
}

impl Counters {
    #[inline]
    pub fn enter(&mut self, len: usize) {
        self.rx_packets += 1;
        self.rx_bytes += len as u64;
    }

    #[inline]
    pub fn drop(&mut self, reason: Drop, lb: Option<usize>) {
        self.drops[reason as usize] += 1;
        if let Some(lb) = lb {
            self.lbs[lb].drops[reason as usize] += 1;
        }
    }

    #[inline]
    pub fn sent(&mut self, member: u16, len: usize) {
        self.tx_packets += 1;
        self.tx_bytes += len as u64;
        let (packets, bytes) = self.members.entry(u32::from(member)).or_default();
        *packets += 1;
        *bytes += len as u64;
    }

    /// Frames that came and are accounted for nowhere: 0, or a bug.
    pub fn balance(&self) -> i64 {
        self.rx_packets as i64 - self.tx_packets as i64 - self.drops.iter().sum::<u64>() as i64
    }
}
