"""Write a trace as a pcapng file: link type USER0 (147), one interface for each direction of a link.

Source: the pcapng specification (draft-ietf-opsawg-pcapng), section, interface and enhanced packet blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from hfi_sim.trace import TraceRecord

LINKTYPE_USER0: Final = 147
_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_ENHANCED_PACKET: Final = 6
_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_OPT_COMMENT: Final = 1
_OPT_IF_NAME: Final = 2
_OPT_IF_TSRESOL: Final = 9
_NANOSECONDS: Final = 9


def write_trace(path: Path, records: Iterable[TraceRecord]) -> int:
    """Write `records` to `path` and return how many there were. A drop stands in the packet's comment."""
    count = 0
    interfaces: dict[str, int] = {}
    with path.open("wb") as file:
        _block(file, _SECTION, struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1))
        for record in records:
            if record.direction not in interfaces:
                interfaces[record.direction] = len(interfaces)
                options = _option(_OPT_IF_NAME, record.direction.encode()) + _option(
                    _OPT_IF_TSRESOL, bytes([_NANOSECONDS])
                )
                _block(
                    file, _INTERFACE, struct.pack("<HHI", LINKTYPE_USER0, 0, 0) + options + _option(0, b"")
                )
            _packet(file, interfaces[record.direction], record)
            count += 1
    return count


def _packet(file: BinaryIO, interface: int, record: TraceRecord) -> None:
    when = round(record.time_s * 1e9)
    size = len(record.packet)
    body = struct.pack("<IIIII", interface, when >> 32, when & 0xFFFFFFFF, size, size) + _padded(
        record.packet
    )
    if record.drop is not None:
        body += _option(_OPT_COMMENT, f"dropped: {record.drop.value}".encode()) + _option(0, b"")
    _block(file, _ENHANCED_PACKET, body)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _block(file: BinaryIO, kind: int, body: bytes) -> None:
    size = struct.pack("<I", len(body) + 12)
    file.write(struct.pack("<I", kind) + size + body + size)
