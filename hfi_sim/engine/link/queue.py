"""The queue of a direction without credits: a packet waits for the wire, or is dropped beyond a limit."""

from __future__ import annotations

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.state import Space
from hfi_sim.engine.link.wire import Wire


class Queue:
    """Limits what may wait for the wire. Waiting packets are kept by the wire, as their times are known on entry."""

    def __init__(self, wire: Wire, limit: int) -> None:
        """Make an empty queue. Args: limit: bytes that may wait, including the rest of the packet being sent."""
        self._wire = wire
        self.limit = limit

    def refusal(self, now: int, size: int, _space: Space | None) -> Drop | None:
        """Return why a packet cannot enter now, or None. An idle wire accepts any packet."""
        if self._wire.free_at <= now or self._wire.has_left_but(now, self.limit - size):
            return None
        return Drop.LINK_OVERFLOW
