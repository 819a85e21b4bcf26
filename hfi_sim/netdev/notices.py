"""The kernel's notifications by netlink: of links, of the address lists of devices, of IP addresses.

Of neighbours only the entries of bridges and devices come, which are such lists: what ARP and neighbour discovery find
out is news many times a second in a large lab, and none for a device.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import AF_BRIDGE, HEADER, RECEIVE_BYTES, RTM_DELNEIGH, RTM_NEWNEIGH, messages

# groups of notifications: links, neighbours (bridge fdb), IP addresses, IPv4 and IPv6 multicast memberships
_GROUP_LINK: Final = 1
_GROUP_NEIGH: Final = 3
_GROUPS_ADDRESS: Final = (5, 9)  # RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR
_GROUPS_MULTICAST: Final = (37, 38)  # RTNLGRP_IPV4_MCADDR, RTNLGRP_IPV6_MCADDR; kernels before 6.14 have none

_SOL_NETLINK: Final = 270
_NETLINK_ADD_MEMBERSHIP: Final = 1
_SO_ATTACH_FILTER: Final = 26
_SOCK_FILTER: Final = struct.Struct("=HBBI")
_BPF_LOAD_HALF: Final = 0x28
_BPF_LOAD_BYTE: Final = 0x30
_BPF_JUMP_EQUAL: Final = 0x15
_BPF_RETURN: Final = 0x06


def open_notifications(namespace: Path | None) -> socket.socket:
    """Open a non-blocking socket that hears of links, forwarding entries, IP addresses and multicast memberships."""
    return run_in_namespace(namespace, _notification_socket)


def drain(notices: socket.socket, dispatch: Callable[[int, bytes], None], lost: Callable[[], None]) -> None:
    """Pass on every message that waits, until the socket is closed; call `lost` where the kernel dropped some."""
    while notices.fileno() >= 0:
        try:
            datagram = notices.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            lost()
            continue
        for kind, data in messages(datagram):
            dispatch(kind, data)


def _leave_out_neighbours(notices: socket.socket) -> None:
    """Let the kernel pass on no entries of ARP and neighbour discovery: they tell nothing of address lists.

    A classic BPF program: of messages of type RTM_NEWNEIGH and RTM_DELNEIGH, those of family AF_BRIDGE pass.
    """
    added, removed = (socket.htons(kind) for kind in (RTM_NEWNEIGH, RTM_DELNEIGH))  # BPF loads big-endian
    program = b"".join(
        _SOCK_FILTER.pack(*instruction)
        for instruction in (
            (_BPF_LOAD_HALF, 0, 0, 4),  # nlmsg_type
            (_BPF_JUMP_EQUAL, 1, 0, added),
            (_BPF_JUMP_EQUAL, 0, 2, removed),
            (_BPF_LOAD_BYTE, 0, 0, HEADER.size),  # ndm_family
            (_BPF_JUMP_EQUAL, 0, 1, AF_BRIDGE),
            (_BPF_RETURN, 0, 0, 0xFFFFFFFF),
            (_BPF_RETURN, 0, 0, 0),
        )
    )
    held = ctypes.create_string_buffer(program)
    described = struct.pack("HL", len(program) // _SOCK_FILTER.size, ctypes.addressof(held))
    notices.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _notification_socket() -> socket.socket:
    made = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind((0, 0))
    _leave_out_neighbours(made)
    for group in (_GROUP_LINK, _GROUP_NEIGH, *_GROUPS_ADDRESS, *_GROUPS_MULTICAST):
        try:
            made.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)
        except OSError:
            if group not in _GROUPS_MULTICAST:
                made.close()
                raise
    return made
