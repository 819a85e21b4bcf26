"""A trace of everything that enters a link: a fingerprint over all of it, and the last packets themselves.

Two runs of one scenario with one seed have the same fingerprint, bit for bit.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from typing import Final

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.notices import TracedPacket

DEFAULT_KEEP: Final = 20_000
_HEAD: Final = struct.Struct("<dI")


class Trace:
    """Records a fabric from the moment it is made until `stop`."""

    def __init__(self, fabric: Fabric, *, keep: int = DEFAULT_KEEP) -> None:
        """Begin. Args: keep: how many of the last packets stay in `records`."""
        self.packets = 0
        self.records: deque[TracedPacket] = deque(maxlen=keep)
        self._marks: dict[str, bytes] = {}
        self._hash = hashlib.blake2b(digest_size=16)
        self._end = fabric.observe(self._observe)

    def _observe(self, seen: TracedPacket) -> None:
        self.packets += 1
        mark = self._marks.get(seen.direction)
        if mark is None:
            mark = self._marks[seen.direction] = seen.direction.encode() + b" "
        if seen.drop is not None:
            mark += seen.drop.encode()
        self._hash.update(_HEAD.pack(seen.time_s, len(seen.packet)) + mark + seen.packet)
        self.records.append(seen)

    @property
    def fingerprint(self) -> str:
        """32 hex digits over time, link, fate and bytes of every packet so far."""
        return self._hash.hexdigest()

    def stop(self) -> None:
        """Record no more; harmless when done twice."""
        self._end()
