"""Whether a case was what it says: the evidence of its rounds against what is due.

A benchmark of slow links that are not slow, or of a capture that misses packets, measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from opavnic_bench.links.cases import LOSS, PLAIN, LinkCase, LinkParameters, Veth
from opavnic_bench.links.theory import (
    FULL_FRAME,
    binomial_interval,
    packet_bytes,
    round_trip_us,
    shortest_round_trip_us,
    tcp_limit_gbps,
)
from opavnic_bench.plots.plot import KERNEL

_RATE_SLACK: Final = 1.05
"""What was queued when iperf3 began to count arrives in addition."""
_JITTER_SLACK: Final = 0.1
_KEPT: Final = 0.99
_FAST_BPS: Final = LinkParameters().rate_bps
_PATH_SHARE: Final = 0.01
"""A path with less than this share of the packets carries no flow."""

Proof = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the lab counted during one round."""

    packets_tx: int = 0
    """Packets that the client's VNIC sent."""
    packets_rx: int = 0
    stops: int = 0
    """How often credits stopped an HFI port."""
    link_drops: int = 0
    via: dict[str, int] = field(default_factory=dict)
    """Packets through each of the switches that offer a path."""
    seen: int = 0
    """Packets that the fault looked at."""
    hits: int = 0
    kept: int = 0
    """Packets in the file of the capture."""
    missed: int = 0
    """Packets that the capture says it missed."""


NOTHING: Final = Evidence()


@dataclass(frozen=True, slots=True)
class LinkSample:
    """One round of one case."""

    tcp_gbps: float
    rtt_us_p50: float
    rtt_us_mean: float
    rtt_us_min: float
    engine: str = KERNEL
    evidence: Evidence = NOTHING
    place: int = 0
    """Of the runs of the plain case in their order, the one right before it. The next one is right after it."""


def prove(
    subject: LinkCase | Veth, samples: Sequence[LinkSample], plain: Sequence[LinkSample]
) -> Proof | None:
    """Return what shows that a case was what it says, with `ok`; None for the plain case, which claims nothing.

    Args:  samples: its rounds, at least one. plain: those of the plain case beside them; may be empty.
    """
    if isinstance(subject, Veth):
        return _rate(samples, tcp_limit_gbps(subject.rate_bps, FULL_FRAME))
    evidence = [sample.evidence for sample in samples]
    if subject.name == PLAIN:
        return None
    if subject.credits:
        return _credits(evidence)
    if subject.fault:
        return _loss(evidence)
    if subject.captured:
        return _capture(evidence)
    if subject.via:
        return _paths(evidence)
    if any(wire.jitter_s for wire in subject.way):
        return _jitter(subject, samples, plain)
    slowest = min(wire.rate_bps for wire in subject.way)
    if slowest < _FAST_BPS:
        return _rate(samples, tcp_limit_gbps(slowest, packet_bytes(FULL_FRAME)))
    return _latency(subject, samples)


def _rate(samples: Sequence[LinkSample], limit_gbps: float) -> Proof:
    fastest = max(sample.tcp_gbps for sample in samples)
    return {
        "ok": fastest <= limit_gbps * _RATE_SLACK,
        "tcp_gbps_max": round(fastest, 3),
        "limit_gbps": round(limit_gbps, 3),
    }


def _latency(case: LinkCase, samples: Sequence[LinkSample]) -> Proof:
    due = shortest_round_trip_us(case.way)
    fastest = min(sample.rtt_us_min for sample in samples)
    return {"ok": fastest >= due, "rtt_us_min": round(fastest, 1), "due_us": round(due, 1)}


def _jitter(case: LinkCase, samples: Sequence[LinkSample], plain: Sequence[LinkSample]) -> Proof:
    mean = median(sample.rtt_us_mean for sample in samples)
    if not plain:
        return {"ok": False, "rtt_us_mean": round(mean, 1), "theory_us": None}
    theory = round_trip_us(case.way) + median(sample.rtt_us_mean for sample in plain)
    return {
        "ok": abs(mean / theory - 1) <= _JITTER_SLACK,
        "rtt_us_mean": round(mean, 1),
        "theory_us": round(theory, 1),
    }


def _credits(evidence: Sequence[Evidence]) -> Proof:
    stops, drops = sum(one.stops for one in evidence), sum(one.link_drops for one in evidence)
    return {"ok": stops > 0 and drops == 0, "stops": stops, "link_drops": drops}


def _loss(evidence: Sequence[Evidence]) -> Proof:
    packets, seen = sum(one.packets_tx for one in evidence), sum(one.seen for one in evidence)
    hits = sum(one.hits for one in evidence)
    low, high = binomial_interval(seen, LOSS)
    exact = all(one.seen == one.packets_tx for one in evidence)
    return {
        "ok": exact and seen > 0 and low <= hits <= high,
        "packets": packets,
        "seen": seen,
        "hits": hits,
        "hits_expected": [low, high],
    }


def _capture(evidence: Sequence[Evidence]) -> Proof:
    packets = sum(one.packets_tx + one.packets_rx for one in evidence)
    kept, missed = sum(one.kept for one in evidence), sum(one.missed for one in evidence)
    return {
        "ok": kept >= _KEPT * packets > 0,
        "packets": packets,
        "kept": kept,
        "missed": missed,
        "kept_share": round(kept / packets, 4) if packets else None,
    }


def _paths(evidence: Sequence[Evidence]) -> Proof:
    via: dict[str, int] = {}
    for one in evidence:
        for name, packets in one.via.items():
            via[name] = via.get(name, 0) + packets
    used = [name for name, packets in via.items() if packets > _PATH_SHARE * sum(via.values())]
    return {"ok": len(used) > 1, "via": via}
