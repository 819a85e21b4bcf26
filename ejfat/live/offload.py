"""The work that a virtio-net header leaves to the receiver of its frame: a checksum, and the split of datagrams.

The kernel leaves both to the hardware, which frames between its own interfaces never reach. Host byte order.
"""

from __future__ import annotations

import struct

from hfi_sim.wire.internet_checksum import checksum

VNET = struct.Struct("=BBHHHH")
"""flags, segmentation type, length of the headers, segment size, start of the checksum, offset of its field."""
NO_OFFLOAD = bytes(VNET.size)
_NEEDS_CSUM = 1
_UDP_L4 = 5
_ECN = 0x80
_UDP_HEADER = 8


def frames_of(data: bytes) -> list[bytes]:
    """Return the frames after a virtio-net header as they would be on a wire.

    Args:    data: at least the header. Datagrams sent in one call (UDP_SEGMENT) arrive as one frame.
    """
    flags, kind, _, size, start, offset = VNET.unpack_from(data)
    frame = data[VNET.size :]
    if kind & ~_ECN == _UDP_L4 and size and _is_udp(frame, start):
        payload = frame[start + _UDP_HEADER :]
        pieces = [payload[at : at + size] for at in range(0, len(payload), size)]
        return [_datagram(frame, start, piece, number) for number, piece in enumerate(pieces)]
    at = start + offset
    if not flags & _NEEDS_CSUM or at + 2 > len(frame):
        return [frame]
    # the field has the sum of the pseudo header, so the checksum includes the field
    value = checksum(frame[start:]) or 0xFFFF
    return [frame[:at] + value.to_bytes(2, "big") + frame[at + 2 :]]


def _is_udp(frame: bytes, start: int) -> bool:
    """Return whether UDP begins at `start`, directly after the IPv4 or IPv6 header."""
    if len(frame) <= start + _UDP_HEADER:
        return False
    if frame[12:14] == b"\x08\x00":
        return frame[14] >> 4 == 4 and frame[23] == 17 and start == 14 + 4 * (frame[14] & 15) >= 34
    return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and start == 54


def _datagram(frame: bytes, start: int, payload: bytes, number: int) -> bytes:
    """Return a datagram with the headers of `frame`, adapted lengths, id and checksums, and a part of the payload."""
    head = bytearray(frame[:start])
    length = _UDP_HEADER + len(payload)
    if frame[12:14] == b"\x08\x00":
        head[16:18] = (start - 14 + length).to_bytes(2, "big")
        head[18:20] = (int.from_bytes(head[18:20], "big") + number & 0xFFFF).to_bytes(2, "big")
        head[24:26] = b"\0\0"
        head[24:26] = checksum(bytes(head[14:])).to_bytes(2, "big")
        addresses = bytes(head[26:34])
    else:
        head[18:20] = length.to_bytes(2, "big")
        addresses = bytes(head[22:54])
    udp = frame[start : start + 4] + length.to_bytes(2, "big") + b"\0\0" + payload
    pseudo = addresses + b"\0\x11" + length.to_bytes(2, "big")
    value = checksum(pseudo + udp) or 0xFFFF
    return bytes(head) + udp[:6] + value.to_bytes(2, "big") + payload
