"""The data plane's counters under the names that the public control plane reads.

Clearing a counter only moves a baseline. The counters of the pipeline never decrease, so that conservation holds.

Source: the metric names of the public control plane; the indexes of `rx_rslt_counter` are those of its data plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from ejfat.base.drops import LbCounters, LbDrop, MemberCounters, PipelineCounters, Reply

LBS = 16
MEMBERS = 1024
_RESULTS: tuple[tuple[LbDrop, ...] | Reply | None, ...] = (
    None,  # parser
    (LbDrop.MAC_DST_MISS,),
    (LbDrop.NOT_IP,),
    (LbDrop.IP_DST_MISS,),
    (LbDrop.ARP_TARGET,),
    (LbDrop.ICMPV4_TARGET, LbDrop.ICMPV4_UNHANDLED),
    (LbDrop.ICMPV6_UNHANDLED,),
    (LbDrop.ND_TARGET,),
    Reply.ARP,
    Reply.ICMPV4_ECHO,
    Reply.ICMPV6_ECHO,
    Reply.NEIGHBOR,
)
_LB_DROPS = {
    "blocked_src": LbDrop.SRC_BLOCKED,
    "not_ip": LbDrop.NOT_IP,
    "no_udplb_hdr": LbDrop.NOT_UDPLB_PORT,
    "bad_udplb_version": LbDrop.PARSER_BAD_VERSION,
    "epoch_assign_miss": LbDrop.EPOCH_MISS,
    "lb_calendar_miss": LbDrop.CALENDAR_MISS,
    "mbr_info_miss": LbDrop.MEMBER_MISS,
}
_MEMBER_DROPS = {"soft_evicted": LbDrop.MEMBER_SOFT_EVICTED, "deregistered": LbDrop.MEMBER_DEREGISTERED}
"""Counted by the public data plane, and passed over by its control plane."""
_LB_COUNTS: dict[str, Callable[[LbCounters], int]] = {
    "rx_pkt": lambda lb: lb.rx_packets,
    "rx_byte": lambda lb: lb.rx_bytes,
    "rx_v2": lambda lb: lb.rx_v2,
    "rx_v3": lambda lb: lb.rx_v3,
    # not known to the public control plane, which passes it over
    "tick_too_far_ahead_pkt": lambda lb: lb.ahead,
}


class Metric(NamedTuple):
    """An array of counters."""

    name: str
    values: list[int]
    """By index."""


class Metrics:
    """The counters of a pipeline since they were last cleared."""

    def __init__(self, counters: Callable[[], PipelineCounters]) -> None:
        """Args:  counters: returns the current counters of the pipeline."""
        self._counters = counters
        self._baseline: dict[tuple[str, int], int] = {}

    def read(self) -> Iterator[Metric]:
        """Yield all metrics, always in the same order."""
        for name, values in self._raw():
            yield Metric(name, [value - self._baseline.get((name, i), 0) for i, value in enumerate(values)])

    def clear(self, chosen: Callable[[str, int, int], bool]) -> None:
        """Set each counter to zero for which `chosen(name, index, number of the metric's counters)` is true."""
        for name, values in self._raw():
            for index, value in enumerate(values):
                if chosen(name, index, len(values)):
                    self._baseline[name, index] = value

    def _raw(self) -> Iterator[tuple[str, list[int]]]:
        counters = self._counters()
        yield (
            "rx_rslt_counter",
            [_result(counters, what) for what in _RESULTS] + [counters.to_host, counters.tx_packets],
        )
        lbs = [counters.lbs.get(lb_id, LbCounters()) for lb_id in range(LBS)]
        for name, count in _LB_COUNTS.items():
            yield f"lb_ctx_{name}_counter", [count(lb) for lb in lbs]
        for name, drop in _LB_DROPS.items():
            yield f"lb_ctx_drop_{name}_pkt_counter", [lb.drops.get(drop, 0) for lb in lbs]
        yield "lb_mbr_tx_pkt_counter", _by_member(counters, lambda member: member.tx_packets)
        yield "lb_mbr_tx_byte_counter", _by_member(counters, lambda member: member.tx_bytes)
        for name, drop in _MEMBER_DROPS.items():
            yield f"lb_mbr_drop_{name}_counter", _by_member(counters, partial(_dropped, drop))


def _dropped(reason: LbDrop, member: MemberCounters) -> int:
    return member.drops.get(reason, 0)


def _by_member(counters: PipelineCounters, count: Callable[[MemberCounters], int]) -> list[int]:
    values = [0] * MEMBERS
    for member_id, member in counters.members.items():
        values[member_id % MEMBERS] += count(member)
    return values


def _result(counters: PipelineCounters, what: tuple[LbDrop, ...] | Reply | None) -> int:
    if what is None:
        return sum(count for drop, count in counters.drops.items() if drop.stage == "parser")
    if isinstance(what, Reply):
        return counters.replies.get(what, 0)
    return sum(counters.drops.get(drop, 0) for drop in what)
