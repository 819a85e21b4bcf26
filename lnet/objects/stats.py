"""What is reported of messages, and what `lnetctl stats show` and the statistics of interfaces count.

Source: the public struct lnet_counters, lnet_element_stats and lnet_ioctl_comm_count.
"""

from __future__ import annotations

import errno
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibRoute

KINDS: Final = ("put", "get", "reply", "ack", "hello")
"""Types of messages. There is no ACK and no HELLO here: the connection takes the place of both."""
COUNTERS: Final = (
    *("msgs_alloc", "msgs_max", "rst_alloc", "errors"),
    *("send_count", "resend_count", "response_timeout_count"),
    *("local_interrupt_count", "local_dropped_count", "local_aborted_count", "local_no_route_count"),
    *("local_timeout_count", "local_error_count"),
    *("remote_dropped_count", "remote_error_count", "remote_timeout_count", "network_timeout_count"),
    *("failed_resends", "successful_resends", "recv_count", "route_count", "drop_count"),
    *("send_length", "recv_length", "route_length", "drop_length"),
)
"""The counters of a node, in the order of lnetctl."""
_COUNTED: Final = {"sent": "send", "received": "recv", "dropped": "drop"}
NiStats = dict[str, Counter[str]]
"""Messages of one interface, here or at a peer: sent, received and dropped, by their type."""


def no_stats() -> NiStats:
    """Return the statistics of an interface that has carried nothing."""
    return {what: Counter() for what in _COUNTED}


class Traffic:
    """The counters of a node, of its interfaces and of those of its peers."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        """Of the node, since its start or the last reset (lnetctl stats reset), by the names of `COUNTERS`."""
        self.locals: defaultdict[Nid, NiStats] = defaultdict(no_stats)
        """Of its interfaces."""
        self.remotes: defaultdict[Nid, NiStats] = defaultdict(no_stats)
        """Of those of its peers."""

    def count(self, what: str, kind: str, local: Nid, remote: Nid, nob: int) -> None:
        """Count a message that was handed to a connection, arrived, or arrived and had no receiver.

        Args:  what: sent, received or dropped. kind: put, get or reply. nob: payload bytes.
        """
        for stats in (self.locals[local], self.remotes[remote]):
            stats[what][kind] += 1
        self.counters[f"{_COUNTED[what]}_count"] += 1
        self.counters[f"{_COUNTED[what]}_length"] += nob

    def in_flight(self, count: int) -> None:
        """Note how many messages are not reported yet."""
        self.counters["msgs_alloc"] = count
        self.counters["msgs_max"] = max(self.counters["msgs_max"], count)


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
