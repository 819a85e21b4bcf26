"""Which of many things is due next, without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_FEW: Final = 64
"""Entries of a heap that are not worth sorting out."""


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
            due.append(self._take_first())
        return due

    def _take_first(self) -> K:
        _, _, key = heapq.heappop(self._heap)
        del self._armed[key]
        return key

    def _arm(self, key: K, due: float) -> None:
        self._entries += 1
        self._armed[key] = (due, self._entries)
        heapq.heappush(self._heap, (due, self._entries, key))


class Timers(Deadlines[K]):
    """Deadlines by key that are told: each key has at most one, and a new one replaces it."""

    def __init__(self) -> None:
        """Make it empty."""
        self._times: dict[K, float] = {}
        super().__init__(self._times.get)

    def __len__(self) -> int:
        return len(self._times)

    def set(self, key: K, when: float) -> None:
        """Give a key its deadline, in seconds."""
        self._times[key] = when
        self.touch(key)
        if len(self._heap) > _FEW and len(self._heap) > 4 * len(self._armed):
            self._heap = [(*entry, key) for key, entry in self._armed.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Remove the deadline of a key, if it has one."""
        self._times.pop(key, None)
        self._armed.pop(key, None)

    def due(self, now: float) -> Iterator[K]:
        """Yield the keys whose deadline has come, in order; they have none any more."""
        while (at := self.next()) is not None and at <= now:
            key = self._take_first()
            del self._times[key]
            yield key
