"""Search for the highest rate at which nothing is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import sqrt

TRIALS = 8
"""Most rates that are tried."""
NEAR = 1.05
"""The search ends when the lowest rate with losses is within this factor of the highest one without."""


async def highest_calm_rate(
    trial: Callable[[float], Awaitable[float | None]], first: float, ceiling: float
) -> float:
    """Return the highest rate found at which nothing was lost, by bisection on a logarithmic scale.

    Both directions are open: who is overloaded may deliver less than it could take, or more than it takes without loss.

    Args:    trial: offers a rate; returns the rate that was really offered if nothing was lost, None if something was.
        first: the rate to begin with. ceiling: a rate that is known to be too much.
    Returns: packets per second; 0 if every rate that was tried lost something.
    """
    calm, lossy, rate = 0.0, ceiling, min(first, ceiling)
    for _ in range(TRIALS):
        offered = await trial(rate)
        if offered is None:
            lossy = rate
        elif offered <= calm:  # the sender cannot offer more
            break
        else:
            calm = offered
        if calm and lossy <= calm * NEAR:
            break
        rate = sqrt(calm * lossy) if calm else lossy / 2
    return calm
