"""The layer that reports each packet of a direction to whoever observes it."""

from __future__ import annotations

from collections import deque

from hfi_sim.engine.outputs import DirectionId, Observed, Output
from hfi_sim.engine.state import Space
from hfi_sim.link.layer import Layer


class Observer:
    """Reports what passes; a packet that ends before it is reported by the direction, which knows why."""

    __slots__ = ("_direction", "_next", "_outputs")

    def __init__(self, direction: DirectionId, outputs: deque[Output], following: Layer) -> None:
        self._direction = direction
        self._outputs = outputs
        self._next = following.enter

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None) -> None:
        """Report a packet and pass it on."""
        self._outputs.append(Observed(now, self._direction, packet, None))
        self._next(now, packet, hops, delay_ns, space)
