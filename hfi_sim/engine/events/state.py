"""State shared by the elements of the Python engine: events, outputs, buffer pool, returning credits."""

from __future__ import annotations

from collections import deque
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
