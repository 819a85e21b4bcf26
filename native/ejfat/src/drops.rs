//! Made by `make generated` from ejfat/base/drops.py; do not edit.

/// Why a frame ended here, as `stage:reason`; the stages stand in the order a frame meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    ParserShortEthernet,
    ParserShortVlan,
    ParserShortArp,
    ParserShortIpv4,
    ParserShortIpv4Options,
    ParserShortIpv6,
    ParserShortIcmp,
    ParserShortUdp,
    ParserShortUdplb,
    /// Wrong IP version, or an IPv4 header length below 5 words.
    ParserInvalidIp,
    /// An IPv4 fragment behind the first: what stands where UDP would be is payload.
    ParserFragment,
    ParserEtherType,
    ParserProtocol,
    /// Not a request for an IPv4 address over Ethernet.
    ParserArp,
    ParserBadMagic,
    ParserBadVersion,
    /// The UDP or IP length is smaller than the headers it counts.
    ParserBadLength,
    DstFilterMiss,
    DstFilterDrop,
    NotUdplbProtocol,
    NotUdplbPort,
    MacDstMiss,
    NotIp,
    IpDstMiss,
    ArpTarget,
    Icmpv4Target,
    Icmpv4Unhandled,
    Icmpv6Unhandled,
    NdTarget,
    SrcBlocked,
    /// The TTL or hop limit is used up.
    Ttl,
    EpochMiss,
    EpochDrop,
    CalendarMiss,
    CalendarDrop,
    MemberMiss,
    MemberDrop,
    MemberSoftEvicted,
    MemberDeregistered,
    /// The entry rewrites to an address of the other IP version.
    MemberFamily,
    /// The native pipeline left it to the reference, and too many waited there already.
    HostQueue,
    /// A sync message of another length or version.
    SyncMalformed,
    /// The instance that it was sent to is not reserved.
    SyncNoReservation,
    /// It comes from an address that is not among the senders of the reservation.
    SyncSender,
    /// Its tick is further than ticks can have come since the last look or message.
    SyncAhead,
    /// Sent before the last one of its source, or later than ours and the sender's clock can be apart.
    SyncTimestamp,
    /// The senders of the reservation use more source numbers than are kept.
    SyncSources,
}

/// Their names, by number.
pub const DROP_NAMES: [&str; 47] = [
    "parser:too_short_ethernet",
    "parser:too_short_vlan",
    "parser:too_short_arp",
    "parser:too_short_ipv4",
    "parser:too_short_ipv4_options",
    "parser:too_short_ipv6",
    "parser:too_short_icmp",
    "parser:too_short_udp",
    "parser:too_short_udplb",
    "parser:invalid_ip",
    "parser:fragment",
    "parser:ether_type",
    "parser:protocol",
    "parser:arp",
    "parser:bad_magic",
    "parser:bad_version",
    "parser:bad_length",
    "dst_filter:miss",
    "dst_filter:drop_action",
    "not_udplb:not_udp",
    "not_udplb:dst_port",
    "mac_dst_filter:miss",
    "ip_dst_filter:not_ip",
    "ip_dst_filter:miss",
    "responder:arp_target",
    "responder:icmpv4_target",
    "responder:icmpv4_unhandled",
    "responder:icmpv6_unhandled",
    "responder:nd_target",
    "src_filter:miss",
    "forward:ttl",
    "epoch_assign:miss",
    "epoch_assign:drop_action",
    "calendar:miss",
    "calendar:drop_action",
    "member_info:miss",
    "member_info:drop_action",
    "member_info:drop_soft_evicted",
    "member_info:drop_deregistered",
    "member_info:family",
    "host:queue_full",
    "sync:malformed",
    "sync:no_reservation",
    "sync:not_a_sender",
    "sync:too_far_ahead",
    "sync:timestamp",
    "sync:too_many_sources",
];
