"""The counters of the pipeline, and the reasons for dropping a frame.

Conservation: every frame that enters is forwarded, answered, handed to the host, accepted as a sync message, or
counted in exactly one `LbDrop`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum


class LbDrop(StrEnum):
    """Why a frame ended here, as `stage:reason`; the stages stand in the order a frame meets them."""

    PARSER_SHORT_ETHERNET = "parser:too_short_ethernet"
    PARSER_SHORT_VLAN = "parser:too_short_vlan"
    PARSER_SHORT_ARP = "parser:too_short_arp"
    PARSER_SHORT_IPV4 = "parser:too_short_ipv4"
    PARSER_SHORT_IPV4_OPTIONS = "parser:too_short_ipv4_options"
    PARSER_SHORT_IPV6 = "parser:too_short_ipv6"
    PARSER_SHORT_ICMP = "parser:too_short_icmp"
    PARSER_SHORT_UDP = "parser:too_short_udp"
    PARSER_SHORT_UDPLB = "parser:too_short_udplb"
    PARSER_INVALID_IP = "parser:invalid_ip"
    """Wrong IP version, or an IPv4 header length below 5 words."""
    PARSER_FRAGMENT = "parser:fragment"
    """An IPv4 fragment behind the first: what stands where UDP would be is payload."""
    PARSER_ETHER_TYPE = "parser:ether_type"
    PARSER_PROTOCOL = "parser:protocol"
    PARSER_ARP = "parser:arp"
    """Not a request for an IPv4 address over Ethernet."""
    PARSER_BAD_MAGIC = "parser:bad_magic"
    PARSER_BAD_VERSION = "parser:bad_version"
    PARSER_BAD_LENGTH = "parser:bad_length"
    """The UDP or IP length is smaller than the headers it counts."""

    DST_FILTER_MISS = "dst_filter:miss"
    DST_FILTER_DROP = "dst_filter:drop_action"
    NOT_UDPLB_PROTOCOL = "not_udplb:not_udp"
    NOT_UDPLB_PORT = "not_udplb:dst_port"

    MAC_DST_MISS = "mac_dst_filter:miss"
    NOT_IP = "ip_dst_filter:not_ip"
    IP_DST_MISS = "ip_dst_filter:miss"
    ARP_TARGET = "responder:arp_target"
    ICMPV4_TARGET = "responder:icmpv4_target"
    ICMPV4_UNHANDLED = "responder:icmpv4_unhandled"
    ICMPV6_UNHANDLED = "responder:icmpv6_unhandled"
    ND_TARGET = "responder:nd_target"
    SRC_BLOCKED = "src_filter:miss"
    TTL = "forward:ttl"
    """The TTL or hop limit is used up."""

    EPOCH_MISS = "epoch_assign:miss"
    EPOCH_DROP = "epoch_assign:drop_action"
    CALENDAR_MISS = "calendar:miss"
    CALENDAR_DROP = "calendar:drop_action"
    MEMBER_MISS = "member_info:miss"
    MEMBER_DROP = "member_info:drop_action"
    MEMBER_SOFT_EVICTED = "member_info:drop_soft_evicted"
    MEMBER_DEREGISTERED = "member_info:drop_deregistered"
    MEMBER_FAMILY = "member_info:family"
    """The entry rewrites to an address of the other IP version."""

    HOST_QUEUE = "host:queue_full"
    """The native pipeline left it to the reference, and too many waited there already."""

    SYNC_MALFORMED = "sync:malformed"
    """A sync message of another length or version."""
    SYNC_NO_RESERVATION = "sync:no_reservation"
    """The instance that it was sent to is not reserved."""
    SYNC_SENDER = "sync:not_a_sender"
    """It comes from an address that is not among the senders of the reservation."""
    SYNC_AHEAD = "sync:too_far_ahead"
    """Its tick is further than ticks can have come since the last look or message."""
    SYNC_TIMESTAMP = "sync:timestamp"
    """Sent before the last one of its source, or later than ours and the sender's clock can be apart."""
    SYNC_SOURCES = "sync:too_many_sources"
    """The senders of the reservation use more source numbers than are kept."""

    @property
    def stage(self) -> str:
        """The stage of the pipeline."""
        return self.value.partition(":")[0]


GONE = (LbDrop.MEMBER_SOFT_EVICTED, LbDrop.MEMBER_DEREGISTERED)
"""Drops that are counted by member, too."""


TICK_AHEAD = "tick:too_far_ahead"
"""Why the tick of a packet was not believed: it is further than ticks can have come since the last look or message. The
packet is forwarded, and counted like any other; no prediction follows its tick."""


class Reply(StrEnum):
    """Kinds of replies of the load balancer itself."""

    ARP = "arp"
    ICMPV4_ECHO = "icmpv4_echo"
    ICMPV6_ECHO = "icmpv6_echo"
    NEIGHBOR = "neighbor_advertisement"


@dataclass(slots=True)
class LbCounters:
    """Packets of one load balancer instance."""

    rx_packets: int = 0
    rx_bytes: int = 0
    rx_v1: int = 0
    rx_v2: int = 0
    rx_v3: int = 0
    last_tick: int = 0
    """The tick of the last packet."""
    max_tick: int = 0
    """The largest tick up to `furthest`."""
    furthest: int | None = None
    """The furthest tick that is believed, as the control plane says; None: any."""
    ahead: int = 0
    """Packets with a tick beyond it (`TICK_AHEAD`)."""
    drops: Counter[LbDrop] = field(default_factory=Counter)

    @property
    def with_tick(self) -> int:
        """Number of packets that had a tick."""
        return self.rx_v1 + self.rx_v2 + self.rx_v3

    def see(self, tick: int) -> None:
        """Record the tick of a sender's packet."""
        self.last_tick = tick
        if self.furthest is not None and tick > self.furthest:
            self.ahead += 1
        else:
            self.max_tick = max(self.max_tick, tick)


@dataclass(slots=True)
class MemberCounters:
    """Packets of one member."""

    tx_packets: int = 0
    tx_bytes: int = 0
    drops: Counter[LbDrop] = field(default_factory=Counter)
    """Dropped because it is said to have been evicted or deregistered."""


@dataclass(slots=True)
class PipelineCounters:
    """All counters of a pipeline."""

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    """Forwarded to members."""
    tx_bytes: int = 0
    to_host: int = 0
    syncs: int = 0
    """Sync messages that the control plane accepted."""
    replies: Counter[Reply] = field(default_factory=Counter)
    drops: Counter[LbDrop] = field(default_factory=Counter)
    lbs: defaultdict[int, LbCounters] = field(default_factory=lambda: defaultdict(LbCounters))
    """By instance."""
    members: defaultdict[int, MemberCounters] = field(default_factory=lambda: defaultdict(MemberCounters))

    @property
    def dropped(self) -> int:
        """Number of dropped frames."""
        return sum(self.drops.values())

    @property
    def balance(self) -> int:
        """Frames missing from conservation: 0, or a bug."""
        elsewhere = self.to_host + self.syncs + sum(self.replies.values())
        return self.rx_packets - self.tx_packets - elsewhere - self.dropped

    @property
    def bad_syncs(self) -> int:
        """Sync messages that were refused; the reasons are in `drops`."""
        return sum(count for drop, count in self.drops.items() if drop.stage == "sync")

    @property
    def refusals(self) -> dict[str, int]:
        """What was not believed, by reason; empty if everything was."""
        ahead = sum(lb.ahead for lb in self.lbs.values())
        return {TICK_AHEAD: ahead} if ahead else {}

    def drop(self, reason: LbDrop, lb: LbCounters | None = None) -> None:
        """Count a dropped frame, also in the counters `lb` of the instance that it had reached."""
        self.drops[reason] += 1
        if lb is not None:
            lb.drops[reason] += 1

    def sent(self, member_id: int, length: int) -> None:
        """Count a frame forwarded to a member; `length` is its outgoing size in bytes."""
        self.tx_packets += 1
        self.tx_bytes += length
        member = self.members[member_id]
        member.tx_packets += 1
        member.tx_bytes += length
