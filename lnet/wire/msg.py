"""The o2iblnd messages (kib_msg), and the rejection of a connection (kib_rej). All structures are packed.

A message is in its sender's byte order, which the receiver recognizes by the magic. The LNet header inside is
always little-endian (`lnet.wire.lnet_hdr`). `lnet.wire.layouts` declares the structures.

Source: the public o2iblnd wire structures (kib_msg, kib_rej), versions 0x11 and 0x12, which differ in their rejection.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from lnet.base.errors import ProtocolError
from lnet.wire import layouts
from lnet.wire.codes import VERSION, VERSION_1, VERSIONS, Char, MsgType

MAGIC: Final = 0x0BE91B91
IBLND_MSG_SIZE: Final = 4096
"""Maximum size of a message, in bytes. A PUT that fits with its headers is sent as IMMEDIATE."""

MIN_MSG_SIZE: Final = layouts.HEADER_SIZE + layouts.MIN_BODY[MsgType.GET_REQ] + layouts.RDMA_FRAG["<"].size
"""Minimum of `max_msg_size`: a GET_REQ with one fragment."""

CREDITED: Final = frozenset({MsgType.IMMEDIATE, MsgType.PUT_REQ, MsgType.GET_REQ})
"""Types that consume a credit. Answers and NOOP do not, so that credits cannot deadlock (version 0x12)."""
CREDITED_1: Final = CREDITED | {MsgType.NOOP}
"""The same in version 0x11, whose sender keeps the last credit for a NOOP."""


@dataclass(frozen=True, slots=True)
class ConnParams:
    """Connection parameters. The accepting side may lower those that were requested."""

    queue_depth: int
    """Credits, 16 bits."""
    max_frags: int
    """Fragments of one RDMA, 16 bits."""
    max_msg_size: int
    """Bytes, 32 bits."""

    def at_most(self, other: ConnParams) -> ConnParams:
        """Return these with no more credits and fragments than others have."""
        depth, frags = min(self.queue_depth, other.queue_depth), min(self.max_frags, other.max_frags)
        return ConnParams(depth, frags, self.max_msg_size)

    @property
    def immediate_max(self) -> int:
        """Maximum payload of an IMMEDIATE message."""
        return self.max_msg_size - layouts.HEADER_SIZE - layouts.LNET_HDR_SIZE

    @property
    def frags_max(self) -> int:
        """Maximum fragments of one RDMA whose descriptor fits in a message."""
        fit = (
            self.max_msg_size - layouts.HEADER_SIZE - layouts.MIN_BODY[MsgType.GET_REQ]
        ) // layouts.RDMA_FRAG["<"].size
        return min(self.max_frags, fit)


@dataclass(frozen=True, slots=True)
class RdmaFrag:
    """A piece of registered memory: length (32 bits) and address (64 bits)."""

    nob: int
    addr: int


@dataclass(frozen=True, slots=True)
class RdmaDesc:
    """Memory that the peer may write: a key, and the fragments in order."""

    key: int
    frags: tuple[RdmaFrag, ...]

    @property
    def nob(self) -> int:
        """Total bytes of the fragments."""
        return sum(frag.nob for frag in self.frags)


@dataclass(frozen=True, slots=True)
class KibMsg:
    """One message. Which of the fields after `dststamp` are used depends on `type`."""

    type: int
    version: int = VERSION
    credits: int = 0
    srcnid: int = 0
    srcstamp: int = 0
    dstnid: int = 0
    dststamp: int = 0
    connparams: ConnParams | None = None
    extra: bytes = b""
    """CONNREQ, CONNACK: bytes after the parameters (`lnet.wire.layouts.ANNOUNCE`); others ignore them."""
    hdr: bytes = b""
    """IMMEDIATE, PUT_REQ, GET_REQ: 72 bytes."""
    payload: bytes = b""
    """IMMEDIATE."""
    cookie: int = 0
    """PUT_REQ, GET_REQ, and the answers; src_cookie of PUT_ACK."""
    dst_cookie: int = 0
    """PUT_ACK."""
    status: int = 0
    """PUT_NAK, PUT_DONE, GET_DONE: 0 or more for success, or a negative errno."""
    desc: RdmaDesc | None = None
    """PUT_ACK, GET_REQ."""

    def build(self, order: str = "<", *, checksum: Char | None = None) -> bytes:
        """Return the bytes, in little-endian (`<`) or big-endian (`>`) order.

        Args:    checksum: the form of the checksum; None: without one.

        Raises:  ValueError: a field is missing, or a value does not fit its field.
        """
        try:
            body = self._build_body(order)
            nob = layouts.HEADER_SIZE + len(body)
            header = layouts.KIB_MSG[order].codec
            stamps = (self.srcnid, self.srcstamp, self.dstnid, self.dststamp)
            start = (MAGIC, self.version, self.type, self.credits, nob)
            message = header.pack(*start, 0, *stamps) + body
            if checksum is not None:
                message = header.pack(*start, cksum(message, checksum), *stamps) + body
        except (struct.error, AttributeError) as error:
            raise ValueError(f"{self} cannot be built: {error}") from None
        return message

    def _build_body(self, order: str) -> bytes:
        kind, numbers = self.type, layouts.NUMBERS.get(self.type)
        body = self.hdr if kind in layouts.WITH_HDR else b""
        if numbers is not None:
            body += numbers[order].pack(self.connparams if numbers is layouts.CONN_PARAMS else self)
        if kind in layouts.WITH_DESC:
            body += _build_desc(self.desc, order)
        if kind == MsgType.IMMEDIATE:
            return body + self.payload
        return body + self.extra if numbers is layouts.CONN_PARAMS else body

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read one message in either byte order and verify its checksum, if it has one, in either form.

        If the version is not one of `VERSIONS`, only the header is read and no error is raised, so that the handshake
        can reply.

        Raises:  ProtocolError: truncated, wrong magic or length, unknown type, bad checksum.
        """
        if len(data) < layouts.HEADER_SIZE:
            raise ProtocolError(f"message of {len(data)} bytes; the header alone has {layouts.HEADER_SIZE}")
        order = _order_of(data)
        _, version, kind, returned, nob, sum_, *nids = layouts.KIB_MSG[order].codec.unpack_from(data)
        head = cls(kind, version, returned, *nids)
        if version not in VERSIONS:
            return head
        if nob != len(data):
            raise ProtocolError(f"nob says {nob} bytes, the message has {len(data)}")
        if sum_ and not is_cksum(sum_, data[:12] + bytes(4) + data[16:]):
            raise ProtocolError(f"checksum {sum_:#010x} is wrong")
        if kind not in layouts.MIN_BODY:
            raise ProtocolError(f"unknown message type {kind:#04x}")
        if nob < layouts.HEADER_SIZE + layouts.MIN_BODY[kind]:
            name = MsgType(kind).name
            raise ProtocolError(
                f"{name} of {nob} bytes; {layouts.HEADER_SIZE + layouts.MIN_BODY[kind]} are needed"
            )
        return head._with_body(data[layouts.HEADER_SIZE :], order)

    def _with_body(self, body: bytes, order: str) -> Self:
        kind, numbers = self.type, layouts.NUMBERS.get(self.type)
        found: dict[str, Any] = {}
        if kind in layouts.WITH_HDR:
            found["hdr"], body = body[: layouts.LNET_HDR_SIZE], body[layouts.LNET_HDR_SIZE :]
        if numbers is not None:
            header = numbers[order]
            values = dict(zip(header.names, header.unpack(body), strict=True))
            found |= {"connparams": ConnParams(**values)} if numbers is layouts.CONN_PARAMS else values
            body = body[header.size :]
        if kind in layouts.WITH_DESC:
            found["desc"] = _parse_desc(body, order)
        elif kind == MsgType.IMMEDIATE:
            found["payload"] = body
        elif numbers is layouts.CONN_PARAMS:
            found["extra"] = body
        return replace(self, **found)


@dataclass(frozen=True, slots=True)
class KibRej:
    """The private data of a rejection: the reason, and the parameters that would be accepted.

    In version 0x11 it ends with the reason.
    """

    why: int
    version: int = VERSION
    incarnation: int = 0
    connparams: ConnParams = ConnParams(0, 0, 0)

    SIZE = layouts.KIB_REJ["<"].size
    SIZE_1 = 7

    def build(self, order: str = "<") -> bytes:
        """Return the 24 bytes, or the 7 of version 0x11."""
        head = {"magic": MAGIC, "version": self.version, "why": self.why, "padding": b"\0"}
        params = asdict(self.connparams)
        whole = layouts.KIB_REJ[order].pack_values({**head, "incarnation": self.incarnation, **params})
        return whole[: self.SIZE_1] if self.version == VERSION_1 else whole

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the rejection at the start of `data`, in either byte order.

        Raises:  ProtocolError: truncated, or a wrong magic.
        """
        if len(data) < cls.SIZE_1:
            raise ProtocolError(f"rejection of {len(data)} bytes; {cls.SIZE_1} are needed")
        codec = layouts.KIB_REJ[_order_of(data)].codec
        _, version, why, _, incarnation, *params = codec.unpack_from(data[: cls.SIZE].ljust(cls.SIZE, b"\0"))
        if version == VERSION_1:
            return cls(why, version)
        if len(data) < cls.SIZE:
            raise ProtocolError(f"rejection of {len(data)} bytes; {cls.SIZE} are needed")
        return cls(why, version, incarnation, ConnParams(*params))


def _order_of(data: bytes) -> str:
    for order, header in layouts.KIB_MSG.items():
        if int.from_bytes(data[:4], header.order) == MAGIC:
            return order
    raise ProtocolError(f"magic {data[:4].hex()} is not {MAGIC:#010x} in either byte order")


def _build_desc(desc: RdmaDesc | None, order: str) -> bytes:
    assert desc is not None  # noqa: S101 - PUT_ACK and GET_REQ are always made with one
    frags = b"".join(layouts.RDMA_FRAG[order].codec.pack(frag.nob, frag.addr) for frag in desc.frags)
    return layouts.RDMA_DESC[order].codec.pack(desc.key, len(desc.frags)) + frags


def _parse_desc(body: bytes, order: str) -> RdmaDesc:
    key, count = layouts.RDMA_DESC[order].codec.unpack_from(body)
    start, size = layouts.RDMA_DESC[order].size, layouts.RDMA_FRAG[order].size
    if len(body) < start + count * size:
        raise ProtocolError(f"{count} RDMA fragments do not fit in {len(body)} bytes")
    frags = layouts.RDMA_FRAG[order].unpack_all(body[start : start + count * size])
    return RdmaDesc(key, tuple(RdmaFrag(nob, addr) for nob, addr in frags))


def cksum(data: bytes, char: Char) -> int:
    """Return o2iblnd's checksum, 32 bits: rotate left by one, add the byte; never 0, which means "none".

    A byte is a plain `char` of C: hosts with different kernels compute different sums as soon as one is 0x80 or more.
    Source: the public kiblnd_cksum(); the kernel's change to -funsigned-char in 6.2.
    """
    high = 0x80 if char is Char.SIGNED else 0x100
    total = 0
    for byte in data:
        value = byte if byte < high else byte - 0x100
        total = (((total << 1) & 0xFFFFFFFF) | total >> 31) + value & 0xFFFFFFFF
    return total or 1


def is_cksum(total: int, data: bytes) -> bool:
    """Return whether `total` is the checksum of `data` in either form."""
    return any(cksum(data, char) == total for char in Char)
