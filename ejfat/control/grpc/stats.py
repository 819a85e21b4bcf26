"""Counters of the data plane, under the names that the public control plane reads, and as messages of the P4 service.

Clearing a counter only moves a baseline. The counters of the pipeline never decrease, so that conservation holds.

Source: the metric names of the public control plane; the indexes of `rx_rslt_counter` are those of its data plane.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.base.drops import LbCounters, LbDrop, MemberCounters, PipelineCounters, Reply
from ejfat.control.pb import sn_p4_v2_pb2 as pb

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


Metric = tuple[str, list[int]]
"""The name of an array of counters, and their values by index."""


class Metrics:
    """The counters of a pipeline since they were last cleared."""

    def __init__(self, counters: Callable[[], PipelineCounters]) -> None:
        """Args:  counters: returns the current counters of the pipeline."""
        self._counters = counters
        self._baseline: dict[tuple[str, int], int] = {}

    def read(self) -> Iterator[Metric]:
        """Yield all metrics, always in the same order."""
        for name, values in self._raw():
            yield name, [value - self._baseline.get((name, i), 0) for i, value in enumerate(values)]

    def clear(self, chosen: Callable[[str, int, int], bool]) -> None:
        """Set each counter to zero for which `chosen(name, index, number of the metric's counters)` is true."""
        for name, values in self._raw():
            for index, value in enumerate(values):
                if chosen(name, index, len(values)):
                    self._baseline[name, index] = value

    def _raw(self) -> Iterator[Metric]:
        counters = self._counters()
        yield (
            "rx_rslt_counter",
            [_result(counters, what) for what in _RESULTS] + [counters.to_host, counters.tx_packets],
        )
        lbs = [counters.lbs.get(lb_id, LbCounters()) for lb_id in range(LBS)]
        for name, count in _LB_COUNTS.items():
            yield f"lb_ctx_{name}_counter", [count(lb) for lb in lbs]
        for name, drop in _LB_DROPS.items():
            yield f"lb_ctx_drop_{name}_pkt_counter", [lb.drops[drop] for lb in lbs]
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


_SCOPE = pb.StatsMetricScope(domain="p4", zone="pipeline", block="udplb")
_LABELS = {"lb_ctx_": "lb_id", "lb_mbr_": "member_id"}
"""Name of what an index counts, by the beginning of a metric's name."""
_LONGEST_PATTERN = 200


def stats_of(metrics: Iterable[Metric], filters: pb.StatsFilters, now: float) -> pb.Stats:
    """Return the metrics that pass the filters.

    Args:    now: Unix time in seconds.
    """
    stamp = Timestamp()
    stamp.FromNanoseconds(round(now * 1e9))
    found = pb.Stats()
    for name, values in metrics:
        chosen = [
            pb.StatsMetricValue(
                u64=value, index=index, labels=_labels(name, index) if filters.with_labels else ()
            )
            for index, value in enumerate(values)
            if (value or not filters.non_zero) and is_selected(filters, name, index, len(values))
        ]
        if chosen:
            found.metrics.append(
                pb.StatsMetric(
                    type=pb.STATS_METRIC_TYPE_COUNTER,
                    scope=_SCOPE,
                    name=name,
                    num_elements=len(values),
                    values=chosen,
                    last_update=stamp,
                )
            )
    return found


def is_selected(filters: pb.StatsFilters, name: str, index: int, count: int) -> bool:
    """Return whether a counter passes the filters. Args: count: how many counters the metric has."""
    if filters.metric_types and pb.STATS_METRIC_TYPE_COUNTER not in filters.metric_types:
        return False
    return not filters.HasField("metric_filter") or _passes(
        filters.metric_filter, lambda match: _metric_matches(match, name, index, count)
    )


def _labels(name: str, index: int) -> list[pb.StatsMetricLabel]:
    return [
        pb.StatsMetricLabel(key=key, value=str(index))
        for start, key in _LABELS.items()
        if name.startswith(start)
    ]


def _passes(term: Any, matches: Callable[[Any], bool]) -> bool:
    """Return whether a term of a filter holds: a match, or a set of terms."""
    kind = term.WhichOneof("term")
    if kind == "match":
        found = matches(term.match)
    elif kind == "any_set":
        found = any(_passes(member, matches) for member in term.any_set.members)
    elif kind == "all_set":
        found = all(_passes(member, matches) for member in term.all_set.members)
    else:
        found = True
    return bool(found != term.negated)


def _metric_matches(match: pb.StatsMetricMatch, name: str, index: int, count: int) -> bool:
    kind = match.WhichOneof("attribute")
    if kind == "name":
        return _text_matches(match.name, name)
    if kind in ("domain", "zone", "block"):
        return _text_matches(getattr(match, kind), getattr(_SCOPE, kind))
    if kind == "type":
        return match.type == pb.STATS_METRIC_TYPE_COUNTER
    if kind == "indices":
        return any(_is_in(part, index, count) for part in match.indices.slices)
    if kind == "label":
        return any(
            _text_matches(match.label.key, label.key) and _text_matches(match.label.value, label.value)
            for label in _labels(name, index)
        )
    return True


def _is_in(part: pb.StatsMetricMatchIndexSlice, index: int, count: int) -> bool:
    # negative: from the end, so that -1 is the last
    first, last = (place if place >= 0 else count + place for place in (part.start, part.end))
    return first <= index <= last and (index - first) % max(part.step, 1) == 0


def _text_matches(match: pb.StatsMetricMatchString, text: str) -> bool:
    kind = match.WhichOneof("method")
    if kind == "exact":
        return text == match.exact
    if kind == "prefix":
        return text.startswith(match.prefix)
    if kind == "suffix":
        return text.endswith(match.suffix)
    if kind == "substring":
        return match.substring in text
    if kind == "regexp":
        pattern = _compiled(match.regexp.pattern)
        return pattern is not None and pattern.search(text) is not None
    if kind == "split":
        return _split_matches(match.split, text)
    return True


def _split_matches(split: pb.StatsMetricMatchString.Split, text: str) -> bool:
    pattern = _compiled(split.pattern)
    if pattern is None:
        return False
    # not re.split, which also returns what groups of the pattern have matched
    cuts = [match.span() for match in pattern.finditer(text) if match.end() > match.start()]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    parts = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    found = (
        _passes(split.part, partial(_part_matches, part=part, index=index))
        for index, part in enumerate(parts)
    )
    return any(found) if split.any else all(found)


def _part_matches(match: Any, part: str, index: int) -> bool:
    attribute = match.WhichOneof("attribute")
    if attribute == "value":
        return _text_matches(match.value, part)
    return attribute is None or bool(index == match.index)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern; None if it is malformed or too long, and so matches nothing."""
    try:
        return re.compile(pattern) if len(pattern) <= _LONGEST_PATTERN else None
    except (re.error, RecursionError, OverflowError):
        return None
