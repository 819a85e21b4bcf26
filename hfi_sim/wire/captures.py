"""Read packets out of capture files, pcap and pcapng, from bytes. 16B packets have link type 147 (USER0).

Unlike a reader that stops quietly where a file was cut off, this one says where.

Source: the public pcap and pcapng file format specifications.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from hfi_sim.errors import WireError

DLT_ETHERNET: Final = 1
DLT_USER0: Final = 147
"""The first link type that is free for private use; our captures of 16B packets have it."""

_PCAP_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xd4\xc3\xb2\xa1": "<",
    b"\xa1\xb2\x3c\x4d": ">",
    b"\x4d\x3c\xb2\xa1": "<",
}
_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_PCAPNG_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_PCAP_HEADER: Final = 24
SECTION_BLOCK, INTERFACE_BLOCK, SIMPLE_PACKET_BLOCK, ENHANCED_PACKET_BLOCK = 0x0A0D0D0A, 1, 3, 6
"""Types of pcapng blocks."""


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """One packet of a capture: its link type, and its bytes as far as they were captured."""

    link_type: int
    data: bytes
    wire_len: int
    """Bytes that the packet had on the wire."""


def is_capture(data: bytes) -> bool:
    """Return whether `data` begins as a pcap or pcapng file does."""
    return data[:4] in _PCAP_MAGICS or data[:4] == _PCAPNG_MAGIC


def read_capture(data: bytes) -> Iterator[CapturedPacket]:
    """Yield the packets of a whole pcap or pcapng file.

    Raises:  WireError: no such file, or it ends in the middle; raised after what could be read.
    """
    if data[:4] in _PCAP_MAGICS:
        return _read_pcap(data, _PCAP_MAGICS[data[:4]])
    if data[:4] == _PCAPNG_MAGIC:
        return _read_pcapng(data)
    raise WireError("capture", 0, "neither a pcap nor a pcapng file: unknown first four bytes")


def _read_pcap(data: bytes, order: str) -> Iterator[CapturedPacket]:
    if len(data) < _PCAP_HEADER:
        raise WireError("pcap header", len(data), f"the file ends after {len(data)} of {_PCAP_HEADER} bytes")
    (link_type,) = Struct(order + "I").unpack_from(data, 20)
    record = Struct(order + "IIII")
    offset = _PCAP_HEADER
    while offset < len(data):
        if len(data) - offset < record.size:
            raise WireError("pcap record", offset, "the file ends inside a record header")
        _, _, captured, wire_len = record.unpack_from(data, offset)
        offset += record.size
        if len(data) - offset < captured:
            reason = (
                f"the file ends inside a packet of {captured} bytes, {len(data) - offset} of them are there"
            )
            raise WireError("pcap record", offset, reason)
        yield CapturedPacket(link_type & 0xFFFF, data[offset : offset + captured], wire_len)
        offset += captured


def _read_pcapng(data: bytes) -> Iterator[CapturedPacket]:
    offset = 0
    order = "<"
    link_types: list[int] = []
    while offset < len(data):
        if len(data) - offset < 12:
            raise WireError("pcapng block", offset, "the file ends inside a block")
        if data[offset : offset + 4] == _PCAPNG_MAGIC:
            found = _PCAPNG_BYTE_ORDERS.get(data[offset + 8 : offset + 12])
            if found is None:
                raise WireError("pcapng section", offset + 8, "unknown byte order mark")
            order, link_types = found, []
        kind, size = Struct(order + "II").unpack_from(data, offset)
        if size < 12 or size % 4 or size > len(data) - offset:
            reason = f"block of {size} bytes, {len(data) - offset} bytes are left in the file"
            raise WireError("pcapng block", offset, reason)
        body = data[offset + 8 : offset + size - 4]
        if kind == INTERFACE_BLOCK and len(body) >= 2:
            link_types.append(Struct(order + "H").unpack_from(body)[0])
        elif kind in (ENHANCED_PACKET_BLOCK, SIMPLE_PACKET_BLOCK):
            yield _pcapng_packet(kind, body, order, link_types, offset)
        offset += size


def _pcapng_packet(kind: int, body: bytes, order: str, link_types: list[int], offset: int) -> CapturedPacket:
    """Return the packet in the body of the block at `offset` of the file."""
    head = Struct(order + ("IIIII" if kind == ENHANCED_PACKET_BLOCK else "I"))
    if len(body) < head.size:
        raise WireError("pcapng block", offset, f"packet block with a body of {len(body)} bytes")
    values = head.unpack_from(body)
    interface = values[0] if kind == ENHANCED_PACKET_BLOCK else 0
    captured = values[3] if kind == ENHANCED_PACKET_BLOCK else min(values[0], len(body) - head.size)
    if interface >= len(link_types):
        raise WireError(
            "pcapng block", offset, f"packet of interface {interface}, which the file does not describe"
        )
    if captured > len(body) - head.size:
        raise WireError("pcapng block", offset, f"packet of {captured} bytes in a block with {len(body)}")
    return CapturedPacket(link_types[interface], body[head.size : head.size + captured], values[-1])
