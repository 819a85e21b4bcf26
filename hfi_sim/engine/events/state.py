"""State shared by the elements of the Python engine: events, outputs, buffer pool, returning credits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hfi_sim.engine.events.outputs import Output
from hfi_sim.engine.events.queue import EventQueue

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

    __slots__ = ("events", "outputs", "pool", "returns", "stopped", "switches")

    def __init__(self) -> None:
        self.events = EventQueue()
        self.outputs: deque[Output] = deque()
        self.pool = POOL_BYTES
        """Bytes that links may still hold."""
        self.returns: deque[Callable[[int], None]] = deque()
        """Credits returned during an event. Passing them on at once would recurse along the whole path."""
        self.stopped = 0
        """HFI ports that their link has stopped for lack of credits: any credit may cause an output there."""
        self.switches = 0
        """Number of switches, also those that are off; a packet that has visited more is in a loop."""

    def settle(self, now: int) -> None:
        """Pass on the returned credits in order, and those that return as a result."""
        returns = self.returns
        while returns:
            returns.popleft()(now)
