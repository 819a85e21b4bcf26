"""What is due by the numbers of the links: round trips, the most that a flow can carry, how often chance hits."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p
from typing import Final

from hfi_sim.wire.lrh16b import SIZE as LRH_BYTES
from hfi_sim.wire.packet import QUAD_WORD, wire_length_qw
from opavnic_bench.links.cases import MTU, LinkParameters

_ETHERNET: Final = 14
_L4: Final = 4
TCP_PAYLOAD: Final = MTU - 20 - 20 - 12
"""Bytes of a TCP segment with timestamps, as Linux sends them."""
PING_FRAME: Final = _ETHERNET + 20 + 64
"""Bytes of an Ethernet frame of ping."""
FULL_FRAME: Final = _ETHERNET + MTU
TRUST: Final = 0.99
"""How much of what chance does lies within `binomial_interval`."""


def packet_bytes(frame: int) -> int:
    """Return the bytes of the 16B packet that carries an Ethernet frame."""
    return wire_length_qw(LRH_BYTES + _L4 + frame) * QUAD_WORD


def round_trip_us(way: Sequence[LinkParameters]) -> float:
    """Return the mean time of a ping on its links, there and back, in us."""
    bits = packet_bytes(PING_FRAME) * 8
    return sum(wire.latency_s + bits / wire.rate_bps + wire.jitter_s / 2 for wire in way) * 2e6


def shortest_round_trip_us(way: Sequence[LinkParameters]) -> float:
    """Return the time that no ping can be faster than, in us: without jitter."""
    bits = packet_bytes(PING_FRAME) * 8
    return sum(wire.latency_s + bits / wire.rate_bps for wire in way) * 2e6


def tcp_limit_gbps(rate_bps: float, wire_bytes: int) -> float:
    """Return the TCP payload that a rate leaves room for.

    Args:  wire_bytes: what a full segment takes on the wire.
    """
    return rate_bps * TCP_PAYLOAD / wire_bytes / 1e9


def binomial_interval(trials: int, chance: float) -> tuple[int, int]:
    """Return the least and the greatest number of hits that chance explains.

    Fewer than the least, and more than the greatest, each happen with a probability of at most (1 - TRUST) / 2.

    Args:    chance: of each trial, above 0 and below 1.
    """
    tail = (1 - TRUST) / 2
    logs = log(chance), log1p(-chance)
    up_to, low = 0.0, 0
    for hits in range(trials + 1):
        log_ways = lgamma(trials + 1) - lgamma(hits + 1) - lgamma(trials - hits + 1)
        up_to += exp(log_ways + hits * logs[0] + (trials - hits) * logs[1])
        if up_to <= tail:
            low = hits + 1
        if up_to >= 1 - tail:
            return low, hits
    return low, trials
