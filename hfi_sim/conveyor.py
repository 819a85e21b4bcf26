"""Moves packets from one element to the next without recursion, immediately or at their time of arrival.

A call chain port -> link -> switch -> link -> port -> agent -> port -> ... would grow without bound, because an
answer is sent while its request is being received. So elements put packets on a conveyor; the caller that finds it
idle runs it until it is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from hfi_sim.clock import Clock

Receiver = Callable[[bytes, int], None]
"""Takes a packet and its hops (`hfi_sim.forwarding`)."""


class Hold(Protocol):
    """Buffer space that a packet occupies until every holder has released it."""

    def keep(self) -> None:
        """Keep the space for one more holder."""

    def release(self) -> None:
        """Release the space for one holder."""


class Conveyor:
    """Hands packets to their receivers in the order in which they were put on."""

    def __init__(self, clock: Clock, timer_resolution_s: float) -> None:
        self.clock = clock
        self.timer_resolution_s = timer_resolution_s
        """Arrivals sooner than this, in seconds, are immediate: a real event loop cannot wait that briefly."""
        self.arriving: Hold | None = None
        """Buffer space of the packet being received, on a link with credits."""
        self._ready: deque[tuple[Receiver, bytes, int]] = deque()
        self._running = False

    def put(self, receiver: Receiver, packet: bytes, hops: int) -> None:
        """Deliver `packet` to `receiver` after everything already on the conveyor."""
        self._ready.append((receiver, packet, hops))
        if not self._running:
            self._run()

    def _run(self) -> None:
        ready = self._ready
        self._running = True
        try:
            while ready:
                receiver, packet, hops = ready.popleft()
                receiver(packet, hops)
        finally:
            self._running = False
