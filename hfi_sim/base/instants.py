"""Engine time: whole nanoseconds, so that sums are exact and two engines agree on every instant.

64 bits of nanoseconds reach 584 years; a queue of 16 MiB on a link of 1 bit/s, the slowest accepted, takes 4 of them.
What a packet takes on a fast wire is no whole number of nanoseconds: 64 bytes at 100 Gbit/s take 5.12. A wire therefore
keeps the remainder (`hfi_sim.engine.link.wire`) and rounds up only when it announces an arrival, so nothing is ever
early and rates hold in the long run.
"""

from __future__ import annotations

from typing import Final

NS_PER_S: Final = 1_000_000_000
FOREVER: Final = (1 << 63) - 1
"""Later than anything that is scheduled."""


def to_ns(seconds: float) -> int:
    """Return a time or a delay in whole nanoseconds, rounded to the nearest, at most `FOREVER`."""
    ns = seconds * NS_PER_S
    return round(ns) if ns < FOREVER else FOREVER


def to_seconds(ns: int) -> float:
    """Return nanoseconds as a clock counts them, in seconds."""
    return ns / NS_PER_S
