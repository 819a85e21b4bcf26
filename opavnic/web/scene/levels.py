"""How much flows, on a logarithmic scale of absolute rates, for the drawing of a fabric and its legend. Pure.

A scale of shares of a link's rate would show a link of 100G that carries 2.4 Gbit/s as idle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Level:
    """Rates that are drawn alike."""

    below_bps: float
    """The rates are below this, and not below that of the level before."""
    text: str
    colour: str
    width: float
    """Pixels."""


LEVELS: Final = (
    Level(1e3, "idle", "#8a97a5", 1.5),
    Level(1e6, "below 1M", "#5f93bb", 2.0),
    Level(1e7, "1M to 10M", "#3f8fca", 2.5),
    Level(1e8, "10M to 100M", "#1f6fb2", 3.5),
    Level(1e9, "100M to 1G", "#b8860b", 4.5),
    Level(1e10, "1G to 10G", "#d9650f", 6.0),
    Level(math.inf, "10G and more", "#c03a00", 8.0),
)
"""Bits a second. Colours go from blue to orange, which those who see no red or no green tell apart; each is wider than
the one before."""
IDLE: Final = LEVELS[0]


def level_of(bps: float) -> Level:
    """Return the level of a rate in bits a second."""
    return next(level for level in LEVELS if bps < level.below_bps)


def about(bps: float) -> str:
    """Return a rate to the nearest of 1, 2 and 5 with its unit: `2G` for 2.4 Gbit/s; empty where nothing flows.

    A drawing is sent and drawn anew, whole, when it changes, and no flow is quite as fast as it was a second before.
    """
    if bps < IDLE.below_bps:
        return ""
    power = math.floor(math.log10(bps))
    mantissa = bps / 10**power
    step = next(
        step
        for step, until in ((1, math.sqrt(2)), (2, math.sqrt(10)), (5, math.sqrt(50)), (10, 10.0))
        if mantissa <= until
    )
    value = step * 10**power
    factor, unit = next(
        (factor, unit)
        for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
        if value >= factor
    )
    return f"{value / factor:.0f}{unit}"
