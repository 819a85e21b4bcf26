"""The o2iblnd messages (kib_msg), and the refusal of a connection (kib_rej). All structures are packed.

A message is in its sender's byte order; a receiver sees by the magic whether to swap. The LNet header inside
is always little-endian (`lnet.lnet_hdr`).

    offset size  kib_msg          PUT_REQ 0xd2    hdr 72, cookie 8
    0      4     magic            PUT_NAK 0xd3    cookie 8, status 4
    4      2     version          PUT_ACK 0xd4    src_cookie 8, dst_cookie 8, desc
    6      1     type             PUT_DONE 0xd5   cookie 8, status 4
    7      1     credits          GET_REQ 0xd6    hdr 72, cookie 8, desc
    8      4     nob              GET_DONE 0xd7   cookie 8, status 4
    12     4     cksum            IMMEDIATE 0xd1  hdr 72, payload
    16     8     srcnid           NOOP 0xd0       nothing
    24     8     srcstamp         CONNREQ 0xc0    queue_depth 2, max_frags 2, max_msg_size 4
    32     8     dstnid           CONNACK 0xc1    the same
    40     8     dststamp         desc: key 4, nfrags 4, then for each fragment nob 4, addr 8
Source: the public o2iblnd wire structures (kib_msg, kib_rej), version 0x12.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Self

from lnet.errors import ProtocolError

MAGIC: Final = 0x0BE91B91
VERSION_1: Final = 0x11
VERSION: Final = 0x12
"""The only version spoken here."""
HEADER_SIZE: Final = 48
IBLND_MSG_SIZE: Final = 4096
"""Largest message; a payload that fits into one with its headers goes IMMEDIATE."""
LNET_HDR_SIZE: Final = 72
IMMEDIATE_MAX: Final = IBLND_MSG_SIZE - HEADER_SIZE - LNET_HDR_SIZE
"""Most payload bytes of an IMMEDIATE message: 3976."""


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


CREDITED: Final = frozenset({MsgType.IMMEDIATE, MsgType.PUT_REQ, MsgType.GET_REQ})
"""Types that need a credit; answers and NOOP do not, so credits cannot deadlock (version 0x12)."""


class RejectReason(IntEnum):
    """Why a connection was refused (IBLND_REJECT_*)."""

    CONN_RACE = 1
    NO_RESOURCES = 2
    FATAL = 3
    CONN_UNCOMPAT = 4
    """Another version."""
    CONN_STALE = 5
    """Meant for an earlier incarnation of this node, or from one of the peer."""
    RDMA_FRAGS = 6
    MSG_QUEUE_SIZE = 7
    INVALID_SRV_ID = 8


@dataclass(frozen=True, slots=True)
class ConnParams:
    """What the two ends agree on; the accepting side may lower what was asked."""

    queue_depth: int
    """Credits, 16 bits."""
    max_frags: int
    """Fragments of one RDMA, 16 bits."""
    max_msg_size: int
    """Bytes, 32 bits."""


@dataclass(frozen=True, slots=True)
class RdmaFrag:
    """A piece of registered memory: length (32 bits) and address (64 bits)."""

    nob: int
    addr: int


@dataclass(frozen=True, slots=True)
class RdmaDesc:
    """Memory that the peer may write: its key, and its fragments in order."""

    key: int
    frags: tuple[RdmaFrag, ...]

    @property
    def nob(self) -> int:
        """Bytes of all fragments."""
        return sum(frag.nob for frag in self.frags)


@dataclass(frozen=True, slots=True)
class KibMsg:
    """One message. Which of the fields behind `dststamp` count is said by `type`."""

    type: int
    version: int = VERSION
    credits: int = 0
    srcnid: int = 0
    srcstamp: int = 0
    dstnid: int = 0
    dststamp: int = 0
    connparams: ConnParams | None = None
    extra: bytes = b""
    """CONNREQ, CONNACK: what follows the parameters (`lnet.announce`); others ignore it."""
    hdr: bytes = b""
    """IMMEDIATE, PUT_REQ, GET_REQ: 72 bytes."""
    payload: bytes = b""
    """IMMEDIATE."""
    cookie: int = 0
    """PUT_REQ, GET_REQ, and the answers; src_cookie of PUT_ACK."""
    dst_cookie: int = 0
    """PUT_ACK."""
    status: int = 0
    """PUT_NAK, PUT_DONE, GET_DONE: 0 or more, or a negative errno."""
    desc: RdmaDesc | None = None
    """PUT_ACK, GET_REQ."""

    def build(self, order: str = "<", *, checksum: bool = False) -> bytes:
        """Return the bytes, in little-endian (`<`) or big-endian (`>`) order.

        Raises:  ValueError: a field is missing or wider than its place.
        """
        try:
            body = self._build_body(order)
            nob = HEADER_SIZE + len(body)
            header = _header(order)
            stamps = (self.srcnid, self.srcstamp, self.dstnid, self.dststamp)
            start = (MAGIC, self.version, self.type, self.credits, nob)
            message = header.pack(*start, 0, *stamps) + body
            if checksum:
                message = header.pack(*start, cksum(message), *stamps) + body
        except (struct.error, AttributeError) as error:
            raise ValueError(f"{self} cannot be built: {error}") from None
        return message

    def _build_body(self, order: str) -> bytes:
        kind = self.type
        if kind in (MsgType.CONNREQ, MsgType.CONNACK):
            params = self.connparams
            assert params is not None  # noqa: S101 - made only by the handshake, which sets them
            return (
                struct.pack(order + "HHI", params.queue_depth, params.max_frags, params.max_msg_size)
                + self.extra
            )
        if kind == MsgType.IMMEDIATE:
            return self.hdr + self.payload
        if kind == MsgType.PUT_REQ:
            return self.hdr + struct.pack(order + "Q", self.cookie)
        if kind == MsgType.GET_REQ:
            return self.hdr + struct.pack(order + "Q", self.cookie) + _build_desc(self.desc, order)
        if kind == MsgType.PUT_ACK:
            return struct.pack(order + "QQ", self.cookie, self.dst_cookie) + _build_desc(self.desc, order)
        if kind in (MsgType.PUT_NAK, MsgType.PUT_DONE, MsgType.GET_DONE):
            return struct.pack(order + "Qi", self.cookie, self.status)
        return b""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read one message in either byte order; the checksum is checked where there is one.

        Raises:  ProtocolError: truncated, wrong magic or length, unknown type, bad checksum. A version other
                 than 0x12 is not refused here: only the header is read of it, the handshake answers it.
        """
        if len(data) < HEADER_SIZE:
            raise ProtocolError(f"message of {len(data)} bytes; the header alone has {HEADER_SIZE}")
        order = _order_of(data)
        _, version, kind, returned, nob, sum_, *nids = _header(order).unpack_from(data)
        head = cls(kind, version, returned, *nids)
        if version != VERSION:
            return head
        if nob != len(data):
            raise ProtocolError(f"nob says {nob} bytes, the message has {len(data)}")
        if sum_ and cksum(data[:12] + bytes(4) + data[16:]) != sum_:
            raise ProtocolError(f"checksum {sum_:#010x} is wrong")
        if kind not in _MIN_BODY:
            raise ProtocolError(f"unknown message type {kind:#04x}")
        if nob < HEADER_SIZE + _MIN_BODY[kind]:
            name = MsgType(kind).name
            raise ProtocolError(f"{name} of {nob} bytes; {HEADER_SIZE + _MIN_BODY[kind]} are needed")
        return head._with_body(data[HEADER_SIZE:], order)

    def _with_body(self, body: bytes, order: str) -> Self:
        kind = self.type
        if kind in (MsgType.CONNREQ, MsgType.CONNACK):
            params = ConnParams(*struct.unpack_from(order + "HHI", body))
            return replace(self, connparams=params, extra=body[8:])
        if kind == MsgType.IMMEDIATE:
            return replace(self, hdr=body[:LNET_HDR_SIZE], payload=body[LNET_HDR_SIZE:])
        if kind in (MsgType.PUT_REQ, MsgType.GET_REQ):
            (cookie,) = struct.unpack_from(order + "Q", body, LNET_HDR_SIZE)
            desc = _parse_desc(body[LNET_HDR_SIZE + 8 :], order) if kind == MsgType.GET_REQ else None
            return replace(self, hdr=body[:LNET_HDR_SIZE], cookie=cookie, desc=desc)
        if kind == MsgType.PUT_ACK:
            cookie, dst_cookie = struct.unpack_from(order + "QQ", body)
            return replace(self, cookie=cookie, dst_cookie=dst_cookie, desc=_parse_desc(body[16:], order))
        if kind == MsgType.NOOP:
            return self
        cookie, status = struct.unpack_from(order + "Qi", body)
        return replace(self, cookie=cookie, status=status)


@dataclass(frozen=True, slots=True)
class KibRej:
    """The private data of a refusal: why, and what would have been accepted."""

    why: int
    version: int = VERSION
    incarnation: int = 0
    connparams: ConnParams = ConnParams(0, 0, 0)

    SIZE = 24

    def build(self, order: str = "<") -> bytes:
        """Return the 24 bytes."""
        cp = self.connparams
        return struct.pack(
            order + "IHBxQHHI",
            MAGIC,
            self.version,
            self.why,
            self.incarnation,
            cp.queue_depth,
            cp.max_frags,
            cp.max_msg_size,
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the refusal at the start of `data`, in either byte order.

        Raises:  ProtocolError: truncated, or a wrong magic.
        """
        if len(data) < cls.SIZE:
            raise ProtocolError(f"refusal of {len(data)} bytes; {cls.SIZE} are needed")
        _, version, why, incarnation, *params = struct.unpack_from(_order_of(data) + "IHBxQHHI", data)
        return cls(why, version, incarnation, ConnParams(*params))


_MIN_BODY: Final = {
    MsgType.CONNREQ: 8,
    MsgType.CONNACK: 8,
    MsgType.NOOP: 0,
    MsgType.IMMEDIATE: LNET_HDR_SIZE,
    MsgType.PUT_REQ: LNET_HDR_SIZE + 8,
    MsgType.PUT_NAK: 12,
    MsgType.PUT_ACK: 16 + 8,
    MsgType.PUT_DONE: 12,
    MsgType.GET_REQ: LNET_HDR_SIZE + 8 + 8,
    MsgType.GET_DONE: 12,
}
_HEADERS: Final = {order: struct.Struct(order + "IHBBIIQQQQ") for order in "<>"}


def _header(order: str) -> struct.Struct:
    return _HEADERS[order]


def _order_of(data: bytes) -> str:
    for order in "<>":
        if struct.unpack_from(order + "I", data)[0] == MAGIC:
            return order
    raise ProtocolError(f"magic {data[:4].hex()} is not {MAGIC:#010x} in either byte order")


def _build_desc(desc: RdmaDesc | None, order: str) -> bytes:
    assert desc is not None  # noqa: S101 - every message that has a place for one is made with one
    frags = b"".join(struct.pack(order + "IQ", frag.nob, frag.addr) for frag in desc.frags)
    return struct.pack(order + "II", desc.key, len(desc.frags)) + frags


def _parse_desc(body: bytes, order: str) -> RdmaDesc:
    key, count = struct.unpack_from(order + "II", body)
    if len(body) < 8 + count * 12:
        raise ProtocolError(f"{count} RDMA fragments do not fit {len(body)} bytes")
    frags = (struct.unpack_from(order + "IQ", body, 8 + index * 12) for index in range(count))
    return RdmaDesc(key, tuple(RdmaFrag(nob, addr) for nob, addr in frags))


def cksum(data: bytes) -> int:
    """Return o2iblnd's checksum: rotate left by one, add the byte; never 0, which means "none".

    Source: the public kiblnd_cksum().
    """
    total = 0
    for byte in data:
        total = (((total << 1) & 0xFFFFFFFF) | total >> 31) + byte & 0xFFFFFFFF
    return total or 1
