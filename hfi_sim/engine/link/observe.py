"""The layer that shows each packet of a direction to observers: as an output, or copied into capture rings."""

from __future__ import annotations

from collections import deque

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import DirectionId, Observed, Output
from hfi_sim.engine.events.state import Layer, Space
from hfi_sim.engine.link.capture import PythonRing


class Observer:
    """Shows passing packets; a packet dropped earlier is shown by the direction, which knows the reason."""

    def __init__(self, direction: DirectionId, outputs: deque[Output]) -> None:
        """Start without observers."""
        self.reports = False
        """Whether packets are reported as outputs."""
        self._taps: tuple[tuple[PythonRing, int], ...] = ()
        """Rings that get copies, with the number of this direction's interface in each."""
        self._direction = direction
        self._outputs = outputs
        self._next: Layer

    def before(self, following: Layer) -> None:
        """Set the following layer."""
        self._next = following

    @property
    def is_idle(self) -> bool:
        """Whether there are no observers."""
        return not self.reports and not self._taps

    def attach(self, ring: PythonRing, interface: int) -> None:
        """Start copying packets into a ring."""
        self._taps += ((ring, interface),)

    def detach(self, ring: PythonRing) -> None:
        """Stop copying into a ring; harmless if it is not attached."""
        self._taps = tuple(tap for tap in self._taps if tap[0] is not ring)

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None) -> None:
        """Show a packet and pass it on."""
        self.show(now, packet, None)
        self._next.enter(now, packet, hops, delay_ns, space)

    def show(self, now: int, packet: bytes, drop: Drop | None) -> None:
        """Show a packet. Args: drop: why it was dropped here, if it was."""
        if self.reports:
            self._outputs.append(Observed(now, self._direction, packet, drop))
        for ring, interface in self._taps:
            ring.push(now, interface, packet, drop)
