"""From weights to a calendar: which of the 512 slots each member gets.

Source: the rules of the public control plane (min and max factor, mean weight 1000).
Differs: shares are rounded so that every slot is assigned exactly once, and the slots of a member are spread evenly
    instead of shuffled, unless the load balancer is behind another one; `test_calendar_*` pin both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ejfat.tables.schema import SLOTS


@dataclass(frozen=True, slots=True)
class Claim:
    """The share that a member claims."""

    weight: float
    min_factor: float = 0.0
    """Minimum number of slots, as a multiple of an even share."""
    max_factor: float = 0.0
    """Maximum, likewise; 0: no limit."""


def apportion(claims: Mapping[int, Claim], slots: int = SLOTS) -> dict[int, int]:
    """Return the number of slots of each member: proportional to the weights, within the bounds, `slots` in total.

    If no division satisfies the bounds, they are relaxed, because every slot must have a member. Members with weight 0
    get their minimum; if all weights are 0, the division is even.
    """
    if not claims:
        return {}
    even = slots // len(claims)
    bounds = {}
    for member, claim in claims.items():
        low = min(round(even * claim.min_factor), slots)
        high = round(even * claim.max_factor) if claim.max_factor else slots
        bounds[member] = (low, max(low, min(high, slots)))
    bounds = _feasible(bounds, slots)
    total = sum(max(claim.weight, 0.0) for claim in claims.values())
    weights = {m: max(c.weight, 0.0) / total if total else 1 / len(claims) for m, c in claims.items()}
    return _round(_water_fill(weights, bounds, slots), bounds, slots)


def _feasible(bounds: dict[int, tuple[int, int]], slots: int) -> dict[int, tuple[int, int]]:
    if sum(low for low, _ in bounds.values()) > slots:
        bounds = {member: (0, high) for member, (_, high) in bounds.items()}
    if sum(high for _, high in bounds.values()) < slots:
        bounds = {member: (low, slots) for member, (low, _) in bounds.items()}
    return bounds


def _water_fill(
    weights: Mapping[int, float], bounds: Mapping[int, tuple[int, int]], slots: int
) -> dict[int, float]:
    """Scale the weights by the factor that makes the clamped shares add up to `slots` (found by bisection)."""

    def clamped(factor: float) -> dict[int, float]:
        return {m: min(max(w * factor, bounds[m][0]), bounds[m][1]) for m, w in weights.items()}

    low, high = 0.0, float(slots)
    while sum(clamped(high).values()) < slots and high < 1e12:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if sum(clamped(middle).values()) < slots:
            low = middle
        else:
            high = middle
    return clamped(high)


def _round(shares: Mapping[int, float], bounds: Mapping[int, tuple[int, int]], slots: int) -> dict[int, int]:
    """Round down, then assign the remaining slots by largest remainder (ties: lower member number first)."""
    counts = {member: min(int(share + 1e-9), bounds[member][1]) for member, share in shares.items()}
    order = sorted(shares, key=lambda member: (-(shares[member] - counts[member]), member))
    while (left := slots - sum(counts.values())) > 0:
        open_members = [m for m in order if counts[m] < bounds[m][1]] or order
        for member in open_members[:left]:
            counts[member] += 1
    return counts


def spread(counts: Mapping[int, int]) -> tuple[int, ...]:
    """Return the member of each slot, with the slots of each member spread as evenly as possible.

    Args:    counts: number of slots of each member; their sum is the length of the calendar.
    """
    total = sum(counts.values())
    wishes = sorted(
        ((2 * turn + 1) * total / (2 * count), member)
        for member, count in counts.items()
        for turn in range(count)
    )
    return tuple(member for _, member in wishes)


def scatter(calendar: Sequence[int], seed: str) -> tuple[int, ...]:
    """Return the calendar with its slots in an order that `seed` gives; "" leaves it as it is.

    An event has the same slot in each load balancer of a chain. If all of them spread slots alike, those that one sends
    to another would all be of one of its members.
    """
    if not seed:
        return tuple(calendar)
    order = sorted(range(len(calendar)), key=lambda slot: sha256(f"{seed} {slot}".encode()).digest())
    return tuple(calendar[slot] for slot in order)


def shares(calendar: Sequence[int]) -> dict[int, int]:
    """Return the number of slots of each member."""
    counts: dict[int, int] = {}
    for member in calendar:
        counts[member] = counts.get(member, 0) + 1
    return counts
