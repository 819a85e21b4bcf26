"""The events of an engine in one order: by time, and at the same instant in the order in which they were scheduled."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

_push: Final = heapq.heappush

Handler = Callable[[int, int], None]
"""Takes the time at which the event was due, in nanoseconds, and its sequence number."""


class EventQueue:
    """A heap of (time in ns, sequence number, handler).

    A cancelled event stays in the heap until it comes to the top, or until most of the heap is cancelled: a link
    that flaps, or packets that overtake one held back for an hour, must not fill the memory.
    """

    __slots__ = ("_cancelled", "_outward", "changed", "heap", "number")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Handler]] = []
        """The events; only the first may be inspected from outside."""
        self._cancelled: set[int] = set()
        self._outward: list[tuple[int, int, Handler]] = []
        """A heap of the events that cause an output at once; may contain past ones."""
        self.changed = True
        """Whether the result of `earliest` may have changed since the last call."""
        self.number = count(1).__next__
        """Returns the next sequence number, for an event that is pushed later or never."""

    def push(self, when: int, number: int, handler: Handler, outward: bool = False) -> None:
        """Schedule an event under a sequence number obtained from `number`.

        Args:  outward: it causes an output at once.
        """
        self.changed = True
        event = (when, number, handler)
        _push(self.heap, event)
        if outward:
            _push(self._outward, event)

    def make_outward(self, when: int, number: int, handler: Handler) -> None:
        """Note that a queued event causes an output at once."""
        self.changed = True
        _push(self._outward, (when, number, handler))

    def schedule(self, when: int, handler: Handler) -> int:
        """Schedule an event and return its sequence number."""
        self.changed = True
        number = self.number()
        _push(self.heap, (when, number, handler))
        return number

    def cancel(self, number: int) -> None:
        """Cancel a queued event."""
        self.changed = True
        self._cancelled.add(number)
        if len(self._cancelled) * 2 > len(self.heap):
            self.heap[:] = [event for event in self.heap if event[1] not in self._cancelled]
            heapq.heapify(self.heap)
            self._outward = [event for event in self._outward if event[1] not in self._cancelled]
            heapq.heapify(self._outward)
            self._cancelled.clear()

    def run(self, until: int, returns: deque[Callable[[int], None]]) -> None:
        """Run everything that is due by `until`, including what becomes due by then as a result.

        Args:  returns: to be called with the time after each event; see `EngineState.settle`.
        """
        heap = self.heap
        if not heap:
            return
        cancelled = self._cancelled
        pop = heapq.heappop
        self.changed = True
        while heap and heap[0][0] <= until:
            when, number, handler = pop(heap)
            if cancelled and number in cancelled:
                cancelled.discard(number)
                continue
            handler(when, number)
            while returns:
                returns.popleft()(when)
        if not heap:
            self._outward.clear()

    def earliest(self, lookahead: int) -> int | None:
        """Return the earliest time at which there may be an output; None: nothing is scheduled.

        Args:  lookahead: the least time in nanoseconds after which an event without an immediate output may cause
               one.
        """
        self.changed = False
        heap = self.heap
        cancelled = self._cancelled
        while cancelled and heap and heap[0][1] in cancelled:
            cancelled.discard(heapq.heappop(heap)[1])
        if not heap:
            self._outward.clear()
            return None
        when, number, _ = heap[0]
        wake = when + lookahead
        outward = self._outward
        while outward:
            soonest, its_number, _ = outward[0]
            is_old = soonest < when or (soonest == when and its_number < number)
            if not is_old and its_number not in cancelled:
                return soonest if soonest < wake else wake
            heapq.heappop(outward)
        return wake

    def __len__(self) -> int:
        """Return how many entries take up memory."""
        return len(self.heap) + len(self._outward)
