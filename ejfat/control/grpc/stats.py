"""Counters as messages of the P4 service, and the filters by which a client chooses among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.control.grpc.metrics import Metric
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
