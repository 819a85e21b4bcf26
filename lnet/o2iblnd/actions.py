"""Actions that the LND requests; it does no I/O itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address


class MsgTag(IntEnum):
    """Tag of a message on a reliable connection; tells the receiver how to read it."""

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
    """Accept a connection that a peer requested."""

    key: int
    private: bytes


@dataclass(frozen=True, slots=True)
class RejectConn:
    """Reject a connection that a peer requested."""

    key: int
    private: bytes


@dataclass(frozen=True, slots=True)
class SendMsg:
    """Send over a connection. The messages of a connection are numbered from 1, in the order of these actions."""

    key: int
    tag: MsgTag
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseConn:
    """Close a connection."""

    key: int


Action = OpenConn | AcceptConn | RejectConn | SendMsg | CloseConn
