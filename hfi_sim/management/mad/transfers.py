"""Messages of several MADs that arrive at a port. Sans-IO.

They are bounded, in number and in bytes, and each message has its deadline: a peer that stops in the middle costs
nothing for longer than that.

Source: drivers/infiniband/core/mad_rmpp.c of Linux.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from hfi_sim.base.deadlines import Timers
from hfi_sim.wire.mad.header import (
    METHOD_OFFSET,
    TID,
    Mad,
    MadClass,
    MadHeader,
    MadStatus,
    mad_size,
)
from hfi_sim.wire.mad.rmpp import (
    RMPP_END,
    RMPP_VERSION,
    Reassembly,
    RmppStatus,
    RmppType,
    data_offset,
    refusal,
    rmpp_of,
)

MAX_MESSAGE: Final = 8 << 20
"""Bytes of a message: PortInfo of 20000 ports."""
MAX_ARRIVING: Final = 64
"""Messages that arrive on a port at once; one more replaces the oldest."""
MAX_ARRIVING_BYTES: Final = 32 << 20
"""Bytes of these; more replace the oldest."""
_REASSEMBLY_S: Final = 40.0
_REMEMBERED_S: Final = 10.0
"""How long a complete message is acknowledged again to a sender that has not heard it."""


class MessageKey(NamedTuple):
    """Which message a segment belongs to."""

    lid: int
    """The LID at the other end."""
    tid: int
    mgmt_class: int
    method: int


def key_of(lid: int, mad: bytes) -> MessageKey:
    """Return the key of a segment from a LID."""
    return MessageKey(lid, int.from_bytes(mad[TID]), mad[1], mad[METHOD_OFFSET])


class Arrival(NamedTuple):
    """What a segment has brought."""

    answer: bytes | None
    """An acknowledgement or a refusal to send back, or None."""
    message: bytes | None
    """The whole message, once."""
    refused: bool = False
    """The message is given up: too long, contradictory, or malformed RMPP."""


class Arrivals:
    """The messages that arrive at one port."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all messages under way."""
        self._messages: dict[MessageKey, Reassembly] = {}
        self._timers: Timers[MessageKey] = Timers()

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, key: MessageKey) -> bool:
        """Return whether a message is under way, or was complete a short time ago."""
        return key in self._messages

    def receive(self, now: float, key: MessageKey, mad: bytes) -> Arrival:
        """Take a segment, its MAD at full size. A message begins with segment 1."""
        if rmpp_of(mad).version != RMPP_VERSION or len(mad) < data_offset(key.mgmt_class):
            return Arrival(refusal(mad, RmppType.ABORT, RmppStatus.VERSION), None, refused=True)
        message = self._messages.get(key)
        if message is None:
            if rmpp_of(mad).segment != 1:
                return Arrival(None, None, refused=True)
            if len(self._messages) >= MAX_ARRIVING:
                self.forget(next(iter(self._messages)))
            message = self._messages[key] = Reassembly()
        was_complete, before = message.complete, message.size
        ack = message.add(mad)
        self.size += message.size - before
        if message.contradictory:
            self.forget(key)
            return Arrival(refusal(mad, RmppType.ABORT, RmppStatus.BAD_SEGMENT), None, refused=True)
        while self.size > MAX_ARRIVING_BYTES and (oldest := next(iter(self._messages))) != key:
            self.forget(oldest)
        if message.size > MAX_MESSAGE:
            self.forget(key)
            return Arrival(refusal(mad, RmppType.STOP, RmppStatus.RESOURCES), None, refused=True)
        if was_complete:
            return Arrival(ack, None)
        self._timers.set(key, now + (_REMEMBERED_S if message.complete else _REASSEMBLY_S))
        if not message.complete:
            return Arrival(ack, None)
        self.size -= message.size
        return Arrival(ack, message.take())

    def forget(self, key: MessageKey) -> None:
        """Forget a message; harmless where there is none."""
        self._drop(key)
        self._timers.cancel(key)

    def _drop(self, key: MessageKey) -> None:
        message = self._messages.pop(key, None)
        self.size -= 0 if message is None else message.size

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        return self._timers.next()

    def expire(self, now: float) -> None:
        """Forget what has been under way, or complete, for long enough."""
        for key in self._timers.due(now):
            self._drop(key)


def is_segmentable(mad: bytes) -> bool:
    """Return whether a MAD is of the class whose messages this stack takes apart and puts together by itself."""
    return mad[1] == MadClass.SUBN_ADM and len(mad) >= RMPP_END


def goes_in_segments(message: bytes) -> bool:
    """Return whether a message is one of RMPP: it says so itself, or is longer than a MAD."""
    if not is_segmentable(message):
        return False
    rmpp = rmpp_of(message)
    return len(message) > mad_size(message[0]) or (rmpp.active and rmpp.type == RmppType.DATA)


def busy_answer(response: bytes) -> bytes:
    """Return the answer that there is no room for a response now: its headers without its data."""
    header = MadHeader.parse(response)
    data = bytes(data_offset(header.mgmt_class) - MadHeader.SIZE)
    return Mad(replace(header, status=MadStatus.BUSY), data).build()
