"""What frames of a packet socket need: a filter, and the work that a virtio-net header leaves to the receiver.

The kernel leaves a checksum and the split of datagrams to the hardware, which frames between its own interfaces never
reach. Without the filter, the host's own connections would be read, and counted as dropped. Host byte order.

Source: the Linux kernel's documentation of socket filters (classic BPF).
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

from ejfat.base.addresses import IpAddress
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


_SO_ATTACH_FILTER = 26
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30
_JUMP_IF_EQUAL, _RETURN = 0x15, 0x06
_ALL, _NOTHING = 0xFFFFFFFF, 0
_ETHER_TYPE, _IPV4_DST, _IPV6_DST = 12, 30, 38
_WHOLE = (0x0806, 0x8100)
"""ARP, and tagged frames, of which the load balancer knows more."""
_IPV4, _IPV6, _GROUP = 0x0800, 0x86DD, 0xFF
_INSTRUCTION = struct.Struct("=HBBI")
Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if equal and if not, value."""
EVERYTHING: list[Instruction] = [(_RETURN, 0, 0, _ALL)]
NOTHING: list[Instruction] = [(_RETURN, 0, 0, _NOTHING)]


def own_traffic(addresses: Sequence[IpAddress]) -> list[Instruction]:
    """Return a filter that takes ARP, tagged frames, IP to `addresses`, and IPv6 to groups (neighbor discovery)."""
    take: Instruction = (_RETURN, 0, 0, _ALL)
    leave: Instruction = (_RETURN, 0, 0, _NOTHING)
    four: list[Instruction] = [(_LOAD_WORD, 0, 0, _IPV4_DST)]
    six: list[Instruction] = [(_LOAD_BYTE, 0, 0, _IPV6_DST), (_JUMP_IF_EQUAL, 0, 1, _GROUP), take]
    for address in addresses:
        if address.version == 4:
            four += [(_JUMP_IF_EQUAL, 0, 1, int(address)), take]
            continue
        words = struct.unpack("!4I", address.packed)
        for number, word in enumerate(words):
            behind = 2 * (len(words) - 1 - number) + 1  # the other words, and `take`
            six += [(_LOAD_WORD, 0, 0, _IPV6_DST + 4 * number), (_JUMP_IF_EQUAL, 0, behind, word)]
        six.append(take)
    program: list[Instruction] = [(_LOAD_HALF, 0, 0, _ETHER_TYPE)]
    for kind in _WHOLE:
        program += [(_JUMP_IF_EQUAL, 0, 1, kind), take]
    four.append(leave)
    program += [(_JUMP_IF_EQUAL, 0, len(four), _IPV4), *four]
    six.append(leave)
    return [*program, (_JUMP_IF_EQUAL, 0, len(six), _IPV6), *six, leave]


def attach(sock: socket.socket, program: Sequence[Instruction]) -> None:
    """Give a socket a filter.

    Raises:  OSError: the kernel refuses.
    """
    data = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*one) for one in program))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(data))
    )
