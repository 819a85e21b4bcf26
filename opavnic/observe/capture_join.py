"""Captures of several machines as one: pcapng files that grow, joined block by block. Does no I/O.

Each machine numbers its interfaces from 0; in the joined file each has a number of its own. Packets of different
machines stand in the order in which they were read, which is not quite that of their times.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import (
    ENHANCED_PACKET,
    INTERFACE,
    MAX_BLOCK,
    OURS,
    PCAPNG_BLOCK,
    SECTION,
    STATISTICS,
    unknown_interface,
)

_HEAD: Final = OURS.block.codec
_NUMBER: Final = slice(_HEAD.size, _HEAD.size + 4)
"""Of packets and of statistics: their interface."""
_SMALLEST: Final = {ENHANCED_PACKET: 32, STATISTICS: 24}


class JoinedCapture:
    """The file that several make."""

    def __init__(self, limit: int | None = None) -> None:
        """Begin. Args: limit: packets after which it is complete."""
        self.packets = 0
        self._limit = limit
        self._rest: dict[str, bytes] = {}
        """Of each file, the beginning of a block that is not there yet."""
        self._interfaces: dict[str, list[int]] = {}
        self._numbers = 0
        self._has_head = False

    @property
    def is_complete(self) -> bool:
        """Whether it has as many packets as it was to."""
        return self._limit is not None and self.packets >= self._limit

    def feed(self, source: str, piece: bytes) -> bytes:
        """Return what a piece of one file adds to the joined one; packets beyond the limit are left out.

        Raises:  WireError: these are no blocks of a capture.
        """
        data = self._rest.pop(source, b"") + piece
        known = self._interfaces.setdefault(source, [])
        found, at = bytearray(), 0
        while at + _HEAD.size <= len(data):
            kind, length = _HEAD.unpack_from(data, at)
            if length < _SMALLEST.get(kind, _HEAD.size + 4) or length > MAX_BLOCK or length % 4:
                raise WireError(PCAPNG_BLOCK, at, f"a block of {length} bytes from {source}")
            if at + length > len(data):
                break
            found += self._block(kind, data[at : at + length], known)
            at += length
        if at < len(data):
            self._rest[source] = data[at:]
        return bytes(found)

    def _block(self, kind: int, block: bytes, known: list[int]) -> bytes:
        if kind == SECTION:
            known.clear()  # a section numbers its interfaces from 0
            if self._has_head:
                return b""
            self._has_head = True
        elif kind == INTERFACE:
            known.append(self._numbers)
            self._numbers += 1
        elif kind in (ENHANCED_PACKET, STATISTICS):
            number = int.from_bytes(block[_NUMBER], "little")
            if number >= len(known):
                raise unknown_interface(number)
            if kind == ENHANCED_PACKET:
                if self.is_complete:
                    return b""
                self.packets += 1
            return block[: _NUMBER.start] + known[number].to_bytes(4, "little") + block[_NUMBER.stop :]
        return block
