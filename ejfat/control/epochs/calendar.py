"""From weights to a calendar: which of the 512 slots each member gets; and ranges of ticks as the fewest prefixes.

Source: the rules of the public control plane (min and max factor, mean weight 1000).
Differs: shares are rounded so that every slot is assigned exactly once, and the slots of a member are spread evenly
    instead of shuffled, unless the load balancer is behind another one; `test_calendar_*` pin both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

from ejfat.base.errors import ExhaustedError
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
    weights = {member: Fraction(max(claim.weight, 0.0)) for member, claim in claims.items()}
    if not any(weights.values()):
        weights = dict.fromkeys(claims, Fraction(1))
    return _round(_water_fill(weights, bounds, slots), bounds, slots)


def _feasible(bounds: dict[int, tuple[int, int]], slots: int) -> dict[int, tuple[int, int]]:
    if sum(low for low, _ in bounds.values()) > slots:
        bounds = {member: (0, high) for member, (_, high) in bounds.items()}
    if sum(high for _, high in bounds.values()) < slots:
        bounds = {member: (low, slots) for member, (low, _) in bounds.items()}
    return bounds


def _water_fill(
    weights: Mapping[int, Fraction], bounds: Mapping[int, tuple[int, int]], slots: int
) -> dict[int, Fraction]:
    """Scale the weights by the factor that makes the shares, within their bounds, add up to `slots`.

    As the factor grows, a share leaves its minimum at one factor, grows with its weight, and reaches its maximum at
    another. If all that have a weight reach their maximum first, slots are left.
    """
    turns = [
        turn
        for member, weight in weights.items()
        if weight
        for turn in ((bounds[member][0] / weight, weight, -bounds[member][0]),
                     (bounds[member][1] / weight, -weight, bounds[member][1]))
    ]  # fmt: skip
    fixed, slope, factor = sum(low for low, _ in bounds.values()), Fraction(0), Fraction(0)
    for at, weight, bound in sorted(turns):
        factor = at
        if fixed + slope * at >= slots:
            factor = (slots - fixed) / slope if slope else at
            break
        slope += weight
        fixed += bound
    return {
        m: min(max(w * factor, Fraction(bounds[m][0])), Fraction(bounds[m][1])) for m, w in weights.items()
    }


def _round(
    shares: Mapping[int, Fraction], bounds: Mapping[int, tuple[int, int]], slots: int
) -> dict[int, int]:
    """Round down, then assign the remaining slots by largest remainder (ties: lower member number first)."""
    counts = {member: int(share) for member, share in shares.items()}
    order = sorted(shares, key=lambda member: (counts[member] - shares[member], member))
    while (left := slots - sum(counts.values())) > 0:
        for member in [m for m in order if counts[m] < bounds[m][1]][:left]:
            counts[member] += 1
    return counts


def spread(counts: Mapping[int, int]) -> tuple[int, ...]:
    """Return the member of each slot, with the slots of each member spread as evenly as possible.

    Args:    counts: number of slots of each member; their sum is the length of the calendar.
    """
    wishes = sorted(
        ((2 * turn + 1) / count, member) for member, count in counts.items() for turn in range(count)
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


TICK_BITS = 64
TICKS = 1 << TICK_BITS
"""One past the largest tick."""
WORST_CASE = 2 * TICK_BITS - 2
"""Maximum number of prefixes that any range needs."""


class Prefix(NamedTuple):
    """The ticks whose first `length` bits equal those of `value`."""

    value: int
    length: int

    @property
    def size(self) -> int:
        """Number of ticks in the prefix."""
        return 1 << (TICK_BITS - self.length)


EVERYTHING = Prefix(0, 0)


def cover(start: int, end: int, limit: int = WORST_CASE) -> tuple[Prefix, ...]:
    """Return the fewest prefixes that cover the ticks from `start` up to, not including, `end`, in order.

    Args:    start, end: 0 <= start <= end <= 2**64; an empty range needs no prefix. limit: room in the table.
    Raises:  ValueError: an invalid range. ExhaustedError: the cover needs more prefixes than `limit`.
    """
    if not 0 <= start <= end <= TICKS:
        raise ValueError(f"ticks {start:#x} to {end:#x} are not a range of {TICK_BITS}-bit ticks")
    prefixes: list[Prefix] = []
    while start < end:
        # the largest block that begins here: aligned, and not beyond the end
        alignment = (start & -start).bit_length() - 1 if start else TICK_BITS
        bits = min(alignment, (end - start).bit_length() - 1)
        prefixes.append(Prefix(start, TICK_BITS - bits))
        start += 1 << bits
    if len(prefixes) > limit:
        raise ExhaustedError(
            f"the range needs {len(prefixes)} prefixes; the epoch table has room for {limit}"
        )
    return tuple(prefixes)


def covered(prefixes: Iterable[Prefix], tick: int) -> bool:
    """Return whether one of the prefixes contains `tick`."""
    return any(tick >> (TICK_BITS - p.length) == p.value >> (TICK_BITS - p.length) for p in prefixes)
