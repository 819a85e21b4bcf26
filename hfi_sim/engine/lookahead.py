"""The minimum time from an event inside a fabric to an output, updated only for directions that changed.

A fabric of thousands of links is set up link by link: inspecting all of them after each would take quadratic time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hfi_sim.engine.link.direction import Direction


class Lookahead:
    """The minimum of `visible_from` over all link directions."""

    def __init__(self) -> None:
        self._least = 0
        """The last result of `least`."""
        self._changed: set[Direction] = set()
        self._values: dict[Direction, int] = {}
        """Of the directions that can cause an output."""
        self._counts: Counter[int] = Counter()
        """Number of directions with each value: few values, as links of a fabric are much alike."""
        self._at_once: set[Direction] = set()
        """Directions that cause outputs at once: a fault that holds packets back can release them without a
        change of settings.
        """

    def changed(self, directions: Iterable[Direction]) -> None:
        """Note directions whose value may have changed."""
        self._changed.update(directions)

    def least(self) -> int:
        """Return the least value, in nanoseconds; 0 if no direction can cause an output."""
        if self._changed:
            for direction in self._changed | self._at_once:
                self._set(direction, direction.visible_from)
            self._changed.clear()
            self._least = min(self._counts, default=0)
        return self._least

    def _set(self, direction: Direction, value: int | None) -> None:
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
