"""A capture: copies of the packets that enter chosen links and fit a match, as a pcapng file in pieces.

The engine copies them into a ring; nothing here is called for a single packet. The file has an interface for each
direction of a link, with link type USER0 (147), and behind those another one of the same name for its 9B packets, with
link type ERF (197), as Wireshark reads them.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.base.errors import FaultError
from hfi_sim.engine.config import BoundaryEnd
from hfi_sim.engine.link.capture import MAX_SNAP, SEGMENT_BYTES, CaptureConfig
from hfi_sim.engine.link.rule import Match
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.targets import directions_of
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.captures import DLT_ERF, NS_PER_S, PcapngWriter, interface, interface_statistics

DEFAULT_BUFFER: Final = 32 << 20
MIN_BUFFER: Final = 2 * SEGMENT_BYTES
MAX_BUFFER: Final = 64 << 20
"""Bytes that may wait to be taken. Packets beyond this are missed: the fabric does not wait for a reader."""
RING_LOOK_S: Final = 0.02
"""Seconds between two looks into a ring that is not full. A call for each packet would slow the fabric down."""


class Capture:
    """Copies packets from its creation until `stop`. Links that are cabled later are not included."""

    def __init__(
        self,
        fabric: Fabric,
        place: str,
        match: Match,
        *,
        epoch_s: float = 0.0,
        snap: int = MAX_SNAP,
        limit: int | None = None,
        once: bool = False,
        buffer_bytes: int = DEFAULT_BUFFER,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Start copying.

        Args:    place: a host, switch, port, link, one direction of a link, or `*`, as for faults. epoch_s: added to
                 the fabric's clock to get the time of a packet. snap: bytes that are kept of a packet at most. limit:
                 packets to keep before it is complete; None: it never is. once: capture packets only where they enter
                 the fabric, on the links from HFI ports, so that none is captured twice on its way. buffer_bytes: what
                 may wait to be taken, at least two segments, each of `segment_bytes`.
        Raises:  FaultError: no place has that name, and the message suggests the nearest one; with `once`, no packet
                 enters the fabric there.
        """
        ways = [way for way in ways_of(fabric, place, match, once=once) if begins_here(way)]
        if not ways:
            raise FaultError(
                f'no packet enters a link on "{place}" here: other machines carry what leads there'
            )
        self._fabric = fabric
        self._epoch_ns = max(0, round(epoch_s * NS_PER_S))
        config = CaptureConfig(
            len(ways),
            match=match,
            snap=snap,
            limit=limit,
            epoch_ns=self._epoch_ns,
            segments=buffer_bytes // segment_bytes,
            segment_bytes=segment_bytes,
        )
        writer = PcapngWriter()
        shown_snap = 0 if snap == MAX_SNAP else snap
        of_9b = (interface(way.name, DLT_ERF, shown_snap) for way in ways)
        of_16b = (writer.interface(way.name, shown_snap) for way in ways)
        self.head = writer.head() + b"".join((*of_16b, *of_9b))
        """What the file begins with."""
        self._ring, self._end = fabric.capture(ways, config)
        self._told = [0] * len(ways)
        """The packets that each interface has missed, according to the statistics so far."""
        self.take = self._ring.take
        """Return what the file goes on with, as `CaptureRing.take`."""

    @property
    def is_complete(self) -> bool:
        """Whether it has kept as many packets as it was to."""
        return self._ring.is_complete

    @property
    def totals(self) -> tuple[int, int]:
        """Packets that were kept and missed so far."""
        return self._ring.totals()

    def statistics(self, *, final: bool = False) -> bytes:
        """Return statistics of the interfaces that have missed packets since the last time; with `final`, of all."""
        time_ns = max(0, round(self._fabric.clock.time() * NS_PER_S)) + self._epoch_ns
        data = b""
        for number, (seen, missed) in enumerate(self._ring.counts()):
            if final or missed != self._told[number]:
                self._told[number] = missed
                data += interface_statistics(number, time_ns, seen, missed)
        return data

    def stop(self) -> None:
        """Copy no more; what was not taken yet still can be. May be called twice."""
        self._end()


def ways_of(fabric: Fabric, place: str, match: Match, *, once: bool) -> list[LinkDirection]:
    """Return the directions of links that a capture looks at, on any machine of the cluster.

    Args:    once: only those on which packets enter the fabric, from HFI ports.
    Raises:  FaultError: there are none.
    """
    ways = directions_of(fabric, place, match.direction)
    if once:
        ways = [way for way in ways if isinstance(way.source, HfiPort)]
    if not ways:
        raise FaultError(
            f'no packet enters the fabric on "{place}": it has no link that leads away from an HFI port'
        )
    return ways


def begins_here(way: LinkDirection) -> bool:
    """Return whether the engine of this machine sends what a direction carries, and so sees it."""
    return not isinstance(way.source.engine_end, BoundaryEnd)
