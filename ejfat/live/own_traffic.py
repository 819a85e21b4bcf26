"""A filter for a packet socket on an interface that the kernel uses too: what is not for the load balancer stays out.

Without it, the host's own connections would be read, and counted as dropped.

Source: the Linux kernel's documentation of socket filters (classic BPF).
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

from ejfat.base.addresses import IpAddress

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
