"""What the LND wants done: it opens no connection itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address


class MsgTag(IntEnum):
    """What a message of a reliable connection is, for the receiver."""

    KIB_MSG = 1
    RDMA_WRITE = 2


@dataclass(frozen=True, slots=True)
class OpenConn:
    """Connect device `dev` to the port with address `addr`."""

    key: int
    dev: str
    addr: IPv4Address
    private: bytes


@dataclass(frozen=True, slots=True)
class AcceptConn:
    """Grant the connection that a peer asked for."""

    key: int
    private: bytes


@dataclass(frozen=True, slots=True)
class RejectConn:
    """Refuse it."""

    key: int
    private: bytes


@dataclass(frozen=True, slots=True)
class SendMsg:
    """Send over a connection; messages of one connection are numbered from 1 in this order."""

    key: int
    tag: MsgTag
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseConn:
    """Close a connection."""

    key: int


Action = OpenConn | AcceptConn | RejectConn | SendMsg | CloseConn
