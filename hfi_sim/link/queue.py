"""The end of a direction without credits: a packet waits for the wire in a queue that has a limit, or is dropped."""

from __future__ import annotations

from hfi_sim.counters import Drop
from hfi_sim.engine.state import Space
from hfi_sim.link.wire import Wire


class Queue:
    """Says what may wait for the wire. Packets wait on it, in fact: their times are known as they enter."""

    __slots__ = ("_wire", "limit")

    def __init__(self, wire: Wire, limit: int) -> None:
        """Make an empty queue. Args: limit: bytes that may wait; what is left of the packet being sent counts."""
        self._wire = wire
        self.limit = limit

    def refusal(self, now: int, size: int, _space: Space | None) -> Drop | None:
        """Return why a packet cannot enter now, or None. A free wire takes any."""
        wire = self._wire
        if wire.free_at <= now or wire.has_left_but(now, self.limit - size):
            return None
        return Drop.LINK_OVERFLOW
