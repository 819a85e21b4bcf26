"""The events of an engine in one order: by time, then as they were scheduled; and the state that its elements share."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hfi_sim.engine.events.outputs import Output

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


POOL_BYTES: Final = 256 << 20
"""Bytes of packets that one engine holds on its links; a further packet is a link_overflow.

Queues have their own limits, but a wire of 100 Gbit/s with a latency of one hour would hold 45 TB.
"""


class Space(Protocol):
    """Room in the receive buffer of a port, which a packet occupies until the last holder has released it."""

    def keep(self) -> None:
        """Keep it for one more holder."""

    def release(self) -> None:
        """Release it for one holder; packets waiting for the room go on after the current event."""


class EngineState:
    """Made once for an engine and shared by every element."""

    def __init__(self) -> None:
        self.events = EventQueue()
        self.outputs: deque[Output] = deque()
        self.pool = POOL_BYTES
        """Bytes that links may still hold."""
        self.stopped = 0
        """HFI ports that their link has stopped for lack of credits: any credit may cause an output there."""
        self.switches = 0
        """Number of switches, also those that are off; a packet that has visited more is in a loop."""


class Layer(Protocol):
    """Takes a packet that is in flight, and passes it on or drops it."""

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None, /) -> None:
        """Take a packet.

        Args:  now: in nanoseconds. hops: switches that it has visited. delay_ns: extra time on the wire from faults.
               space: the room that it occupies in the switch it came to, on a link with credits.
        """
