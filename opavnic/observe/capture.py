"""A capture: the packets that enter chosen links and fit a match, kept until somebody takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hfi_sim.counters import Drop
from hfi_sim.fabric import Fabric
from hfi_sim.faults.spec import Match
from hfi_sim.faults.targets import directions_of
from hfi_sim.link import LinkDirection
from hfi_sim.trace import TraceRecord

MAX_WAITING: Final = 8 << 20
"""Bytes of packets that nobody has taken yet; further ones are missed, the fabric does not wait for a reader."""
MAX_RECORDS: Final = 1 << 16
"""The same for their number: a record of a short packet is mostly not packet."""


class Capture:
    """Watches from the moment it is made until `stop`; links that are cabled later are not among its links."""

    def __init__(
        self,
        fabric: Fabric,
        place: str,
        match: Match,
        *,
        epoch_s: float = 0.0,
        on_packet: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin.

        Args:    place: a host, switch, port, link, one way of it, or `*`, as for faults. epoch_s: what the fabric's
                 clock lacks to the time that records shall have. on_packet: called when there is something to take.
        Raises:  FaultError: nothing is called so; the nearest name is in the message.
        """
        self.missed = 0
        """Packets that came while `MAX_WAITING` bytes, or `MAX_RECORDS` packets, were waiting."""
        self._clock = fabric.clock
        self._match = match
        self._epoch_s = epoch_s
        self._on_packet = on_packet
        self._ways = set(directions_of(fabric, place, match.direction))
        self._waiting: deque[TraceRecord] = deque()
        self._waiting_bytes = 0
        self._end = fabric.observe(self._observe, {way.link for way in self._ways})

    def _observe(self, direction: LinkDirection, packet: bytes, drop: Drop | None) -> None:
        if direction not in self._ways or not self._match.fits(packet):
            return
        if self._waiting_bytes >= MAX_WAITING or len(self._waiting) >= MAX_RECORDS:
            self.missed += 1
        else:
            self._waiting_bytes += len(packet)
            now = self._clock.time() + self._epoch_s
            self._waiting.append(TraceRecord(now, direction.name, packet, drop))
        self._on_packet()

    def take(self) -> list[TraceRecord]:
        """Return what has come since the last time, in order."""
        records = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return records

    def stop(self) -> None:
        """Watch no more; harmless when done twice."""
        self._end()
