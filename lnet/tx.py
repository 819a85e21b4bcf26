"""A message on its way (kib_tx), what becomes of it, and the queue of all messages to one peer."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from lnet.nid import Nid
from lnet.objects import KibDev, KibNet, KibRoute, KibRoutes

if TYPE_CHECKING:
    from lnet.peer import KibPeer

MESSAGE_WINDOW: Final = 1024
"""The numbers of messages on the way to one peer never span more; the peer remembers as many."""


class TxKind(Enum):
    """What is asked of LNet."""

    PUT = "put"
    GET = "get"


@dataclass(slots=True, eq=False)
class KibTx:
    """One message, from the call that sends it to its one report."""

    msg_id: int
    kind: TxKind
    net: KibNet
    nid: Nid
    deadline: float
    timeout_s: float
    data: bytes = b""
    """PUT: the payload."""
    length: int = 0
    """GET: bytes wanted."""
    match_bits: int = 0
    hdr_data: int = 0
    ptl_index: int = 0
    object_cookie: int = 0
    """Number of the message among those to the peer; 0 until it enters the window."""
    peer: KibPeer | None = None
    """The connection it waits on or travels over."""
    route: KibRoute | None = None
    """The route it took last."""
    attempts: int = 0
    doubt_stamp: int = 0
    """Incarnation of the peer that may have the message although nothing says so; 0: none."""
    overdue: bool = False
    """Past its deadline, kept only because it is in doubt."""


@dataclass(slots=True, eq=False)
class PeerQueue:
    """Messages to one NID, beside its routes."""

    routes: KibRoutes
    next_cookie: int = 1
    outstanding: dict[int, KibTx] = field(default_factory=dict)
    """By object_cookie, oldest first."""
    backlog: deque[KibTx] = field(default_factory=deque)
    """Wait for the window."""
    parked: deque[KibTx] = field(default_factory=deque)
    """Have no usable route."""
    connected: bool = False
    """A route has been up at some time: the peer may remember numbers."""

    def admit(self, tx: KibTx) -> bool:
        """Give `tx` its number if the window allows."""
        oldest = next(iter(self.outstanding), self.next_cookie)
        if self.next_cookie - oldest >= MESSAGE_WINDOW:
            return False
        tx.object_cookie = self.next_cookie
        self.next_cookie += 1
        self.outstanding[tx.object_cookie] = tx
        return True


@dataclass(frozen=True, slots=True)
class SendDone:
    """The peer has the message (PUT), or its data are here (GET)."""

    msg_id: int
    nid: Nid
    route: KibRoute
    nob: int
    """Payload bytes."""
    attempts: int
    data: bytes = b""
    """GET."""


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The message will not be delivered any more; with `in_doubt` it may have been."""

    msg_id: int
    nid: Nid
    errno: int
    """Negative."""
    reason: str
    in_doubt: bool = False

    def __str__(self) -> str:
        return f"message {self.msg_id} to {self.nid}: {errno.errorcode.get(-self.errno, '?')}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Received:
    """A PUT arrived, once."""

    src_nid: Nid
    dst_nid: Nid
    dev: KibDev
    match_bits: int
    hdr_data: int
    data: bytes


@dataclass(frozen=True, slots=True)
class NetRemoved:
    """A network that was being removed is gone: nothing is on the way any more."""

    nid: Nid


Report = SendDone | SendFailed | Received | NetRemoved
