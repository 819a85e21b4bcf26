"""The messages between the ends of a link between machines: trains, requests to open, grants of room.

All numbers are big-endian. A message names its version, its fabric and the lives of both ends, so that messages of an
earlier process, another fabric or another version are recognised, counted and never taken for packets of this link.
The common head comes first. TRAIN and BOTH end with a body: the number of packets, their lengths, the packets.

In a lab with native threads, native/engine/src/crossing.rs builds and parses the bodies; a test compares the two.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from hfi_sim.base.errors import WireError
from hfi_sim.wire.header import structure
from opavnic.cluster.errors import MessageError
from opavnic.datapath.selection import load_native

PROTOCOL: Final = 3
"""Version of the messages, keys and requests between nodes; a node with another version is refused."""
MAX_PACKETS: Final = 4096
"""Packets of a train; with this many short packets, the cost per message no longer matters."""
MAX_TRAIN: Final = 720 << 10
"""Most bytes of a train's packets: the cost of a message is spread over this many bytes (docs/cluster-
transport.md). With heads and lengths they fill twelve of Zenoh's batches.
"""
MAX_PACKET: Final = 2047 * 8 + 2
"""Bytes of a 16B packet, whose 11-bit length field counts quad words, and of the tag behind it
(`hfi_sim.engine.crossing`).
"""
SERVICE_CHANNELS: Final = 32

_MAGIC: Final = b"OV"
_form = partial(structure, order="big", module=__name__, within="message")
_COMMON: Final = _form(
    "common head",
    "u8 magic[2], version, kind; u32 fabric; u8 sc, zero[3]; u64 from_life, to_life; u32 era",
)
_TRAIN: Final = _form("train", "u64 first")
_GRANT: Final = _form("grant", "u64 next, limit, missing; u32 before_era; u64 before")
_BOTH: Final = _form(
    "train with grant", "u64 first; u32 era; u64 next, limit, missing; u32 before_era; u64 before"
)
"""`era` and what follows are the grant, for the link's other direction."""
_COUNT: Final = struct.Struct(">H")
_ZERO: Final = b"\0\0\0"
_KIND_AT: Final = _COMMON.place("kind").offset


def body_size(message: bytes, begin: int) -> tuple[int, int]:
    """Return the number of packets in the body of a message, and their bytes.

    Raises:  MessageError: the body is empty, or the lengths do not match.
    """
    if len(message) < begin + _COUNT.size:
        raise MessageError("length", f"{len(message)} bytes, and no room for the number of packets")
    (count,) = _COUNT.unpack_from(message, begin)
    if not 1 <= count <= MAX_PACKETS:
        raise MessageError("count", f"{count} packets; a train has 1 to {MAX_PACKETS}")
    records = begin + _COUNT.size * (1 + count)
    if len(message) < records:
        raise MessageError("count", f"{count} packets, and no room for their lengths")
    lengths = struct.unpack_from(f">{count}H", message, begin + _COUNT.size)
    shortest, longest = min(lengths), max(lengths)
    if shortest == 0 or longest > MAX_PACKET:
        raise MessageError("length", f"a packet of {shortest} or {longest} bytes")
    size = sum(lengths)
    if len(message) != records + size:
        raise MessageError("length", f"{len(message) - records} bytes of packets, {size} belong there")
    return count, size


def _no_size(message: bytes, begin: int) -> tuple[int, int] | None:
    return None


_native = load_native()
_native_size: Callable[[bytes, int], tuple[int, int] | None] = (
    _no_size if _native is None else _native.body_size
)
"""Native fast path: returns the number and bytes of packets, or None to leave the check to the Python code."""


class MessageKind(IntEnum):
    """The kind of a message."""

    TRAIN = 1
    OPEN = 2
    GRANT = 3
    BOTH = 4
    """A train with a grant of room for the other direction."""


class StreamId(NamedTuple):
    """Which stream a message belongs to: fabric, service channel, the lives of both ends, era."""

    fabric: int
    sc: int
    from_life: int
    to_life: int
    era: int
    """Counts how often the sender of the trains lost contact with their receiver; each era numbers packets from 0."""


Taken = tuple[bytes, int, int]
"""A message with packets, their count, and their bytes. Count 0: the first packet is longer than allowed."""
Take = Callable[[bytes, int, int], Taken | None]
"""(head of the message, most packets, most bytes of packets) -> the packets taken; None: none wait."""


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Body:
    """The packets in a message, in order. They stay in its bytes, which a native engine takes as they are."""

    message: bytes
    begin: int
    count: int
    size: int
    """Bytes of all packets."""

    @classmethod
    def read(cls, message: bytes, begin: int) -> Body:
        """Find the packets of a message. Raises MessageError: the body is empty, or the lengths do not match."""
        found = _native_size(message, begin)
        return cls(message, begin, *(body_size(message, begin) if found is None else found))

    @property
    def packets(self) -> list[bytes]:
        """The packets, one by one."""
        lengths = struct.unpack_from(f">{self.count}H", self.message, self.begin + _COUNT.size)
        bounds = itertools.accumulate(lengths, initial=self.begin + _COUNT.size * (1 + self.count))
        return [self.message[low:high] for low, high in itertools.pairwise(bounds)]


class Train(NamedTuple):
    """Packets of one service channel, in order."""

    stream_id: StreamId
    first: int
    """Number of packets of the era that were sent before the first of these."""
    body: Body
    grant: Grant | None = None
    """For the other direction of the link."""


class Packets:
    """Waiting packets, in order."""

    def __init__(self, packets: Iterable[bytes] = ()) -> None:
        """Start with these packets."""
        self._waiting = deque(packets)

    def __len__(self) -> int:
        """The number of waiting packets."""
        return len(self._waiting)

    def append(self, packet: bytes) -> None:
        """Add a packet."""
        self._waiting.append(packet)

    def take(self, head: bytes, packets: int, size: int) -> Taken | None:
        """Take the first packets; this is a `Take`."""
        if not self._waiting:
            return None
        taken, taken_size = list[bytes](), 0
        most = min(packets, MAX_PACKETS)
        while self._waiting and len(taken) < most and taken_size + len(self._waiting[0]) <= size:
            taken_size += len(self._waiting[0])
            taken.append(self._waiting.popleft())
        return (head + build_body(taken) if taken else b""), len(taken), taken_size


class Open(NamedTuple):
    """The sender of an era's trains asks for room."""

    stream_id: StreamId


class Grant(NamedTuple):
    """The receiver reports what it has received, and how much may be sent."""

    stream_id: StreamId
    next: int
    """Number of the next expected packet: every earlier one has arrived or is missing."""
    limit: int
    """Packets below this number may be sent."""
    missing: int
    """Number of packets before `next` that never arrived."""
    before_era: int
    """The last earlier era in which packets arrived from this life; 0: none."""
    before: int
    """`next` at the end of that era."""


Message = Train | Open | Grant


def build_train(stream_id: StreamId, first: int, packets: Sequence[bytes]) -> bytes:
    """Return the payload of a train of 1 to MAX_PACKETS packets of 1 to MAX_PACKET bytes."""
    return train_head(stream_id, first) + build_body(packets)


def train_head(stream_id: StreamId, first: int, grant: Grant | None = None) -> bytes:
    """Return the head that precedes the body of a train. Args: grant: a grant to send along, for the same SC."""
    if grant is None:
        return _common(MessageKind.TRAIN, stream_id) + _pack_train(first)
    return _common(MessageKind.BOTH, stream_id) + _pack_both(first, grant.stream_id.era, *grant[1:])


def build_body(packets: Sequence[bytes]) -> bytes:
    """Return the body of a message with these packets."""
    count = len(packets)
    return b"".join((struct.pack(f">{1 + count}H", count, *map(len, packets)), *packets))


def build_open(stream_id: StreamId) -> bytes:
    """Return the payload of a request to open."""
    return _common(MessageKind.OPEN, stream_id)


def build_grant(grant: Grant) -> bytes:
    """Return the payload of a grant."""
    return _common(MessageKind.GRANT, grant.stream_id) + _pack_grant(*grant[1:])


def parse(data: bytes) -> Message:
    """Parse a message.

    Raises:  MessageError: it is not a message of this version; no bytes raise any other error.
    """
    try:
        return _parse(data)
    except WireError as error:
        raise MessageError(error.field, error.reason) from None


def _parse(data: bytes) -> Message:
    magic, version, kind, fabric, sc, zero, from_life, to_life, era = _COMMON.unpack(data)
    if magic != _MAGIC:
        raise MessageError("magic", f'{magic.hex()} is not {_MAGIC.hex()} ("OV")')
    if version != PROTOCOL:
        raise MessageError("version", f"{version}, this is version {PROTOCOL}")
    if sc >= SERVICE_CHANNELS or zero != _ZERO:
        raise MessageError("sc", f"{sc}, and {zero.hex()} where zeros belong")
    stream_id = StreamId(fabric, sc, from_life, to_life, era)
    rest = memoryview(data)[_COMMON.size :]
    match kind:
        case MessageKind.TRAIN:
            (first,) = _TRAIN.unpack(rest)
            return Train(stream_id, first, Body.read(data, _COMMON.size + _TRAIN.size))
        case MessageKind.BOTH:
            first, grant_era, *grant = _BOTH.unpack(rest)
            body = Body.read(data, _COMMON.size + _BOTH.size)
            return Train(stream_id, first, body, Grant(stream_id._replace(era=grant_era), *grant))
        case MessageKind.OPEN:
            _check_length(rest, 0)
            return Open(stream_id)
        case MessageKind.GRANT:
            _check_length(rest, _GRANT.size)
            return Grant(stream_id, *_GRANT.unpack(rest))
    raise MessageError(
        "kind", f"{kind} is not one of {', '.join(f'{one} {one.name}' for one in MessageKind)}"
    )


_pack_common, _pack_train, _pack_grant, _pack_both = (
    form.codec.pack for form in (_COMMON, _TRAIN, _GRANT, _BOTH)
)


def _common(kind: MessageKind, stream_id: StreamId) -> bytes:
    fabric, sc, *rest = stream_id
    return _pack_common(_MAGIC, PROTOCOL, kind, fabric, sc, _ZERO, *rest)


def _check_length(rest: memoryview, size: int) -> None:
    if len(rest) != size:
        raise MessageError("length", f"{len(rest)} bytes after the common head, {size} belong there")


def is_open(data: bytes) -> bool:
    """Return whether the bytes can be a request for room."""
    return len(data) > _KIND_AT and data[_KIND_AT] == MessageKind.OPEN
