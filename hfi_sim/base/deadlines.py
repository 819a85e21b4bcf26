"""Which of many things is due next, without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """The deadlines of many things, each of which knows its own. All steps take logarithmic time.

    A deadline that moves to later is noticed when the earlier one is looked at. One that moves to sooner, or that is
    new, has to be told with `touch`.
    """

    def __init__(self, of: Callable[[K], float | None]) -> None:
        """Make it empty. `of` returns the deadline of a thing now; None if it has none or no longer exists."""
        self._of = of
        self._heap: list[tuple[float, int, K]] = []
        self._armed: dict[K, tuple[float, int]] = {}
        self._entries = 0

    def touch(self, key: K) -> None:
        """Look at a thing again; needed if its deadline may have become sooner."""
        due = self._of(key)
        if due is None:
            return
        armed = self._armed.get(key)
        if armed is None or due < armed[0]:
            self._arm(key, due)

    def next(self) -> float | None:
        """Return when the next thing is due, or None."""
        while self._heap:
            at, entry, key = self._heap[0]
            if self._armed.get(key) != (at, entry):
                heapq.heappop(self._heap)
                continue
            due = self._of(key)
            if due is not None and due <= at:
                return at
            heapq.heappop(self._heap)
            del self._armed[key]
            if due is not None:
                self._arm(key, due)
        return None

    def take_due(self, now: float) -> list[K]:
        """Return what is due, soonest first. Each has to be touched again once it has been handled."""
        due: list[K] = []
        while (at := self.next()) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._armed[key]
            due.append(key)
        return due

    def _arm(self, key: K, due: float) -> None:
        self._entries += 1
        self._armed[key] = (due, self._entries)
        heapq.heappush(self._heap, (due, self._entries, key))
