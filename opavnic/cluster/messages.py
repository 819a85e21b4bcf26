"""What the ends of a link between machines send each other: trains, the request to open, room.

All numbers are big-endian. A message says its version, its fabric and the lives of both ends, so that what an earlier
process, another fabric or another version sent is told apart and counted, and never taken for a packet of this link.

    common     magic "OV", version u8, kind u8, fabric u32, sc u8, 3 zero bytes, from_life u64, to_life u64, era u32
    TRAIN      first u64, count u16, count x length u16, the packets
    OPEN       nothing more
    ROOM       next u64, limit u64, missing u64, before_era u32, before u64
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from opavnic.cluster.errors import MessageError

PROTOCOL: Final = 1
"""Version of the messages, keys and questions between nodes; a node of another one is refused."""
MAX_PACKETS: Final = 64
"""Packets of a train. More gain nothing (docs/cluster-transport.md)."""
MAX_TRAIN: Final = 60_000
"""Bytes of a train's packets, unless it is one packet: with its head it fits one batch of Zenoh (65,535 bytes)."""
MAX_PACKET: Final = 2047 * 8 + 2
"""Bytes of a 16B packet, whose length field counts 11 bits of quad words, and of the tag behind it
(`hfi_sim.engine.crossing`)."""
SERVICE_CHANNELS: Final = 32

_MAGIC: Final = b"OV"
_COMMON: Final = struct.Struct(">2sBBIB3sQQI")
_TRAIN: Final = struct.Struct(">QH")
_ROOM: Final = struct.Struct(">QQQIQ")
_ZERO: Final = b"\0\0\0"


class Kind(IntEnum):
    """What a message is."""

    TRAIN = 1
    OPEN = 2
    ROOM = 3


@dataclass(frozen=True, slots=True)
class Ends:
    """What every message says of its two ends and its stream."""

    fabric: int
    sc: int
    from_life: int
    to_life: int
    era: int
    """Counts the times that the sender of the trains lost sight of their receiver; each era numbers packets from 0."""


@dataclass(frozen=True, slots=True)
class Train:
    """Packets of one service channel, in order."""

    ends: Ends
    first: int
    """How many packets of the era went before the first of these."""
    packets: list[bytes]


@dataclass(frozen=True, slots=True)
class Open:
    """The sender of an era's trains asks for room."""

    ends: Ends


@dataclass(frozen=True, slots=True)
class Room:
    """The receiver says what it has, and what may come."""

    ends: Ends
    next: int
    """The number of the next packet that it expects: all before it arrived or are missing."""
    limit: int
    """Packets below this number may be sent."""
    missing: int
    """Of those before `next`, how many never came."""
    before_era: int
    """The last era before this one in which packets came from this life; 0 if none."""
    before: int
    """`next` at the end of that era."""


Message = Train | Open | Room


def build_train(ends: Ends, first: int, packets: Sequence[bytes]) -> bytes:
    """Return the payload of a train of 1 to MAX_PACKETS packets of 1 to MAX_PACKET bytes."""
    count = len(packets)
    lengths = struct.pack(f">{count}H", *map(len, packets))
    return b"".join((_common(Kind.TRAIN, ends), _TRAIN.pack(first, count), lengths, *packets))


def build_open(ends: Ends) -> bytes:
    """Return the payload of a request to open."""
    return _common(Kind.OPEN, ends)


def build_room(room: Room) -> bytes:
    """Return the payload of a grant."""
    return _common(Kind.ROOM, room.ends) + _ROOM.pack(
        room.next, room.limit, room.missing, room.before_era, room.before
    )


def parse(data: bytes) -> Message:
    """Read a message.

    Raises:  MessageError: it is not one of this version; nothing else, whatever the bytes are.
    """
    if len(data) < _COMMON.size:
        raise MessageError("length", f"{len(data)} bytes, the common head takes {_COMMON.size}")
    magic, version, kind, fabric, sc, zero, from_life, to_life, era = _COMMON.unpack_from(data)
    if magic != _MAGIC:
        raise MessageError("magic", f'{magic.hex()} is not {_MAGIC.hex()} ("OV")')
    if version != PROTOCOL:
        raise MessageError("version", f"{version}, this is version {PROTOCOL}")
    if sc >= SERVICE_CHANNELS or zero != _ZERO:
        raise MessageError("sc", f"{sc}, and {zero.hex()} where zeros belong")
    ends = Ends(fabric, sc, from_life, to_life, era)
    body = memoryview(data)[_COMMON.size :]
    match kind:
        case Kind.TRAIN:
            return _train(ends, body)
        case Kind.OPEN:
            _exactly(body, 0)
            return Open(ends)
        case Kind.ROOM:
            _exactly(body, _ROOM.size)
            return Room(ends, *_ROOM.unpack(body))
    raise MessageError("kind", f"{kind} is none of {', '.join(f'{one} {one.name}' for one in Kind)}")


def _common(kind: Kind, ends: Ends) -> bytes:
    return _COMMON.pack(
        _MAGIC, PROTOCOL, kind, ends.fabric, ends.sc, _ZERO, ends.from_life, ends.to_life, ends.era
    )


def _exactly(body: memoryview, size: int) -> None:
    if len(body) != size:
        raise MessageError("length", f"{len(body)} bytes after the common head, {size} belong there")


def _train(ends: Ends, body: memoryview) -> Train:
    if len(body) < _TRAIN.size:
        raise MessageError("length", f"{len(body)} bytes after the common head, a train takes {_TRAIN.size}")
    first, count = _TRAIN.unpack_from(body)
    if not 1 <= count <= MAX_PACKETS:
        raise MessageError("count", f"{count} packets; a train has 1 to {MAX_PACKETS}")
    begin = _TRAIN.size + 2 * count
    if len(body) < begin:
        raise MessageError("count", f"{count} packets, and no room for their lengths")
    lengths = struct.unpack_from(f">{count}H", body, _TRAIN.size)
    if min(lengths) == 0 or max(lengths) > MAX_PACKET:
        raise MessageError("length", f"a packet of {min(lengths)} or {max(lengths)} bytes")
    bounds = list(itertools.accumulate(lengths, initial=begin))
    _exactly(body, bounds[-1])
    return Train(ends, first, [bytes(body[low:high]) for low, high in itertools.pairwise(bounds)])
