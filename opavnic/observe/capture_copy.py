"""A capture that comes as a stream, copied to files of which each can be read by itself.

The stream comes in pieces that end anywhere; what is written ends with a whole block. Packets are only counted, so this
keeps up with a fast link where a program that looks at each packet does not.
"""

from __future__ import annotations

from typing import Final, Protocol

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import ENHANCED_PACKET, MAX_BLOCK, OURS, PCAPNG_BLOCK, STATISTICS, missed_packets
from opavnic.datapath.selection import load_native

NUMBER_HEADER: Final = "Capture-Number"
"""The header of the stream that says which capture it is."""
WITHOUT_HEADER: Final = "Capture-Without"
"""The header that says which machines of a cluster do not take part, and why."""
_HEAD: Final = OURS.block.codec
_SMALLEST: Final = {ENHANCED_PACKET: 32}


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
        native = load_native()
        self._skip = packet_blocks if native is None else native.packet_blocks

    @property
    def missed(self) -> int:
        """Packets that the capture missed, according to the part read so far."""
        return sum(self._missed.values())

    def feed(self, piece: bytes) -> None:
        """Write the blocks that are complete with a piece of the stream.

        Raises:  WireError: these are no blocks. OSError: the target cannot be written.
        """
        data = self._rest + piece if self._rest else piece
        size, at, blocks = len(data), 0, memoryview(data)
        target, start = self._target, 0  # what precedes the start is written
        room = target.room()
        while True:
            at, packets = self._skip(data, at, size if room is None else max(0, room - (at - start)))
            self._in_file += packets
            self.packets += packets
            if at + _HEAD.size > size:
                break
            kind, length = _HEAD.unpack_from(data, at)
            if length < _SMALLEST.get(kind, _HEAD.size + 4) or length > MAX_BLOCK or length % 4:
                raise WireError(PCAPNG_BLOCK, at, f"a block of {length} bytes")
            if at + length > size:
                break
            if kind == ENHANCED_PACKET:  # for which there is no room
                if self._in_file:
                    target.write(blocks[start:at])
                    target.next(bytes(self._head))
                    start, self._in_file = at, 0
                    room = target.room()
                room = max(room or 0, at - start + length)  # each file takes one
                continue
            if kind == STATISTICS:
                interface, missed = missed_packets(data[at : at + length])
                self._missed[interface] = missed
            elif not self.packets:
                self._head += data[at : at + length]
            at += length
        if at > start:
            target.write(blocks[start:at])
        self._rest = data[at:]


def packet_blocks(data: bytes, at: int, room: int) -> tuple[int, int]:
    """Return how far whole enhanced packet blocks reach from `at` on, which have at most `room` bytes, and how many."""
    start, packets, last = at, 0, len(data) - _HEAD.size
    unpack, least = _HEAD.unpack_from, _SMALLEST[ENHANCED_PACKET]
    while at <= last:
        kind, length = unpack(data, at)
        end = at + length
        if kind != ENHANCED_PACKET or length < least or length % 4 or end > len(data) or end - start > room:
            break
        at = end
        packets += 1
    return at, packets
