"""The kinds of messages, and what is reported of them."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibRoute


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
