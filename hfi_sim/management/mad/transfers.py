"""Messages of several MADs on their way: those that arrive at a port, those that leave it. Sans-IO.

Both are bounded, in number and in bytes, and each message has its deadline: a peer that stops in the middle, or never
acknowledges, costs nothing for longer than that.

Source: drivers/infiniband/core/mad_rmpp.c of Linux.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hfi_sim.base.deadlines import Timers
from hfi_sim.wire.mad.header import (
    METHOD_OFFSET,
    RESPONSE_BIT,
    TID,
    Mad,
    MadClass,
    MadHeader,
    MadStatus,
    RmppHeader,
    mad_size,
)
from hfi_sim.wire.mad.rmpp import (
    RMPP_END,
    RMPP_VERSION,
    Lone,
    Reassembly,
    RmppStatus,
    RmppType,
    Segmented,
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
MAX_LEAVING: Final = 64
"""Messages that leave a port at once."""
MAX_LEAVING_BYTES: Final = 32 << 20
"""Bytes of these."""
MAX_TO_ONE: Final = 8
"""Of these, to one LID."""
ACK_S: Final = 2.0
"""Seconds that an acknowledgement may take, as in the kernel."""
ACK_RETRIES: Final = 3
"""Times that segments are repeated without news of the receiver."""
_REASSEMBLY_S: Final = 40.0
_REMEMBERED_S: Final = 10.0
"""How long a complete message is acknowledged again to a sender that has not heard it."""


class Where(NamedTuple):
    """What a MAD needs to leave."""

    dlid: int
    sl: int
    dest_qp: int
    pkey: int | None
    is_9b: bool = False


class MessageKey(NamedTuple):
    """Which message a segment or an acknowledgement belongs to."""

    lid: int
    """The LID at the other end."""
    tid: int
    mgmt_class: int
    method: int
    """Of the message; acknowledgements bear it with the bit of responses reversed."""

    @property
    def reversed(self) -> MessageKey:
        """The key of the message that a MAD with this key acknowledges."""
        return self._replace(method=self.method ^ RESPONSE_BIT)


def key_of(lid: int, mad: bytes) -> MessageKey:
    """Return the key that a MAD to or from a LID has."""
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


@dataclass(slots=True)
class _Leaving:
    segments: Segmented | Lone
    where: Where
    size: int
    retries_left: int = ACK_RETRIES


class Departures:
    """The messages that leave one port; what is to be sent now waits in it, segment by segment."""

    def __init__(self) -> None:
        self._leaving: dict[MessageKey, _Leaving] = {}
        self._bytes = 0
        self._to_one: dict[int, int] = {}
        self._timers: Timers[MessageKey] = Timers()
        self._due: deque[MessageKey] = deque()

    def __len__(self) -> int:
        return len(self._leaving)

    def __contains__(self, key: MessageKey) -> bool:
        """Return whether a message is under way."""
        return key in self._leaving

    def begin(self, now: float, lid: int, message: bytes, where: Where) -> bool:
        """Send a message; return whether there is room for it. One with the same key takes the place of the old."""
        key = key_of(lid, message)
        self.end(key)
        crowded = len(self._leaving) >= MAX_LEAVING or self._to_one.get(lid, 0) >= MAX_TO_ONE
        if crowded or len(message) > MAX_MESSAGE or self._bytes + len(message) > MAX_LEAVING_BYTES:
            return False
        self._add(now, key, _Leaving(Segmented(message), where, len(message)))
        return True

    def begin_lone(self, now: float, lid: int, mad: bytes, where: Where) -> None:
        """Send a response that only looks like a segment; for a time, acknowledgements of it are answered."""
        key = key_of(lid, mad)
        self.end(key)
        self._add(now, key, _Leaving(Lone(mad), where, len(mad), retries_left=0))

    def _add(self, now: float, key: MessageKey, leaving: _Leaving) -> None:
        self._leaving[key] = leaving
        self._bytes += leaving.size
        self._to_one[key.lid] = self._to_one.get(key.lid, 0) + 1
        self._go_on(now, key)

    def handle(self, now: float, key: MessageKey, rmpp: RmppHeader) -> bool:
        """Handle an acknowledgement, or the receiver's end of the transfer; return whether it is to be answered."""
        leaving = self._leaving.get(key)
        if leaving is None:
            return False
        if isinstance(leaving.segments, Lone):
            return rmpp.type == RmppType.ACK
        if rmpp.type != RmppType.ACK:
            self.end(key)
        elif leaving.segments.acknowledge(rmpp):
            if leaving.segments.complete:
                self.end(key)
            else:
                leaving.retries_left = ACK_RETRIES
                self._go_on(now, key)
        return False

    def end(self, key: MessageKey) -> None:
        """Send no more of a message; harmless where there is none."""
        leaving = self._leaving.pop(key, None)
        if leaving is None:
            return
        self._bytes -= leaving.size
        self._timers.cancel(key)
        self._to_one[key.lid] -= 1
        if not self._to_one[key.lid]:
            del self._to_one[key.lid]

    def next_segment(self) -> tuple[bytes, Where] | None:
        """Return the next MAD to send and where to, or None."""
        while self._due:
            leaving = self._leaving.get(self._due[0])
            segment = None if leaving is None else next(leaving.segments.due(), None)
            if leaving is not None and segment is not None:
                return segment, leaving.where
            self._due.popleft()
        return None

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        return self._timers.next()

    def expire(self, now: float) -> None:
        """Repeat what has not been acknowledged in time, or give it up."""
        for key in self._timers.due(now):
            leaving = self._leaving[key]
            if leaving.retries_left == 0 or isinstance(leaving.segments, Lone):
                self.end(key)
                continue
            leaving.retries_left -= 1
            leaving.segments.repeat()
            self._go_on(now, key)

    def _go_on(self, now: float, key: MessageKey) -> None:
        self._timers.set(key, now + ACK_S)
        if key not in self._due:
            self._due.append(key)


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
