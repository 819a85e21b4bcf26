"""Trace records as a pcapng file: link type USER0 (147), one interface for each direction of a link.

The file is made and read piece by piece, so that a running capture can be looked at.

Source: the pcapng specification (draft-ietf-opsawg-pcapng): section, interface, enhanced packet and interface
statistics blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from hfi_sim.counters import Drop
from hfi_sim.errors import WireError
from hfi_sim.trace import TraceRecord
from hfi_sim.wire.captures import DLT_USER0, ENHANCED_PACKET_BLOCK, INTERFACE_BLOCK, SECTION_BLOCK

_STATISTICS_BLOCK: Final = 5
_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_OPT_COMMENT: Final = 1
_OPT_IF_NAME: Final = 2
_OPT_IF_TSRESOL: Final = 9
_OPT_ISB_IFDROP: Final = 5
_NANOSECONDS: Final = 9
_DROPPED: Final = "dropped: "
_DROPS: Final = {f"{_DROPPED}{drop.value}": drop for drop in Drop}
_HEAD: Final = struct.Struct("<II")
_PACKET: Final = struct.Struct("<IIIII")
_MAX_BLOCK: Final = 1 << 20
"""Bytes; ours are much shorter."""


class PcapngWriter:
    """Makes the bytes of a file; the caller writes them somewhere."""

    def __init__(self) -> None:
        self._interfaces: dict[str, int] = {}

    def head(self) -> bytes:
        """Return what a file begins with."""
        return _block(SECTION_BLOCK, struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1))

    def packet(self, record: TraceRecord) -> bytes:
        """Return one packet; the first of a direction has its interface in front. A drop stands in the comment."""
        new = b"" if record.direction in self._interfaces else self._interface(record.direction)
        when = round(record.time_s * 1e9)
        size = len(record.packet)
        interface = self._interfaces[record.direction]
        body = _PACKET.pack(interface, when >> 32, when & 0xFFFFFFFF, size, size) + _padded(record.packet)
        if record.drop is not None:
            body += _option(_OPT_COMMENT, f"{_DROPPED}{record.drop.value}".encode()) + _option(0, b"")
        return new + _block(ENHANCED_PACKET_BLOCK, body)

    def missed(self, time_s: float, count: int) -> bytes:
        """Return the statistics that say: `count` packets so far were too many to be captured."""
        new = b"" if self._interfaces else self._interface("")
        when = round(time_s * 1e9)
        options = _option(_OPT_ISB_IFDROP, struct.pack("<Q", count)) + _option(0, b"")
        return new + _block(
            _STATISTICS_BLOCK, struct.pack("<III", 0, when >> 32, when & 0xFFFFFFFF) + options
        )

    def _interface(self, direction: str) -> bytes:
        self._interfaces[direction] = len(self._interfaces)
        options = _option(_OPT_IF_NAME, direction.encode()) + _option(_OPT_IF_TSRESOL, bytes([_NANOSECONDS]))
        return _block(INTERFACE_BLOCK, struct.pack("<HHI", DLT_USER0, 0, 0) + options + _option(0, b""))


class PcapngReader:
    """Reads back what a PcapngWriter made, as it comes."""

    def __init__(self, stream: BinaryIO) -> None:
        self.missed = 0
        """Packets that the capture could not keep up with, as far as it was read."""
        self._stream = stream
        self._directions: list[str] = []

    def records(self) -> Iterator[TraceRecord]:
        """Yield the packets until the stream ends.

        Raises:  WireError: no such file, or it ends within a block.
        """
        while head := self._stream.read(_HEAD.size):
            kind, size = _HEAD.unpack(self._whole(head, _HEAD.size))
            if size % 4 or not _HEAD.size + 4 <= size <= _MAX_BLOCK:
                raise WireError("pcapng block", 0, f"a block of {size} bytes")
            body = self._whole(b"", size - _HEAD.size)[:-4]
            if kind == INTERFACE_BLOCK:
                name = dict(_options(body, 8)).get(_OPT_IF_NAME, b"")
                self._directions.append(name.decode(errors="replace"))
            elif kind == _STATISTICS_BLOCK:
                count = dict(_options(body, 12)).get(_OPT_ISB_IFDROP, b"")
                self.missed = int.from_bytes(count, "little")
            elif kind == ENHANCED_PACKET_BLOCK:
                yield self._packet(body)

    def _whole(self, begun: bytes, size: int) -> bytes:
        """Return `size` bytes, of which `begun` have been read."""
        while len(begun) < size:
            more = self._stream.read(size - len(begun))
            if not more:
                raise WireError("pcapng block", len(begun), f"the file ends {size - len(begun)} bytes early")
            begun += more
        return begun

    def _packet(self, body: bytes) -> TraceRecord:
        if len(body) < _PACKET.size:
            raise WireError("pcapng block", 0, f"a packet block of {len(body)} bytes")
        interface, high, low, size, _ = _PACKET.unpack_from(body)
        end = _PACKET.size + size
        if interface >= len(self._directions) or end > len(body):
            raise WireError("pcapng block", 0, f"a packet of {size} bytes on interface {interface}")
        comment = dict(_options(body, end + -size % 4)).get(_OPT_COMMENT, b"").decode(errors="replace")
        drop = _DROPS.get(comment)
        when = (high << 32 | low) / 1e9
        return TraceRecord(when, self._directions[interface], body[_PACKET.size : end], drop)


def write_trace(path: Path, records: Iterable[TraceRecord]) -> int:
    """Write `records` to `path` and return how many there were."""
    writer = PcapngWriter()
    count = 0
    with path.open("wb") as file:
        file.write(writer.head())
        for record in records:
            file.write(writer.packet(record))
            count += 1
    return count


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _options(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of the options that begin at `at`; what is cut off there are none."""
    while at + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code == 0:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size
