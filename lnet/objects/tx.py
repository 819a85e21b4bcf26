"""A message in flight (kib_tx) and its report."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibRoute
from lnet.settings.health import HealthStatus

if TYPE_CHECKING:
    from lnet.o2iblnd.peer import KibPeer
    from lnet.objects.peers import LocalNi, Peer, PeerNi


class TxKind(Enum):
    """Kind of a message."""

    PUT = "put"
    GET = "get"


@dataclass(slots=True, eq=False)
class KibTx:
    """A message, from the call that sends it until its report."""

    msg_id: int
    """Its number among all messages of this node; the receiver knows the message by it."""
    kind: TxKind
    nid: Nid
    timeout_s: float
    data: bytes = b""
    """PUT: the payload."""
    length: int = 0
    """GET: bytes requested."""
    match_bits: int = 0
    hdr_data: int = 0
    ptl_index: int = 0
    deadline: float = 0.0
    to: Peer | None = None
    """None: it has failed before it was sent."""
    place: int = 0
    """Its place in the window of the peer; 0 until it enters the window."""
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

    # Multi-Rail
    local: LocalNi | None = None
    """The pair of interfaces of the attempt in progress: here, ..."""
    remote: PeerNi | None = None
    """... and there; both None between attempts."""
    source: Nid | None = None
    """The only local interface it may take; None: any."""
    only: Nid | None = None
    """The only interface of the peer it may take; None: any."""
    retries: int = 0
    recovery: bool = False
    """A recovery ping: it is not sent again."""
    attempt_deadline: float = 0.0
    """Until when the attempt in progress may last, in seconds; 0: as long as the message."""
    then: Callable[[SendDone | SendFailed], None] | None = None
    """Gets the report of a message of LNet itself, in place of the user."""
    last: tuple[HealthStatus, str] | None = None
    """How the last attempt failed."""

    @property
    def may_be_there(self) -> bool:
        """Whether the peer may have received the message."""
        return bool(self.doubt_stamp) or (self.peer is not None and self.peer.in_doubt(self))

    @property
    def nob(self) -> int:
        """Bytes of the payload that it sends or asks for."""
        return len(self.data) or self.length


@dataclass(frozen=True, slots=True)
class SendDone:
    """The peer has handed the message on (PUT), or its data has arrived (GET)."""

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
