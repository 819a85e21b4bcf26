"""The frames of a connection between two machines.

They pass in both directions, each with a head and `count` times `size` bytes:

    PACKETS    packets of one link, service channel, length and tag (`hfi_sim.engine.events.outputs`), in order
    RECEIVED   how many packets of a link have arrived since the sender's process began
    PAUSE      send no more packets of a service channel of a link, until RESUME

native/engine/src/crossing.rs and native/cluster build and parse the same frames; a test compares the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from hfi_sim.engine.events.outputs import TAG_SIZE
from hfi_sim.wire.header import structure
from hfi_sim.wire.lrh16b import sc_of
from opavnic.cluster.errors import MessageError

PROTOCOL: Final = 9
"""Version of frames, keys and requests between nodes; a node with another version is refused."""
MANAGEMENT_SC: Final = 15
"""The service channel of SMPs, whose packets go ahead of all others."""
MAX_PACKETS: Final = 1 << 12
"""Packets of a frame, at most."""
MAX_PACKET: Final = 2047 * 8
"""Bytes of a packet, at most: its length field counts 11 bits of quad words."""
MAX_BODY: Final = 1 << 17
"""Bytes behind the head of a frame, at most."""
_form = partial(structure, order="big", module=__name__, within="frame")
_HEAD: Final = _form("head", "u8 kind, sc; u16 count; u32 link; u16 size, tag")
HEAD_SIZE: Final = _HEAD.size
_NUMBER: Final = _form("number", "u64 number")


class FrameType(IntEnum):
    """The kind of a frame."""

    PACKETS = 1
    RECEIVED = 2
    PAUSE = 3
    RESUME = 4


class Head(NamedTuple):
    """The head of a frame."""

    kind: FrameType
    sc: int
    times: int
    """How many times `size` bytes are behind it."""
    link: int
    """The place of the link among those of the two machines, by name."""
    size: int = 0
    tag: int = 0

    def build(self) -> bytes:
        """Return its bytes."""
        return _HEAD.codec.pack(*self)

    @property
    def body(self) -> int:
        """Bytes behind it."""
        return self.times * self.size

    @classmethod
    def parse(cls, data: bytes) -> Head:
        """Read the head that begins a frame. Raises MessageError: it is none."""
        kind, sc, times, link, size, tag = _HEAD.codec.unpack_from(data)
        if kind not in set(FrameType):
            raise MessageError(
                "kind", f"{kind} is not one of {', '.join(f'{it} {it.name}' for it in FrameType)}"
            )
        head = cls(FrameType(kind), sc, times, link, size, tag)
        match head.kind:
            case FrameType.PACKETS:
                fits = 1 <= times <= MAX_PACKETS and 1 <= size <= MAX_PACKET and head.body <= MAX_BODY
            case FrameType.RECEIVED:
                fits = (times, size) == (1, _NUMBER.size)
            case FrameType.PAUSE | FrameType.RESUME:
                fits = (times, size) == (0, 0)
        if not fits:
            raise MessageError("times", f"{times} times {size} bytes in a frame of {head.kind.name}")
        return head


def build_packets(link: int, records: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the parts of the frames of packets: those that follow each other and are alike share one."""
    for (size, tag, sc), alike in itertools.groupby(records, _likeness):
        rest = [record[:-TAG_SIZE] for record in alike]
        most = min(MAX_PACKETS, MAX_BODY // size)
        for begin in range(0, len(rest), most):
            some = rest[begin : begin + most]
            yield Head(FrameType.PACKETS, sc, len(some), link, size, tag).build()
            yield from some


def _likeness(record: bytes) -> tuple[int, int, int]:
    return len(record) - TAG_SIZE, int.from_bytes(record[-TAG_SIZE:]), sc_of(record)


def records_of(head: Head, body: bytes) -> list[bytes]:
    """Return the packets of a frame, each with its tag behind it."""
    tag = head.tag.to_bytes(TAG_SIZE)
    return [body[begin : begin + head.size] + tag for begin in range(0, head.body, head.size)]


def build_received(link: int, packets: int) -> bytes:
    """Return a frame that tells how many packets of a link have arrived."""
    return Head(FrameType.RECEIVED, 0, 1, link, _NUMBER.size).build() + _NUMBER.codec.pack(packets)


def number_of(body: bytes) -> int:
    """Return the number in such a frame."""
    (number,) = _NUMBER.codec.unpack(body)
    return int(number)
