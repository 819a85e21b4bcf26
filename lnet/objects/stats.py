"""What is reported of messages, and what `lnetctl stats show` and the statistics of interfaces count.

Source: the public struct lnet_counters, lnet_element_stats and lnet_ioctl_comm_count.
"""

from __future__ import annotations

import errno
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Final

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibRoute
from lnet.settings.health import HealthStatus


@dataclass(slots=True)
class MsgCounts:
    """Messages of LNet by type. There is no ACK and no HELLO here: the connection takes the place of both."""

    put: int = 0
    get: int = 0
    reply: int = 0
    ack: int = 0
    hello: int = 0

    @property
    def total(self) -> int:
        """Messages of all types."""
        return self.put + self.get + self.reply + self.ack + self.hello


@dataclass(slots=True)
class NiStats:
    """Messages of one interface, here or at a peer."""

    sent: MsgCounts = field(default_factory=MsgCounts)
    received: MsgCounts = field(default_factory=MsgCounts)
    dropped: MsgCounts = field(default_factory=MsgCounts)


@dataclass(slots=True)
class LnetCounters:
    """The counters of a node since its start or the last reset, in the order of lnetctl."""

    msgs_alloc: int = 0
    msgs_max: int = 0
    rst_alloc: int = 0
    errors: int = 0
    send_count: int = 0
    resend_count: int = 0
    response_timeout_count: int = 0
    local_interrupt_count: int = 0
    local_dropped_count: int = 0
    local_aborted_count: int = 0
    local_no_route_count: int = 0
    local_timeout_count: int = 0
    local_error_count: int = 0
    remote_dropped_count: int = 0
    remote_error_count: int = 0
    remote_timeout_count: int = 0
    network_timeout_count: int = 0
    failed_resends: int = 0
    successful_resends: int = 0
    recv_count: int = 0
    route_count: int = 0
    drop_count: int = 0
    send_length: int = 0
    recv_length: int = 0
    route_length: int = 0
    drop_length: int = 0


_COUNTERS: Final = {"sent": "send", "received": "recv", "dropped": "drop"}


class Traffic:
    """The counters of a node, of its interfaces and of those of its peers."""

    def __init__(self) -> None:
        self.counters = LnetCounters()
        self.locals: dict[Nid, NiStats] = {}
        self.remotes: dict[Nid, NiStats] = {}

    def reset(self) -> None:
        """Start the counters of the node anew (lnetctl stats reset); those of interfaces go on, as in LNet."""
        self.counters = LnetCounters()

    def local(self, nid: Nid) -> NiStats:
        """Return the statistics of an interface of this node."""
        return self.locals.setdefault(nid, NiStats())

    def remote(self, nid: Nid) -> NiStats:
        """Return the statistics of an interface of a peer."""
        return self.remotes.setdefault(nid, NiStats())

    def forget(self, nid: Nid) -> None:
        """Drop the statistics of a peer's interface that is no longer known."""
        self.remotes.pop(nid, None)

    def count(self, what: str, kind: str, local: Nid, remote: Nid, nob: int) -> None:
        """Count a message that was handed to a connection, arrived, or arrived and had no receiver.

        Args:  what: sent, received or dropped. kind: put, get or reply. nob: payload bytes.
        """
        for stats in (self.local(local), self.remote(remote)):
            _add(getattr(stats, what), kind)
        name = _COUNTERS[what]
        _add(self.counters, f"{name}_count")
        _add(self.counters, f"{name}_length", nob)

    def ended(self, status: HealthStatus) -> None:
        """Count an attempt that failed."""
        _add(self.counters, f"{status.value}_count")

    def in_flight(self, count: int) -> None:
        """Note how many messages are not reported yet."""
        self.counters.msgs_alloc = count
        self.counters.msgs_max = max(self.counters.msgs_max, count)

    def as_document(self) -> dict[str, int]:
        """Return the counters of the node under the names that lnetctl prints."""
        return asdict(self.counters)


def _add(counts: MsgCounts | LnetCounters, name: str, more: int = 1) -> None:
    setattr(counts, name, getattr(counts, name) + more)


class TxKind(Enum):
    """Kind of a message."""

    PUT = "put"
    GET = "get"


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
