"""Memory that a peer may write, and the writes: key (32 bits), address (64 bits), big-endian, then the bytes.

Takes the place of the verbs RDMA WRITE. The reliable connection carries a write as a message with its own tag.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lnet.errors import ProtocolError
from lnet.msg import RdmaDesc, RdmaFrag

_WRITE: Final = struct.Struct(">IQ")
_PAGE: Final = 4096


@dataclass(slots=True)
class Region:
    """Registered memory: `buffer` at address `base`."""

    base: int
    buffer: bytearray
    written: int = 0
    """Bytes written so far."""


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
        region.buffer[start:end] = memoryview(message)[_WRITE.size :]
        region.written += end - start


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
