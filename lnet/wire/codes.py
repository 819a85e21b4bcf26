"""Code points of o2iblnd and LNet.

Source: the public o2iblnd (IBLND_MSG_*, IBLND_REJECT_*) and LNet (LNET_MSG_*) constants.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

VERSION: Final = 0x12
VERSION_1: Final = 0x11
"""The version before: its NOOP uses up a credit, its queue depth is fixed, its rejection ends with the reason."""
VERSIONS: Final = (VERSION_1, VERSION)
QUEUE_DEPTH_1: Final = 8
"""Credits of a connection of version 0x11 (IBLND_MSG_QUEUE_SIZE_V1)."""
HIGHWATER_1: Final = 7
"""Credits owed on it that are worth a NOOP (IBLND_CREDIT_HIGHWATER_V1)."""


class MsgType(IntEnum):
    """Types of kib_msg (IBLND_MSG_*)."""

    CONNREQ = 0xC0
    CONNACK = 0xC1
    NOOP = 0xD0
    IMMEDIATE = 0xD1
    PUT_REQ = 0xD2
    PUT_NAK = 0xD3
    PUT_ACK = 0xD4
    PUT_DONE = 0xD5
    GET_REQ = 0xD6
    GET_DONE = 0xD7


class RejectReason(IntEnum):
    """Reasons for rejecting a connection (IBLND_REJECT_*)."""

    CONN_RACE = 1
    NO_RESOURCES = 2
    FATAL = 3
    CONN_UNCOMPAT = 4
    """Unsupported version."""
    CONN_STALE = 5
    """Addressed to an earlier incarnation of this node, or sent by an earlier incarnation of the peer."""
    RDMA_FRAGS = 6
    MSG_QUEUE_SIZE = 7
    INVALID_SRV_ID = 8
    EARLY = 9
    """LNet of the peer is still starting; it is tried again."""


class LnetMsgType(IntEnum):
    """Types of LNet messages (LNET_MSG_*). There is no ACK or REPLY: the connection takes their place."""

    PUT = 1
    GET = 2


class Char(StrEnum):
    """How the sender takes a byte."""

    SIGNED = "signed"
    """-128 to 127, as x86 kernels before 6.2."""
    UNSIGNED = "unsigned"
    """0 to 255, as kernels since 6.2, and any kernel on Arm."""
