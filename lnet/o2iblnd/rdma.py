"""Memory that a peer may write, and the writes: key (32 bits), address (64 bits), big-endian, then the bytes.

Takes the place of the verbs RDMA WRITE. The reliable connection carries a write as a message with its own tag.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lnet.base.errors import ProtocolError
from lnet.wire.msg import RdmaDesc, RdmaFrag

_WRITE: Final = struct.Struct(">IQ")
_PAGE: Final = 4096


@dataclass(slots=True)
class Region:
    """Registered memory: `buffer` at address `base`."""

    base: int
    buffer: bytearray
    written: list[tuple[int, int]] = field(default_factory=list)
    """What was written, as ranges (start, end) in order that neither overlap nor touch."""

    def write(self, start: int, data: memoryview) -> None:
        """Write `data` at `start`, which must fit."""
        end = start + len(data)
        self.buffer[start:end] = data
        if start < end:
            first = bisect_left(self.written, start, key=lambda one: one[1])
            behind = bisect_right(self.written, end, key=lambda one: one[0])
            if first < behind:
                start = min(start, self.written[first][0])
                end = max(end, self.written[behind - 1][1])
            self.written[first:behind] = [(start, end)]

    def has(self, length: int) -> bool:
        """Return whether exactly the first `length` bytes were written."""
        return self.written == ([(0, length)] if length else [])


@dataclass(slots=True)
class RegionTable:
    """The registered memory of one connection."""

    _regions: dict[int, Region] = field(default_factory=dict)
    _next_key: int = 1
    _next_base: int = _PAGE

    def register(self, length: int, frag_bytes: int, max_frags: int) -> RdmaDesc:
        """Register `length` bytes of new memory; return the descriptor that lets the peer write them."""
        key, base = self._next_key, self._next_base
        self._next_key += 1
        self._next_base += (length // _PAGE + 1) * _PAGE
        self._regions[key] = Region(base, bytearray(length))
        step = max(frag_bytes, -(-length // max_frags))
        frags = (RdmaFrag(min(step, length - at), base + at) for at in range(0, length, step))
        return RdmaDesc(key, tuple(frags))

    def release(self, key: int) -> Region | None:
        """Remove and return a region; None if there is none."""
        return self._regions.pop(key, None)

    def write(self, message: bytes) -> None:
        """Apply one write of the peer.

        Raises:  ProtocolError: truncated, an unknown key, or an address outside the region.
        """
        if len(message) < _WRITE.size:
            raise ProtocolError(f"RDMA write of {len(message)} bytes has no header")
        key, addr = _WRITE.unpack_from(message)
        region = self._regions.get(key)
        if region is None:
            raise ProtocolError(f"RDMA write with the unknown key {key:#x}")
        start = addr - region.base
        end = start + len(message) - _WRITE.size
        if start < 0 or end > len(region.buffer):
            raise ProtocolError(f"RDMA write to {addr:#x} is outside the memory of key {key:#x}")
        region.write(start, memoryview(message)[_WRITE.size :])


def rdma_writes(desc: RdmaDesc, data: bytes) -> Iterator[bytes]:
    """Yield the messages that write `data` to the memory of `desc`.

    Raises:  ProtocolError: `data` is larger than the memory.
    """
    if len(data) > desc.nob:
        raise ProtocolError(f"{len(data)} bytes do not fit in the {desc.nob} bytes of the peer's memory")
    view = memoryview(data)
    for frag in desc.frags:
        piece, view = view[: frag.nob], view[frag.nob :]
        if piece:
            yield _WRITE.pack(desc.key, frag.addr) + piece
