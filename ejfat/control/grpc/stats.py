"""Counters as messages of the P4 service, and the filters by which a client chooses among them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.control.metrics import Metric
from ejfat.control.pb import sn_p4_v2_pb2 as pb

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
            if (value or not filters.non_zero) and is_selected(filters, name, index)
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


def is_selected(filters: pb.StatsFilters, name: str, index: int) -> bool:
    """Return whether a counter passes the filters."""
    if filters.metric_types and pb.STATS_METRIC_TYPE_COUNTER not in filters.metric_types:
        return False
    return not filters.HasField("metric_filter") or _passes(filters.metric_filter, name, index)


def _labels(name: str, index: int) -> list[pb.StatsMetricLabel]:
    return [
        pb.StatsMetricLabel(key=key, value=str(index))
        for start, key in _LABELS.items()
        if name.startswith(start)
    ]


def _passes(term: pb.StatsMetricFilter, name: str, index: int) -> bool:
    kind = term.WhichOneof("term")
    if kind == "match":
        found = _metric_matches(term.match, name, index)
    elif kind == "any_set":
        found = any(_passes(member, name, index) for member in term.any_set.members)
    elif kind == "all_set":
        found = all(_passes(member, name, index) for member in term.all_set.members)
    else:
        found = True
    return found != term.negated


def _metric_matches(match: pb.StatsMetricMatch, name: str, index: int) -> bool:
    kind = match.WhichOneof("attribute")
    if kind == "name":
        return _text_matches(match.name, name)
    if kind in ("domain", "zone", "block"):
        return _text_matches(getattr(match, kind), getattr(_SCOPE, kind))
    if kind == "type":
        return match.type == pb.STATS_METRIC_TYPE_COUNTER
    if kind == "indices":
        return any(
            part.start <= index <= part.end and (index - part.start) % max(part.step, 1) == 0
            for part in match.indices.slices
        )
    if kind == "label":
        return any(
            _text_matches(match.label.key, label.key) and _text_matches(match.label.value, label.value)
            for label in _labels(name, index)
        )
    return True


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
        return _pattern_matches(match.regexp.pattern, text)
    return True


def _pattern_matches(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a name; one that is none, or too long, matches nothing."""
    try:
        return len(pattern) <= _LONGEST_PATTERN and re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return False
