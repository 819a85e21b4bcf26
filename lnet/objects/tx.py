"""A message in flight (kib_tx), its report, and the queue of messages to one peer."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibNet, KibRoute, KibRoutes

if TYPE_CHECKING:
    from lnet.o2iblnd.peer import KibPeer

MESSAGE_WINDOW: Final = 1024
"""Maximum span of the numbers of the messages in flight to one peer; the peer remembers as many numbers."""


class TxKind(Enum):
    """Kind of a message."""

    PUT = "put"
    GET = "get"


@dataclass(slots=True, eq=False)
class KibTx:
    """A message, from the call that sends it until its report."""

    msg_id: int
    kind: TxKind
    net: KibNet
    nid: Nid
    deadline: float
    timeout_s: float
    data: bytes = b""
    """PUT: the payload."""
    length: int = 0
    """GET: bytes requested."""
    match_bits: int = 0
    hdr_data: int = 0
    ptl_index: int = 0
    object_cookie: int = 0
    """Sequence number of the message among those to the peer; 0 until it enters the window."""
    peer: KibPeer | None = None
    """The connection on which it is queued or in flight."""
    route: KibRoute | None = None
    """The last route it took."""
    attempts: int = 0
    handed: bool = False
    """Whether its connection has begun to send it."""
    doubt_stamp: int = 0
    """Incarnation of the peer that may have received the message without acknowledging it; 0: none."""
    overdue: bool = False
    """Past its deadline; kept only because it is in doubt."""


@dataclass(slots=True, eq=False)
class PeerQueue:
    """The messages to one NID, with its routes."""

    routes: KibRoutes
    next_cookie: int = 1
    in_flight: dict[int, KibTx] = field(default_factory=dict)
    """By object_cookie, oldest first."""
    backlog: deque[KibTx] = field(default_factory=deque)
    """Messages that wait to enter the window."""
    parked: deque[KibTx] = field(default_factory=deque)
    """Messages without a usable route."""
    connected: bool = False
    """Whether a route has ever been up, so that the peer may remember numbers."""

    def admit(self, tx: KibTx) -> bool:
        """Number `tx` and return True if the window allows it."""
        oldest = next(iter(self.in_flight), self.next_cookie)
        if self.next_cookie - oldest >= MESSAGE_WINDOW:
            return False
        tx.object_cookie = self.next_cookie
        self.next_cookie += 1
        self.in_flight[tx.object_cookie] = tx
        return True


@dataclass(frozen=True, slots=True)
class SendDone:
    """The peer has received the message (PUT), or its data has arrived (GET)."""

    msg_id: int
    nid: Nid
    route: KibRoute
    nob: int
    """Payload bytes."""
    attempts: int
    data: bytes = b""
    """GET: the fetched data."""


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The message has failed and will not be delivered; if `in_doubt`, it may already have been."""

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
    """A PUT was delivered; it is reported once."""

    src_nid: Nid
    dst_nid: Nid
    dev: KibDev
    match_bits: int
    hdr_data: int
    data: bytes


@dataclass(frozen=True, slots=True)
class NetRemoved:
    """The removal of a network is complete: no message of it is in flight."""

    nid: Nid


Report = SendDone | SendFailed | Received | NetRemoved
