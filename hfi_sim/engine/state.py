"""What the elements of the Python engine share: the events, the outputs, the buffers, and the credits on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hfi_sim.engine.events import EventQueue
from hfi_sim.engine.outputs import Output

POOL_BYTES: Final = 256 << 20
"""Bytes of packets that one engine holds on its links; a further packet is a link_overflow.

Queues have limits of their own, but a wire of 100 Gbit/s that is an hour long would hold 45 TB.
"""


class Space(Protocol):
    """Room in the receive buffer of a port, which a packet occupies until the last holder has released it."""

    def keep(self) -> None:
        """Keep it for one more holder."""

    def release(self) -> None:
        """Release it for one holder; what waits for the room goes on when the current event is over."""


class EngineState:
    """Made once for an engine; every element has it."""

    __slots__ = ("events", "outputs", "pool", "returns", "stopped", "switches")

    def __init__(self) -> None:
        self.events = EventQueue()
        self.outputs: deque[Output] = deque()
        self.pool = POOL_BYTES
        """Bytes that links may still take."""
        self.returns: deque[Callable[[int], None]] = deque()
        """Credits that have come back during an event. Passing them on at once would recurse along the whole path."""
        self.stopped = 0
        """HFI ports that their link has stopped for lack of credits: any credit may bring about an output there."""
        self.switches = 0
        """How many there are, also those that are off; a packet that has seen more is in a loop."""

    def settle(self, now: int) -> None:
        """Pass on the credits that have come back, in their order, and those that come back through it."""
        returns = self.returns
        while returns:
            returns.popleft()(now)
