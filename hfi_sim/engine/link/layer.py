"""The layers of a link direction, each of which passes a packet to the next:

admission -> faults -> observer -> queue, or lanes with credits -> wire

A direction without faults or an observer omits those layers and pays nothing for them.
"""

from __future__ import annotations

from typing import Protocol

from hfi_sim.engine.events.state import Space


class Layer(Protocol):
    """Takes a packet that is in flight, and passes it on or drops it."""

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None, /) -> None:
        """Take a packet.

        Args:  now: in nanoseconds. hops: switches that it has visited. delay_ns: extra time on the wire from faults.
               space: the room that it occupies in the switch it came to, on a link with credits.
        """
