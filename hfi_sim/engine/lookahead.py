"""How long after anything inside a fabric an output may follow, kept up to date by the directions that changed.

A fabric of thousands of links is laid and configured link by link: to look at all of them after each would take time
with the square of their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol


class Shows(Protocol):
    """What a link direction tells."""

    @property
    def shows_after(self) -> int | None:
        """See Direction.shows_after."""


class Lookahead:
    """The least `shows_after` of all link directions."""

    def __init__(self) -> None:
        self.is_old = False
        """Whether a direction has changed since `least`."""
        self._changed: set[Shows] = set()
        self._values: dict[Shows, int] = {}
        """Of the directions that may show anything."""
        self._counts: Counter[int] = Counter()
        """How many have each value: there are few, as links of a fabric are much alike."""
        self._at_once: set[Shows] = set()
        """Those that show at once: what holds packets back goes on without a change of its settings."""

    def changed(self, directions: Iterable[Shows]) -> None:
        """Note directions whose value may be another."""
        self._changed.update(directions)
        self.is_old = True

    def least(self) -> int:
        """Return the least value, in nanoseconds; 0 if nothing ever shows."""
        for direction in self._changed | self._at_once:
            self._set(direction, direction.shows_after)
        self._changed.clear()
        self.is_old = False
        return min(self._counts, default=0)

    def _set(self, direction: Shows, value: int | None) -> None:
        old = self._values.pop(direction, None)
        if old is not None:
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        self._at_once.discard(direction)
        if value is not None:
            self._values[direction] = value
            self._counts[value] += 1
            if value == 0:
                self._at_once.add(direction)
