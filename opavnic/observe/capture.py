"""A capture: the packets that enter chosen links and fit a match, kept until they are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hfi_sim.fabric import Fabric, Sighting
from hfi_sim.faults.targets import directions_of
from hfi_sim.link.rule import Match
from hfi_sim.trace import TraceRecord

MAX_WAITING: Final = 8 << 20
"""Bytes of packets waiting to be taken. Packets beyond this are missed: the fabric does not wait for a reader."""
MAX_RECORDS: Final = 1 << 16
"""Number of packets waiting to be taken; it bounds the memory for short packets, whose records are mostly overhead."""


class Capture:
    """Records packets from its creation until `stop`. Links that are cabled later are not included."""

    def __init__(
        self,
        fabric: Fabric,
        place: str,
        match: Match,
        *,
        epoch_s: float = 0.0,
        on_packet: Callable[[], None] = lambda: None,
    ) -> None:
        """Start recording.

        Args:    place: a host, switch, port, link, one direction of a link, or `*`, as for faults. epoch_s: added to
                 the fabric's clock to get the time of a record. on_packet: called when there is something to take.
        Raises:  FaultError: no place has that name; the message suggests the nearest one.
        """
        self.missed = 0
        """Packets that arrived while `MAX_WAITING` bytes or `MAX_RECORDS` packets were waiting."""
        self._match = match
        self._epoch_s = epoch_s
        self._on_packet = on_packet
        self._waiting: deque[TraceRecord] = deque()
        self._waiting_bytes = 0
        self._end = fabric.observe(self._observe, directions_of(fabric, place, match.direction))

    def _observe(self, seen: Sighting) -> None:
        if not self._match.fits(seen.packet):
            return
        if self._waiting_bytes >= MAX_WAITING or len(self._waiting) >= MAX_RECORDS:
            self.missed += 1
        else:
            self._waiting_bytes += len(seen.packet)
            when = seen.time_s + self._epoch_s
            self._waiting.append(TraceRecord(when, seen.direction.name, seen.packet, seen.drop))
        self._on_packet()

    def take(self) -> list[TraceRecord]:
        """Return the packets recorded since the last call, in order."""
        records = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return records

    def stop(self) -> None:
        """Stop recording. May be called twice."""
        self._end()
