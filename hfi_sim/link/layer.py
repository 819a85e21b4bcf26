"""What a direction of a link is made of: layers, each of which hands a packet to the next.

admission -> faults -> observer -> queue, or lanes with credits -> wire

A direction without faults or an observer has no such layer and pays nothing for it.
"""

from __future__ import annotations

from typing import Protocol

from hfi_sim.counters import Drop
from hfi_sim.engine.state import Space


class Layer(Protocol):
    """Takes a packet that is in flight, and passes it on or ends it."""

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None, /) -> None:
        """Take a packet.

        Args:  now: in nanoseconds. hops: switches that it has visited. delay_ns: what faults add to its time on the
               wire. space: the room that it occupies in the switch it came to, on a link with credits.
        """


class Way(Protocol):
    """The direction that a layer is part of, as far as layers ask it for something."""

    def refusal(self, now: int, size: int, space: Space | None) -> Drop | None:
        """Return why a packet that is in flight finds no room, or None."""
        ...

    def take_up(self, packet: bytes) -> None:
        """Take a further packet in flight: a copy made here."""

    def end(self, now: int, packet: bytes, drop: Drop) -> None:
        """End a packet before it is on its way."""

    def compose(self) -> None:
        """Put the layers together that are needed now."""
