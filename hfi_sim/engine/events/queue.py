"""The events of an engine in one order: by time, and at the same instant in the order in which they were scheduled."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

Handler = Callable[[int, int], None]
"""Takes the time at which the event was due, in nanoseconds, and its sequence number."""
Event = tuple[int, int, Handler]
"""The time in nanoseconds, the sequence number, the handler."""


class EventQueue:
    """A heap of events.

    A cancelled event stays in the heap until it comes to the top, or until most of the heap is cancelled: a link
    that flaps, or packets that overtake one held back for an hour, must not fill the memory.
    """

    def __init__(self) -> None:
        self._heap: list[Event] = []
        self._cancelled: set[int] = set()
        self._outward: list[Event] = []
        """A heap of the events that cause an output at once; may contain past ones."""
        self._last_number = 0
        self._afterwards: deque[Callable[[int], None]] = deque()

    def number(self) -> int:
        """Return the next sequence number, for an event that is pushed later or never."""
        self._last_number += 1
        return self._last_number

    def push(self, when: int, number: int, handler: Handler, outward: bool = False) -> None:
        """Schedule an event under a sequence number obtained from `number`.

        Args:  outward: it causes an output at once.
        """
        event = (when, number, handler)
        heapq.heappush(self._heap, event)
        if outward:
            heapq.heappush(self._outward, event)

    def make_outward(self, when: int, number: int, handler: Handler) -> None:
        """Note that a queued event causes an output at once."""
        heapq.heappush(self._outward, (when, number, handler))

    def schedule(self, when: int, handler: Handler) -> int:
        """Schedule an event and return its sequence number."""
        number = self.number()
        self.push(when, number, handler)
        return number

    def cancel(self, number: int) -> None:
        """Cancel a queued event."""
        self._cancelled.add(number)
        if len(self._cancelled) * 2 > len(self._heap):
            self._heap = self._without_cancelled(self._heap)
            self._outward = self._without_cancelled(self._outward)
            self._cancelled.clear()

    def _without_cancelled(self, heap: list[Event]) -> list[Event]:
        kept = [event for event in heap if event[1] not in self._cancelled]
        heapq.heapify(kept)
        return kept

    def run(self, until: int) -> None:
        """Handle everything that is due by `until`, including what becomes due by then as a result."""
        while self._heap and self._heap[0][0] <= until:
            when, number, handler = heapq.heappop(self._heap)
            if number in self._cancelled:
                self._cancelled.discard(number)
            else:
                handler(when, number)
                if self._afterwards:
                    self.settle(when)
        if not self._heap:
            self._outward.clear()

    def afterwards(self, callback: Callable[[int], None]) -> None:
        """Call back, with the time, when what happens now is over: see `settle`."""
        self._afterwards.append(callback)

    def settle(self, now: int) -> None:
        """Make the calls that were put off, in order, and those that are put off meanwhile."""
        while self._afterwards:
            self._afterwards.popleft()(now)

    def earliest(self, lookahead: int) -> int | None:
        """Return the earliest time at which there may be an output; None: nothing is scheduled.

        Args:  lookahead: the least time in nanoseconds after which an event without an immediate output may cause
               one.
        """
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._heap)[1])
        if not self._heap:
            self._outward.clear()
            return None
        first = self._heap[0]
        wake = first[0] + lookahead
        while self._outward:
            if self._outward[0] >= first and self._outward[0][1] not in self._cancelled:
                return min(self._outward[0][0], wake)
            heapq.heappop(self._outward)  # a past one
        return wake

    def __len__(self) -> int:
        """Return how many entries take up memory."""
        return len(self._heap) + len(self._outward)
