"""Shows packets of a direction to observers, as an output or copied into a ring, which keeps them until they are read.

A slow reader never slows a link down: when the ring is full, packets are missed and counted. The reader gets
enhanced packet blocks of a pcapng file, one for each packet, with a drop's reason as its comment.

The ring consists of segments. One is being filled, full ones wait in order for the reader, and the others are free.
The native ring (native/engine/src/link/capture.rs) works alike, so both keep and miss the same packets.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Protocol

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import DirectionId, Observed, Output
from hfi_sim.engine.events.queue import Layer, Space
from hfi_sim.engine.link.rule import Match
from hfi_sim.wire.captures import enhanced_packet, erf_9b
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.lrh16b import is_9b
from hfi_sim.wire.packet_9b import bare_9b

MAX_SNAP: Final = 1 << 18
"""Bytes of a packet; no link carries longer ones."""
SEGMENT_BYTES: Final = 1 << 20
"""Bytes of a segment, and so of what is taken at once."""
DROP_COMMENTS: Final = {drop: f"dropped: {drop.value}".encode() for drop in Drop}
"""The comment of a packet that was dropped where it was captured."""


@dataclass(frozen=True, slots=True)
class CaptureConfig:
    """What is captured, and how much of it is kept until it is taken."""

    interfaces: int
    """Number of interfaces; each is one direction of a link. A direction's 9B packets have its number plus this."""
    match: Match = field(default_factory=Match)
    """The packets to capture; its direction is ignored."""
    snap: int = MAX_SNAP
    """Most bytes kept of a packet."""
    limit: int | None = None
    """Number of packets after which the capture is complete."""
    epoch_ns: int = 0
    """Added to the fabric's time."""
    segments: int = 16
    """2 and more."""
    segment_bytes: int = SEGMENT_BYTES


class CaptureRing(Protocol):
    """The packets of one capture, as its reader sees them."""

    def take(self, rest: bool) -> bytes:
        """Take the packets of the oldest full segment; empty if none is full.

        Args:  rest: if none is full, take the contents of the one being filled.
        """
        ...

    def counts(self) -> list[tuple[int, int]]:
        """Return for each interface the number of matching packets so far, and how many of them were missed."""
        ...

    def totals(self) -> tuple[int, int]:
        """Return how many packets were kept and missed so far, on all interfaces together."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether it has reached its limit of packets."""
        ...


class PythonRing(CaptureRing):
    """The ring of the Python engine."""

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        self._counts = [[0, 0] for _ in range(config.interfaces)]
        self._kept = self._missed = 0
        self._filling = bytearray()
        self._full: deque[bytes] = deque()

    def push(self, time: int, interface: int, packet: bytes, drop: Drop | None) -> None:
        """Copy a packet that fits, or count it as missed. Args: drop: why it was dropped there, if it was."""
        if self.is_complete or not self._config.match.fits(packet):
            return
        counts = self._counts[interface]
        counts[0] += 1
        if len(packet) >= HEADER_SIZE and is_9b(packet):
            packet = erf_9b(bare_9b(packet))
            interface += self._config.interfaces
        comment = b"" if drop is None else DROP_COMMENTS[drop]
        block = enhanced_packet(
            interface, time + self._config.epoch_ns, packet[: self._config.snap], len(packet), comment
        )
        if self._has_room(len(block)):
            self._filling += block
            self._kept += 1
        else:
            counts[1] += 1
            self._missed += 1

    def _has_room(self, size: int) -> bool:
        """Return whether the current segment has room for a block; a full one is replaced by a free one if possible."""
        config = self._config
        if len(self._filling) + size <= config.segment_bytes:
            return True
        if size > config.segment_bytes or len(self._full) + 1 >= config.segments:
            return False
        self._full.append(bytes(self._filling))
        self._filling.clear()
        return True

    def take(self, rest: bool) -> bytes:
        if self._full:
            return self._full.popleft()
        if not rest:
            return b""
        taken = bytes(self._filling)
        self._filling.clear()
        return taken

    def counts(self) -> list[tuple[int, int]]:
        return [(seen, missed) for seen, missed in self._counts]

    def totals(self) -> tuple[int, int]:
        return self._kept, self._missed

    @property
    def is_complete(self) -> bool:
        return self._kept == self._config.limit


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
