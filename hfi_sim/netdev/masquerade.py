"""One rule of nftables: what comes from a network, or leaves by an interface, gets the address of the way it takes.

The table has a name of ours and, with Linux 5.12, an owner, which is a socket: no other program can change it, and the
kernel removes it when the socket is closed, however its process ends. Messages are laid down by hand: there are five.

Source: the kernel's uapi/linux/netfilter/nf_tables.h and nfnetlink.h.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.namespace import run_in_namespace

NETLINK_NETFILTER: Final = 12
_ANSWER_S: Final = 5.0
_CREATE: Final = 0x400
_APPEND: Final = 0x800
_BATCH_BEGIN: Final = 16
_BATCH_END: Final = 17
_SUBSYSTEM: Final = 10
_NEWTABLE: Final = _SUBSYSTEM << 8 | 0
_NEWCHAIN: Final = _SUBSYSTEM << 8 | 3
_NEWRULE: Final = _SUBSYSTEM << 8 | 6
_FAMILY_IPV4: Final = 2
_TABLE_OWNER: Final = 0x2
_POSTROUTING: Final = 4
_PRIORITY_SRCNAT: Final = 100
_REGISTER: Final = 1
_NETWORK_HEADER: Final = 1
_SOURCE_OFFSET: Final = 12
_CHAIN: Final = "postrouting"


class Masquerade:
    """The rule, for as long as this object is open."""

    def __init__(self, table: str, source: ipaddress.IPv4Network, held: Path | None) -> None:
        """Set the rule in a namespace.

        Args:    table: its name; no table may have it. source: packets from there get another address.
        Raises:  NetdevError: the kernel has no nf_tables, or refuses.
        """
        self._socket = run_in_namespace(held, _open)
        try:
            self._send(table, source)
        except OSError as error:
            self.close()
            reason = "a table of that name exists" if error.errno == errno.EEXIST else error.strerror
            raise NetdevError(
                f"cannot make the nftables table {table}: {reason}", error.errno or 0
            ) from error

    def close(self) -> None:
        """Take the rule away. May be called twice."""
        self._socket.close()

    def _send(self, table: str, source: ipaddress.IPv4Network) -> None:
        name = _text(1, table)
        requests = (
            (_NEWTABLE, nl.NLM_F_CREATE_EXCL, name + _number(2, _TABLE_OWNER)),
            (
                _NEWCHAIN,
                _CREATE,
                name
                + _text(3, _CHAIN)
                + _nest(4, _number(1, _POSTROUTING) + _number(2, _PRIORITY_SRCNAT))
                + _text(7, "nat"),
            ),
            (
                _NEWRULE,
                _CREATE | _APPEND,
                name + _text(2, _CHAIN) + _nest(4, _from(source) + _term("masq", b"")),
            ),
        )
        batch = _message(_BATCH_BEGIN, 0, 1, 0, _SUBSYSTEM)
        for number, (kind, flags, body) in enumerate(requests, start=2):
            batch += _message(kind, flags | nl.NLM_F_ACK, number, _FAMILY_IPV4, 0, body)
        batch += _message(_BATCH_END, 0, len(requests) + 2, 0, _SUBSYSTEM)
        self._socket.send(batch)
        for _ in requests:
            _, kind, _, _, _ = nl.HEADER.unpack_from(answer := self._socket.recv(1 << 16))
            if kind == nl.NLMSG_ERROR and (number := nl.errno_of(answer)):
                raise OSError(number, os.strerror(number))


def _open() -> socket.socket:
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    except OSError as error:
        raise NetdevError(f"this kernel has no netfilter: {error.strerror}", error.errno or 0) from error
    made.bind((0, 0))
    made.settimeout(_ANSWER_S)
    return made


def _from(source: ipaddress.IPv4Network) -> bytes:
    """Return the terms of a rule that hold for packets from a network."""
    load = _number(1, _REGISTER) + _number(2, _NETWORK_HEADER) + _number(3, _SOURCE_OFFSET) + _number(4, 4)
    mask = _number(1, _REGISTER) + _number(2, _REGISTER) + _number(3, 4)
    mask += _nest(4, nl.build_attribute(1, source.netmask.packed)) + _nest(5, nl.build_attribute(1, bytes(4)))
    same = (
        _number(1, _REGISTER) + _number(2, 0) + _nest(3, nl.build_attribute(1, source.network_address.packed))
    )
    return _term("payload", load) + _term("bitwise", mask) + _term("cmp", same)


def _term(name: str, data: bytes) -> bytes:
    return _nest(1, _text(1, name) + _nest(2, data))


def _message(kind: int, flags: int, number: int, family: int, resource: int, body: bytes = b"") -> bytes:
    head = struct.pack("=BBH", family, 0, socket.htons(resource))
    return (
        nl.HEADER.pack(nl.HEADER.size + len(head) + len(body), kind, flags | nl.NLM_F_REQUEST, number, 0)
        + head
        + body
    )


def _nest(kind: int, value: bytes) -> bytes:
    return nl.build_attribute(kind | nl.NLA_F_NESTED, value)


def _text(kind: int, text: str) -> bytes:
    return nl.build_attribute(kind, text.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return nl.build_attribute(kind, struct.pack(">I", value))
