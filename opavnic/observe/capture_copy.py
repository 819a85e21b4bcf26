"""A capture that comes as a stream, copied to files of which each can be read by itself.

The stream comes in pieces that end anywhere; what is written ends with a whole block. Packets are only counted, so this
keeps up with a fast link where a program that looks at each packet does not.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from hfi_sim.errors import WireError
from hfi_sim.wire.captures import ENHANCED_PACKET, MAX_BLOCK, STATISTICS, missed_packets

NUMBER_HEADER: Final = "Capture-Number"
"""The header of the stream that says which capture it is."""
_HEAD: Final = Struct("<II")
_SMALLEST: Final = 12


class Target(Protocol):
    """Where the blocks go."""

    def write(self, data: memoryview) -> None:
        """Write whole blocks."""

    def room(self) -> int | None:
        """Return how many more bytes belong there before the next file; None: all."""
        ...

    def next(self, head: bytes) -> None:
        """Begin the next file."""

    def close(self) -> None:
        """Write no more. Raises OSError: what was written has not arrived."""


class CaptureCopy:
    """Copies a stream of blocks, in the byte order that captures of a lab have, to its target."""

    def __init__(self, target: Target) -> None:
        self.packets = 0
        """Packets written."""
        self._target = target
        self._in_file = 0
        """Packets in the present file."""
        self._head = bytearray()
        """What precedes the first packet: it begins each file."""
        self._rest = b""
        """The beginning of a block that is not there yet."""
        self._missed: dict[int, int] = {}

    @property
    def missed(self) -> int:
        """Packets that the capture missed, according to the part read so far."""
        return sum(self._missed.values())

    def feed(self, piece: bytes) -> None:
        """Write the blocks that are complete with a piece of the stream.

        Raises:  WireError: these are no blocks. OSError: the target cannot be written.
        """
        data = self._rest + piece if self._rest else piece
        size, start, at, end = len(data), 0, 0, len(data) - _SMALLEST
        unpack, target = _HEAD.unpack_from, self._target
        room = target.room()
        blocks = memoryview(data)
        while at <= end:
            kind, length = unpack(data, at)
            if length < _SMALLEST or length > MAX_BLOCK or length % 4:
                raise WireError("pcapng block", at, f"a block of {length} bytes")
            if at + length > size:
                break
            if kind == ENHANCED_PACKET:
                if room is not None and at - start + length > room and self._in_file:
                    target.write(blocks[start:at])
                    target.next(bytes(self._head))
                    room, start, self._in_file = target.room() or 0, at, 0
                self._in_file += 1
                self.packets += 1
            elif kind == STATISTICS:
                interface, missed = missed_packets(data[at : at + length])
                self._missed[interface] = missed
            elif not self.packets:
                self._head += data[at : at + length]
            at += length
        if at > start:
            target.write(blocks[start:at])
        self._rest = data[at:]
