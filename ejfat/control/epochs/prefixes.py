"""Cover a range of ticks with the fewest prefixes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ejfat.base.errors import ExhaustedError

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
