"""From packets to events: packets in any order, duplicates ignored, losses detected by timeout.

A stream is the packets of one source address, source port and data id; the balancer of versions 2 and 3 replaces the
address and leaves the port. An event is known by its stream and its number, and is handed over only if its parts cover
each of its bytes and none contradicts another. The 8-byte header of version 1 has no number; behind a balancer, which
removes the tick, the stream decides to which event a packet belongs (`PacketStream.fate`).

The numbers of a stream may begin again, since senders that start again do. How long a packet of an event counts as a
late one, rather than as one of another event with the same number, is the rule of `PacketStream.is_recent`.

Source: seed 002, "Reassembly Engine Meta-Data"; the header of versions 2 and 3 as the public receiver library reads it.
Differs: the public receiver only counts bytes, so that a duplicate can make an incomplete event look complete; it
    remembers no event that has ended, so that a duplicate of a whole event is handed over twice; and it ignores the
    source, so that segments of two senders with the same numbers are mixed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Final

from ejfat.events.event import Event, Loss, LostEvent, ReassemblyCounters
from ejfat.events.stream import Fate, PacketStream, Segment, StreamEvent
from ejfat.wire.headers import LB_MAGIC, ReHeader, SegmentHeader, parse_lb
from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import load_fast_crc32

_, crc32 = load_fast_crc32()
DEFAULT_TIMEOUT_S = 0.5
MAX_EVENT = 256 << 20
"""Default for the longest event that is accepted, in bytes, so that a forged length cannot use up memory."""
MAX_HELD: Final = 1 << 30
"""Default for the memory that incomplete events may take, in bytes."""
_MAX_KEPT: Final = 16 << 20
"""Memory that events may take that have ended, in bytes; of older ones, the numbers alone are remembered."""
_MAX_ENDED: Final = 1 << 16
"""Events that are remembered after their end."""


class Reassembler:
    """Reassembles events. Use one per thread or socket. Sans-IO: time comes in as `now`.

    Args:    old_headers: payloads begin with the 8-byte header of version 1. timeout_s: seconds from the first packet
        of an event until it is given up, and from its last one until its number may begin again. max_event: maximum
        length of an event in bytes. max_held: bytes of memory that incomplete events may take. numbers: for events
        with the header of version 1 and without a tick; reassemblers whose events go to one place share them.
    """

    def __init__(
        self,
        *,
        old_headers: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_event: int = MAX_EVENT,
        max_held: int = MAX_HELD,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.counters = ReassemblyCounters()
        self._old_headers = old_headers
        self._timeout_s = timeout_s
        self._max_event = max_event
        self._max_held = max_held
        self._numbers = count(1) if numbers is None else numbers
        self._streams: dict[tuple[Hashable, int], PacketStream] = {}
        self._pending: OrderedDict[int, StreamEvent] = OrderedDict()
        """The incomplete events, those that began first in front."""
        self.held = 0
        """Memory that incomplete events take, in bytes."""
        self._ended: deque[StreamEvent] = deque()
        """The events that have ended and are remembered, those that ended first in front."""
        self._full: deque[StreamEvent] = deque()
        """Those of them whose bytes are remembered, too."""
        self.kept = 0
        """Memory that events take that have ended, in bytes."""
        self._lost: list[LostEvent] = []
        """To be returned by the next `expire`."""
        self._lost_at = 0.0

    @property
    def pending(self) -> int:
        """Number of incomplete events."""
        return sum(event.number is not None for event in self._pending.values())

    @property
    def deadline(self) -> float | None:
        """Time at which `expire` is due; None if nothing is pending."""
        if self._lost:
            return self._lost_at
        return next((event.since + self._timeout_s for event in self._pending.values()), None)

    def receive(self, payload: bytes, now: float, source: Hashable = None) -> Event | None:
        """Handle the payload of a UDP packet; return the event that it completes, or None.

        Args:    payload: with or without the LB header in front. source: the address and port of the sender, or
            another name for it, which all packets of an event share.
        """
        counters = self.counters
        counters.packets += 1
        counters.bytes += len(payload)
        self._forget(now)
        tick: int | None = None
        try:
            if int.from_bytes(payload[:2], "big") == LB_MAGIC:
                lb = parse_lb(payload)
                tick, payload = lb.tick, payload[lb.SIZE :]
            if not self._old_headers:
                header = ReHeader.parse(payload)
                data, length = payload[ReHeader.SIZE :], header.length
                if header.offset + len(data) > length:
                    counters.rejected += 1
                    return None
                stream = self._stream(source, header.data_id)
                return self._take(stream, header.event, header.offset, data, length, now)
            segment_header = SegmentHeader.parse(payload)
        except WireError:
            counters.malformed += 1
            return None
        stream = self._stream(source, segment_header.data_id)
        data, offset = payload[SegmentHeader.SIZE :], segment_header.offset
        segment = Segment(offset, segment_header.first, segment_header.last, data, crc32(data, offset))
        if tick is None:
            return self._take_unnumbered(stream, segment, now)
        length_or_none = segment.end if segment.last else None
        return self._take(stream, tick, segment.offset, segment.data, length_or_none, now)

    def expire(self, now: float) -> list[LostEvent]:
        """Return the events lost since the last call, and give up those that are overdue."""
        while self._pending:
            event = next(iter(self._pending.values()))
            if now < event.since + self._timeout_s:
                break
            self._lose(event, Loss.TIMEOUT, now)
        self._forget(now)
        lost, self._lost = self._lost, []
        return lost

    def _take(
        self, stream: PacketStream, number: int, offset: int, data: bytes, length: int | None, now: float
    ) -> Event | None:
        """Handle a packet of an event with a number."""
        event = stream.pending.get(number)
        if event is not None and not stream.is_recent(event, now):
            overdue = now >= event.since + self._timeout_s
            self._lose(event, Loss.TIMEOUT if overdue else Loss.RESTART, now)
            event = None
        for before in stream.recent(number, now) if number in stream.ended else ():
            agrees = before.agrees(offset, data, length)
            if now - before.touched > self._timeout_s:
                late = agrees and event is None and not before.parts.known(offset, data)
            else:
                late = agrees or not before.is_whole
            if late:
                self._throw_away(before, agrees, length, now)
                return None
        if event is None:
            event = self._begin(stream, number, now, numbered=True)
        return self._put(event, offset, data, length, now)

    def _throw_away(self, event: StreamEvent, agrees: bool, length: int | None, now: float) -> None:
        """Count a packet with the number of an event that has ended."""
        self._count_late(event)
        if not agrees and (event.loss in (Loss.TIMEOUT, Loss.NO_ROOM) or length != event.length):
            self._lose_rival(event, now)

    def _take_unnumbered(self, stream: PacketStream, segment: Segment, now: float) -> Event | None:
        """Handle a packet with the header of version 1 and without a tick."""
        counters, fate = self.counters, stream.fate(segment, now)
        if fate is Fate.DUPLICATE:
            counters.duplicates += 1
            return None
        event = stream.latest
        if fate is Fate.LATE:
            self._count_late(event)
            self._note(event, segment)
            return None
        if fate is Fate.ORPHAN:
            counters.rejected += 1
            if event is None or event.loss is not Loss.NO_BEGINNING or event.closed:
                event = self._begin(stream, next(self._numbers), now, numbered=False)
                self._lose(event, Loss.NO_BEGINNING, now)
            event.closed = segment.last
            self._note(event, segment)
            return None
        if event is None or segment.first:
            number = None if fate is Fate.ECHO else next(self._numbers)
            event = self._begin(stream, number, now, numbered=False)
        if fate is Fate.ECHO:
            counters.duplicates += 1
            event.echoes.append(segment)
            self._note(event, segment)
            return self._complete(event, now)
        if event.number is None:
            self._name(event)
        if not segment.first and stream.doubts(segment):
            event.doubtful = True
            event.unsure.append((segment.offset, segment.end))
        stream.note(event, segment)
        return self._put(event, segment.offset, segment.data, segment.end if segment.last else None, now)

    def _put(
        self, event: StreamEvent, offset: int, data: bytes, length: int | None, now: float
    ) -> Event | None:
        """Add a packet to an incomplete event."""
        counters, end = self.counters, offset + len(data)
        limit = event.length if length is None else length
        if event.length is None and (end if length is None else length) > self._max_event:
            counters.rejected += 1
            event.length = length
            self._lose(event, Loss.TOO_LONG, now)
            return None
        if (None not in (length, event.length) and length != event.length) or (
            limit is not None and max(end, event.parts.end) > limit
        ):
            counters.rejected += 1
            if self._old_headers:
                self._lose(event, Loss.CONTRADICTION, now)
            else:  # every packet has the length, and this one alone is wrong, or of another event
                self._lose_rival(event, now)
            return None
        known = event.parts.known(offset, data)
        if known is None:
            counters.rejected += 1
            self._lose(event, Loss.CONTRADICTION, now)
            return None
        if known == len(data) and event.packets and (length is None or event.length is not None):
            counters.duplicates += 1
            return None
        event.packets += 1
        event.touched = now
        event.length = limit
        self.held -= event.cost
        event.parts.add(offset, data)
        self.held += event.cost
        return self._complete(event, now)

    def _complete(self, event: StreamEvent, now: float) -> Event | None:
        """Hand an event over if it is complete; make room otherwise."""
        data = event.whole()
        if data is None:
            while self.held > self._max_held:
                self._lose(next(iter(self._pending.values())), Loss.NO_ROOM, now)
            return None
        if event.doubtful:
            self._lose(event, Loss.CONTRADICTION, now)
            return None
        if event.number is None:
            self._name(event)
        self.counters.events_complete += 1
        self._end(event, None, now)
        return Event(event.key, data, event.packets, event.stream.source)

    def _begin(self, stream: PacketStream, number: int | None, now: float, *, numbered: bool) -> StreamEvent:
        """Add an event to its stream."""
        self._streams[stream.source, stream.data_id] = stream
        event = stream.begin(number, now, numbered=numbered)
        self._pending[id(event)] = event
        self.held += event.cost
        self.counters.events_seen += number is not None
        return event

    def _count_late(self, event: StreamEvent | None) -> None:
        if event is not None and event.loss is Loss.TOO_LONG:
            self.counters.rejected += 1
        else:
            self.counters.late += 1

    def _name(self, event: StreamEvent) -> None:
        """Count an event that has had nothing but echoes as one of its own."""
        event.stream.name(event, next(self._numbers))
        self.counters.events_seen += 1

    def _note(self, event: StreamEvent | None, segment: Segment) -> None:
        """Remember a packet that brought nothing to the event with which it came: a copy of it may come."""
        if event is None or event.slot in event.stream.seen.get(segment, ()):
            return
        event.stream.note(event, segment)
        event.noted += len(segment.data)
        if event.has_ended:
            self.kept += len(segment.data)
        else:
            self.held += len(segment.data)

    def _end(self, event: StreamEvent, loss: Loss | None, now: float) -> None:
        """Take an event from those that are incomplete, and remember it."""
        del self._pending[id(event)]
        self.held -= event.cost
        event.stream.end(event, loss, now)
        self._ended.append(event)
        self._full.append(event)
        self.kept += event.cost
        while self.kept > _MAX_KEPT and self._full:
            oldest = self._full.popleft()
            self.kept -= oldest.cost
            oldest.empty()
            self.kept += oldest.cost

    def _lose(self, event: StreamEvent, loss: Loss, now: float) -> None:
        """Give an event up, and report it unless nothing is sure to be of it.

        One that timed out ended when it was due, not when this was noticed: its number may begin again after that.
        """
        lost = event.lost(loss, self._max_event if loss is Loss.TOO_LONG else None)
        due = max(event.since + self._timeout_s, event.touched)
        self._end(event, loss, due if loss is Loss.TIMEOUT else now)
        if event.number is not None:
            self._report(lost, now)

    def _lose_rival(self, event: StreamEvent, now: float) -> None:
        """Report once that packets of another event with the number of this one were thrown away."""
        if not event.rivalled:
            event.rivalled = True
            self.counters.events_seen += 1
            self._report(
                LostEvent(event.key, 0, None, (), loss=Loss.RESTART, source=event.stream.source), now
            )

    def _report(self, lost: LostEvent, now: float) -> None:
        self.counters.lose(lost.loss)
        self._lost.append(lost)
        self._lost_at = now

    def _stream(self, source: Hashable, data_id: int) -> PacketStream:
        """Return a stream; one that has no event is not kept."""
        return self._streams.get((source, data_id)) or PacketStream(source, data_id, self._timeout_s)

    def _forget(self, now: float) -> None:
        """Forget ended events for which no late packet can come, and the oldest if they are too many."""
        while self._ended:
            event, stream = self._ended[0], self._ended[0].stream
            if len(self._ended) <= _MAX_ENDED and now - (event.ended_at or 0.0) <= self._timeout_s:
                return
            self._ended.popleft()
            if self._full and self._full[0] is event:
                self._full.popleft()
            self.kept -= event.cost
            stream.forget(event)
            if not stream.pending and not stream.ended:
                del self._streams[stream.source, stream.data_id]
