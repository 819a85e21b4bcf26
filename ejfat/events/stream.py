"""One stream of packets, those of a source address, a source port and a data id: its events, and what it remembers."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from typing import Final, NamedTuple

from ejfat.events.event import EventKey, Loss, LostEvent

# --- the bytes of one event as its packets bring them: in any order, and some of them more than once -------


@dataclass(slots=True)
class Parts:
    """Pieces of an event that do not overlap, in the order of their offsets."""

    received: int = 0
    """Number of bytes."""
    end: int = 0
    """The end of the last piece."""
    _pieces: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    @property
    def joined(self) -> bytes:
        """All pieces, one after the other."""
        return b"".join([piece for _, piece in self._pieces])

    def known(self, offset: int, data: bytes) -> int | None:
        """Return how many of these bytes are here already; None: one of them is here with another value."""
        if offset >= self.end:
            return 0
        known, end = 0, offset + len(data)
        for start, piece in self._between(offset, end):
            at, stop = max(start, offset), min(start + len(piece), end)
            if data[at - offset : stop - offset] != piece[at - start : stop - start]:
                return None
            known += stop - at
        return known

    def add(self, offset: int, data: bytes) -> None:
        """Keep those of these bytes that are new; none of them may be here with another value."""
        if offset >= self.end:
            if data:
                self._pieces.append((offset, data))
                self.received += len(data)
                self.end = offset + len(data)
            return
        new, at, end = [], offset, offset + len(data)
        for start, piece in self._between(offset, end):
            if at < start:
                new.append((at, data[at - offset : start - offset]))
            at = start + len(piece)
        if at < end:
            new.append((at, data[at - offset :]))
        for found in new:
            insort(self._pieces, found)
            self.received += len(found[1])
        self.end = max(self.end, end)

    def missing(self, length: int | None) -> tuple[tuple[int, int], ...]:
        """Return the ranges (start, end) that are not here: up to `length`; None: up to the last byte."""
        holes, at = [], 0
        for start, piece in self._pieces:
            if at < start:
                holes.append((at, start))
            at = start + len(piece)
        if length is not None and at < length:
            holes.append((at, length))
        return tuple(holes)

    def copy(self) -> Parts:
        """Return an independent copy."""
        return Parts(self.received, self.end, list(self._pieces))

    def _between(self, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces that have bytes in a range."""
        first = bisect_right(self._pieces, offset, key=itemgetter(0)) - 1
        for index in range(max(first, 0), len(self._pieces)):
            start, piece = self._pieces[index]
            if start >= end:
                return
            if start + len(piece) > offset:
                yield start, piece

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each piece."""
        return iter(self._pieces)


# -----------------------------------------------------------------------------------------------------------

WINDOW: Final = 64
"""A packet is late by at most this many events of its stream."""
_REPEATS: Final = 3
"""A packet that came with this many of the last events is content that repeats, not a late copy (header version 1)."""
_AGREEMENT: Final = 16
"""Bytes in which an event must agree with another one, in none of which they differ, to be taken for a repetition."""
_EVENT_COST: Final = 512
_PART_COST: Final = 128
"""Memory of an event and of each of its parts, in bytes, beside the data."""


class Segment(NamedTuple):
    """A packet with the header of version 1."""

    offset: int
    first: bool
    last: bool
    data: bytes
    mark: int
    """A checksum of the data, by which equal packets are found: a hash of all the bytes takes ten times as long."""

    def __hash__(self) -> int:
        return self.mark

    @property
    def end(self) -> int:
        """The end of its bytes in the event."""
        return self.offset + len(self.data)


class Fate(Enum):
    """What to do with a packet with the header of version 1 and without a tick."""

    DUPLICATE = auto()
    LATE = auto()
    BEGIN = auto()
    """It begins an event."""
    PART = auto()
    """It belongs to the latest event."""
    ECHO = auto()
    """It is a copy of a packet of an earlier event, or the latest event, or a new one, repeats that one's bytes."""
    ORPHAN = auto()
    """It belongs to an event whose first packet did not arrive."""


@dataclass(slots=True, eq=False)
class StreamEvent:
    """An event of a stream: incomplete, or ended and remembered."""

    stream: PacketStream
    ordinal: int
    """Its place among the events of the stream."""
    slot: int
    """Its number; with the header of version 1 and without a tick its place."""
    since: float
    touched: float
    """When the last packet came that brought something."""
    number: int | None
    """None: it has nothing but echoes."""
    length: int | None = None
    packets: int = 0
    """Packets that brought something."""
    parts: Parts = field(default_factory=Parts)
    ended_at: float | None = None
    loss: Loss | None = None
    """Why it is lost, if it has ended; None: it was handed over."""
    emptied: bool = False
    """Whether it has ended and its bytes are not remembered."""
    rivalled: bool = False
    """Whether another event with its number was counted as lost."""
    doubtful: bool = False
    """Whether something of it can be of another event: it is given up once it is complete."""
    unsure: list[tuple[int, int]] = field(default_factory=list)
    """The ranges of its doubtful parts."""
    interrupted: bool = False
    """Whether a packet came since it began that could have begun another event."""
    closed: bool = False
    """Whether a last packet has come, if its first did not."""
    segments: list[Segment] = field(default_factory=list)
    """All packets of version 1 that came with it."""
    echoes: list[Segment] = field(default_factory=list)
    noted: int = 0
    """Bytes of packets that came with it and brought nothing."""

    @property
    def key(self) -> EventKey:
        """What it is called."""
        return EventKey(self.number or 0, self.stream.data_id)

    @property
    def has_ended(self) -> bool:
        """Whether it was handed over or lost."""
        return self.ended_at is not None

    @property
    def is_whole(self) -> bool:
        """Whether it was handed over."""
        return self.has_ended and self.loss is None

    @property
    def cost(self) -> int:
        """Memory that it takes, in bytes."""
        return _EVENT_COST + _PART_COST * self.parts.count + self.parts.received + self.noted

    def agrees(self, offset: int, data: bytes, length: int | None) -> bool:
        """Return whether a packet can be one of this event."""
        if self.length is not None and (
            length not in (None, self.length) or offset + len(data) > self.length
        ):
            return False
        if self.emptied:
            return True
        if any(offset < stop and start < offset + len(data) for start, stop in self.unsure):
            return True
        return self.parts.known(offset, data) is not None

    def can_take(self, offset: int, end: int, *, in_order: bool) -> bool:
        """Return whether a part can be a late one of this event, of which its sender has sent the last already.

        What is missing at the end of an event was lost rather than late if the next event arrives in order.
        """
        if self.length is None and end > self.parts.end and not in_order:
            return True
        open_ranges = (*self.parts.missing(self.length), *self.unsure)
        return any(offset < stop and start < end for start, stop in open_ranges)

    def whole(self) -> bytes | None:
        """Return the bytes of the event; None: some are missing, or can be those of an earlier event."""
        if self.parts.received == self.length:
            return self.parts.joined
        if not self.echoes:
            return None
        parts, length, used = self.parts.copy(), self.length, []
        for echo in self.echoes:
            known = parts.known(echo.offset, echo.data)
            if known is not None:
                parts.add(echo.offset, echo.data)
                used.append(echo)
                length = echo.end if echo.last and length is None else length
        if not parts.received == parts.end == length:
            return None
        data = parts.joined
        repeats = not any(data) if data else False
        return data if repeats or all(map(self._repeats, used)) else None

    def _repeats(self, echo: Segment) -> bool:
        """Return whether an earlier event that this packet is a part of agrees with what is sure of this one."""
        return any(
            event.parts.known(echo.offset, echo.data) == len(echo.data)  # it can have come as a copy only
            and _agreement(self.parts, event.parts) >= _AGREEMENT
            for event in self.stream.with_segment(echo)
            if event is not self and not event.emptied
        )

    def empty(self) -> None:
        """Forget the bytes."""
        self.parts, self.echoes, self.noted, self.emptied = Parts(), [], 0, True
        self.stream.forget_segments(self)

    def lost(self, loss: Loss, limit: int | None = None) -> LostEvent:
        """Return the report of its loss."""
        missing = self.parts.missing(self.length) if loss in (Loss.TIMEOUT, Loss.NO_ROOM) else ()
        return LostEvent(self.key, self.parts.received, self.length, missing, limit, loss, self.stream.source)


def _agreement(these: Parts, others: Parts) -> int:
    """Return in how many bytes the parts of two events are the same; 0: they differ in some."""
    total = 0
    for offset, piece in these:
        known = others.known(offset, piece)
        if known is None:
            return 0
        total += known
    return total


@dataclass(slots=True)
class PacketStream:
    """The events of a stream."""

    source: Hashable
    data_id: int
    late_s: float
    """How late a packet can be, in seconds."""
    begun: int = 0
    pending: dict[int, StreamEvent] = field(default_factory=dict)
    """The incomplete events, by slot."""
    ended: dict[int, list[StreamEvent]] = field(default_factory=dict)
    """The events that have ended not long ago, by slot."""
    latest: StreamEvent | None = None
    """With the header of version 1: the last event that began, which may have nothing but echoes."""
    sure: list[StreamEvent] = field(default_factory=list)
    """The last two events that have more than echoes."""
    seen: dict[Segment, list[int]] = field(default_factory=dict)
    """Packets with the header of version 1: the slots of the events with which they came."""

    def begin(self, number: int | None, now: float, *, numbered: bool) -> StreamEvent:
        """Add an event."""
        self.begun += 1
        slot = number if numbered and number is not None else self.begun
        event = self.pending[slot] = StreamEvent(self, self.begun, slot, now, now, number)
        if not numbered:
            self.latest = event
            if number is not None:
                self.name(event, number)
        return event

    def name(self, event: StreamEvent, number: int) -> None:
        """Give an event its number, because it has more than echoes now."""
        event.number = number
        self.sure = [*self.sure[-1:], event]

    def end(self, event: StreamEvent, loss: Loss | None, now: float) -> None:
        """Remember that an event has ended."""
        del self.pending[event.slot]
        self.ended.setdefault(event.slot, []).append(event)
        event.ended_at, event.loss = now, loss

    def forget(self, event: StreamEvent) -> None:
        """Forget the oldest of the ended events."""
        events = self.ended[event.slot]
        events.remove(event)
        if not events:
            del self.ended[event.slot]
        self.forget_segments(event)
        if self.latest is event:
            self.latest = None
        if event in self.sure:
            self.sure.remove(event)

    def is_recent(self, event: StreamEvent, now: float) -> bool:
        """Return whether a packet with the number of this event can still be one of it.

        THE RULE by which numbers begin again: by distance, once `WINDOW` later events of the stream have begun; by
        time, once the timeout of the reassembler has passed since the last packet that brought something to the event.
        Before that, it is a packet of this event, or a late one. Two exceptions: if the event was handed over and the
        packet has another length or other bytes than it had, the number has begun again at once; and what an event
        lacks that was lost is late for another timeout.
        """
        since = event.touched if event.ended_at is None else event.ended_at
        return now - since <= self.late_s and self.begun - event.ordinal < WINDOW

    def recent(self, slot: int, now: float) -> list[StreamEvent]:
        """Return the ended events with this number to which a late packet can belong."""
        return [event for event in self.ended.get(slot, ()) if self.is_recent(event, now)]

    # header version 1, without a tick

    def forget_segments(self, event: StreamEvent) -> None:
        """Forget which packets came with an event."""
        for segment in event.segments:
            self.seen[segment].remove(event.slot)
            if not self.seen[segment]:
                del self.seen[segment]
        event.segments.clear()

    def with_segment(self, segment: Segment) -> list[StreamEvent]:
        """Return the events with which a packet came."""
        slots = self.seen.get(segment)
        if slots is None:
            return []
        events = (self.pending.get(slot) or self.ended.get(slot, [None])[0] for slot in slots)
        return [event for event in events if event is not None]

    def note(self, event: StreamEvent, segment: Segment) -> None:
        """Remember that a packet came with an event."""
        self.seen.setdefault(segment, []).append(event.slot)
        event.segments.append(segment)

    def fate(self, segment: Segment, now: float) -> Fate:
        """Decide what becomes of a packet."""
        came = self.with_segment(segment)
        if came:
            came = [event for event in came if now - event.touched <= self.late_s]
        latest = self.latest
        ended = latest is None or latest.has_ended
        if latest is not None and latest in came and not (segment.first and ended):
            latest.doubtful |= segment.first and bool(latest.parts.missing(latest.length))
            return Fate.LATE if ended else Fate.DUPLICATE
        if 0 < len(came) < _REPEATS:
            if segment.first and latest is not None and not ended:
                latest.interrupted = True
                return Fate.LATE
            return Fate.ECHO if segment.first or not ended else Fate.LATE
        if segment.first:
            return Fate.BEGIN
        if latest is None or latest.loss is Loss.NO_BEGINNING:
            return Fate.ORPHAN
        if not ended and latest.number is not None:
            return Fate.PART
        unfinished = (e for e in self.sure if not e.is_whole and (e is latest or e.loss is not Loss.TOO_LONG))
        if any(event.agrees(segment.offset, segment.data, None) for event in unfinished):
            return Fate.LATE
        return Fate.ORPHAN if ended else Fate.PART

    def doubts(self, segment: Segment) -> bool:
        """Return whether a packet for the latest event can be of the one before it, or of one that it hides."""
        latest = self.latest
        if latest is None:
            return False
        in_order = segment.offset == latest.parts.end
        if latest.interrupted and not in_order:
            return True
        before = self.sure[0]
        if before is latest or before.has_ended:
            return False
        return before.can_take(segment.offset, segment.end, in_order=in_order)
