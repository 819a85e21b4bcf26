"""Deadlines by key: each key has at most one, and a new one replaces it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """A heap that forgets lazily: `next` skips what has been replaced or cancelled."""

    def __init__(self) -> None:
        self._deadlines: dict[Key, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Key, when: float) -> None:
        """Give a key its deadline, in seconds."""
        entry = (when, next(self._order))
        self._deadlines[key] = entry
        heapq.heappush(self._heap, (*entry, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._deadlines):
            self._heap = [(*entry, key) for key, entry in self._deadlines.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """Remove the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)

    def next(self) -> float | None:
        """Return the earliest deadline, or None."""
        while self._heap:
            when, order, key = self._heap[0]
            if self._deadlines.get(key) == (when, order):
                return when
            heapq.heappop(self._heap)
        return None

    def due(self, now: float) -> Iterator[Key]:
        """Yield the keys whose deadline has come, in order; they have none any more."""
        while (when := self.next()) is not None and when <= now:
            key = heapq.heappop(self._heap)[2]
            del self._deadlines[key]
            yield key
