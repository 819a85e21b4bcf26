"""From packets to events: any order, duplicates ignored, losses found by time.

An event is complete when the bytes that have come cover it exactly. With today's header every packet says how long
the event is; with the document's 8-byte header the packet flagged last does.

Source: seed 002, "Reassembly Engine Meta-Data"; today's header as the public receiver library reads it.
Differs: the public receiver counts bytes, so that a duplicate can make an event look complete that has a hole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from ejfat.wire.headers import LB_MAGIC, ReHeader, SegmentHeader, parse_lb
from hfi_sim.errors import WireError

DEFAULT_TIMEOUT_S = 0.5
MAX_EVENT = 256 << 20
"""Bytes of the longest event that is taken: a forged length must not promise more memory than there is."""
_REMEMBERED = 16384


@dataclass(frozen=True, slots=True)
class EventKey:
    """What tells an event's packets from others'."""

    event: int
    """The event number; with the document's header the tick, or the number of the event as this receiver counts."""
    data_id: int


@dataclass(frozen=True, slots=True)
class Event:
    """A whole event."""

    key: EventKey
    data: bytes
    packets: int
    source: Hashable = None


@dataclass(frozen=True, slots=True)
class LostEvent:
    """An event of which packets are missing."""

    key: EventKey
    received: int
    """Bytes that have come."""
    length: int | None
    """Bytes there should be; None where the last packet never came."""
    missing: tuple[tuple[int, int], ...]
    """Byte ranges from, up to but not including; without a known length those before the last byte that came."""
    limit: int | None = None
    """Bytes of the longest event that is taken, where this one is longer and nothing of it was kept."""

    @property
    def reason(self) -> str:
        """Why it is lost, in words."""
        if self.limit is None:
            return f"missing bytes {self.missing}"
        known = "of an unknown length" if self.length is None else f"of {self.length} bytes"
        return f"{known}, more than the {self.limit} that are taken"


@dataclass(slots=True)
class ReassemblyCounters:
    """What came of the packets."""

    packets: int = 0
    bytes: int = 0
    malformed: int = 0
    """Too short for their headers, or of another version."""
    rejected: int = 0
    """Beyond the end of their event, longer than allowed, or of another length than the event's other packets."""
    duplicates: int = 0
    """Nothing new in them."""
    late: int = 0
    """For an event that was complete or given up already."""
    events_seen: int = 0
    """Events of which a packet was kept."""
    events_complete: int = 0
    events_lost: int = 0
    """Incomplete after their time, or too long; the latter need not be among those seen."""
    events_too_long: int = 0
    """Of the lost ones, those longer than what is taken. All their packets are rejected."""


@dataclass(slots=True)
class _Pending:
    key: EventKey
    since: float
    length: int | None
    source: Hashable
    packets: int = 0
    received: int = 0
    starts: list[int] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)

    def add(self, offset: int, data: bytes) -> bool:
        """Keep what is new of `data`; False where nothing is."""
        position = max(bisect_left(self.starts, offset + 1) - 1, 0)
        new: list[tuple[int, bytes]] = []
        at, end = offset, offset + len(data)
        while position < len(self.starts) and at < end:
            start, stop = self.starts[position], self.starts[position] + len(self.parts[position])
            if at < start:
                new.append((at, data[at - offset : min(start, end) - offset]))
            at = max(at, stop)
            position += 1
        if at < end:
            new.append((at, data[at - offset :]))
        for start, part in new:
            index = bisect_left(self.starts, start)
            self.starts.insert(index, start)
            self.parts.insert(index, part)
            self.received += len(part)
        return bool(new)

    @property
    def complete(self) -> bool:
        """Whether the parts, which never overlap, cover the event."""
        return self.length is not None and self.received == self.length

    def missing(self) -> tuple[tuple[int, int], ...]:
        """Return the byte ranges that have not come."""
        holes, at = [], 0
        for start, part in zip(self.starts, self.parts, strict=True):
            if at < start:
                holes.append((at, start))
            at = start + len(part)
        if self.length is not None and at < self.length:
            holes.append((at, self.length))
        return tuple(holes)


class Reassembler:
    """Puts events together. One for each thread or socket; it knows no time but the `now` it is given.

    Args:    old_headers: payloads begin with the document's 8-byte header. timeout_s: from an event's first packet
        to when it is given up. max_event: bytes.
    """

    def __init__(
        self, *, old_headers: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S, max_event: int = MAX_EVENT
    ) -> None:
        self.counters = ReassemblyCounters()
        self._old_headers = old_headers
        self._timeout_s = timeout_s
        self._max_event = max_event
        self._pending: OrderedDict[Hashable, _Pending] = OrderedDict()
        self._done: OrderedDict[Hashable, bool] = OrderedDict()
        """Events that are over, the last of them, and whether they were too long."""
        self._refused: list[LostEvent] = []
        """Events found too long, for the next `expire` to tell."""
        self._refused_at = 0.0
        self._numbers: dict[Hashable, int] = {}

    @property
    def pending(self) -> int:
        """Events that are not complete yet."""
        return len(self._pending)

    @property
    def deadline(self) -> float | None:
        """When `expire` has something to do next; None where nothing is pending."""
        if self._refused:
            return self._refused_at
        return next((p.since + self._timeout_s for p in self._pending.values()), None)

    def receive(self, payload: bytes, now: float, source: Hashable = None) -> Event | None:
        """Take the payload of a UDP packet; return the event that it makes whole.

        Args:    payload: with or without the LB header in front. source: who sent it, where addresses tell senders
            apart (only the document's header needs it).
        """
        counters = self.counters
        counters.packets += 1
        counters.bytes += len(payload)
        tick: int | None = None
        try:
            if int.from_bytes(payload[:2], "big") == LB_MAGIC:
                lb = parse_lb(payload)
                tick, payload = lb.tick, payload[lb.SIZE :]
            if self._old_headers:
                return self._receive_old(payload, now, source, tick)
            header = ReHeader.parse(payload)
        except WireError:
            counters.malformed += 1
            return None
        key = EventKey(header.event, header.data_id)
        return self._take(key, key, header.offset, payload[ReHeader.SIZE :], header.length, now, source)

    def _receive_old(self, payload: bytes, now: float, source: Hashable, tick: int | None) -> Event | None:
        """The document's header has no event number. The tick in front of it is one; behind a load balancer, which
        takes it away, a first packet begins a new event of its source and data id.
        """
        header = SegmentHeader.parse(payload)
        data = payload[SegmentHeader.SIZE :]
        length = header.offset + len(data) if header.last else None
        if tick is not None:
            key = EventKey(tick, header.data_id)
            return self._take((source, key), key, header.offset, data, length, now, source)
        stream = (source, header.data_id)
        number = self._numbers.get(stream, 0)
        open_event = self._pending.get((stream, number))
        begins_anew = header.first and open_event is not None and 0 in open_event.starts
        if open_event is None or begins_anew:
            if not header.first and (stream, number) in self._done:
                self._count_after((stream, number))
                return None
            number = self._numbers[stream] = number + 1
        key = EventKey(number, header.data_id)
        return self._take((stream, number), key, header.offset, data, length, now, source)

    def _take(
        self,
        slot: Hashable,
        key: EventKey,
        offset: int,
        data: bytes,
        length: int | None,
        now: float,
        source: Hashable,
    ) -> Event | None:
        counters = self.counters
        if slot in self._done:
            self._count_after(slot)
            return None
        pending = self._pending.get(slot)
        known = pending.length if pending else None
        end = offset + len(data)
        limit = length if length is not None else known
        contradicts = None not in (length, known) and length != known
        if known is None and (end if length is None else length) > self._max_event:
            self._refuse(slot, key, length, now)
            return None
        if contradicts or (limit is not None and end > limit):
            counters.rejected += 1
            return None
        if pending is None:
            pending = self._pending[slot] = _Pending(key, now, length, source)
            counters.events_seen += 1
        elif length is not None:
            pending.length = length
        pending.packets += 1
        if not pending.add(offset, data) and data:
            counters.duplicates += 1
        if not pending.complete:
            return None
        del self._pending[slot]
        self._finish(slot)
        counters.events_complete += 1
        return Event(key, b"".join(pending.parts), pending.packets, pending.source)

    def expire(self, now: float) -> list[LostEvent]:
        """Give up the events whose time is over; those found too long since the last call come first."""
        lost, self._refused = self._refused, []
        while self._pending:
            slot, pending = next(iter(self._pending.items()))
            if now < pending.since + self._timeout_s:
                break
            del self._pending[slot]
            self._finish(slot)
            self.counters.events_lost += 1
            lost.append(LostEvent(pending.key, pending.received, pending.length, pending.missing()))
        return lost

    def _refuse(self, slot: Hashable, key: EventKey, length: int | None, now: float) -> None:
        """Give up an event that is too long, at once, and with what was kept of it."""
        pending = self._pending.pop(slot, None)
        self._finish(slot, too_long=True)
        self.counters.rejected += 1
        self.counters.events_lost += 1
        self.counters.events_too_long += 1
        received = pending.received if pending else 0
        self._refused.append(LostEvent(key, received, length, (), limit=self._max_event))
        self._refused_at = now

    def _count_after(self, slot: Hashable) -> None:
        """Count a packet of an event that is over."""
        if self._done[slot]:
            self.counters.rejected += 1
        else:
            self.counters.late += 1

    def _finish(self, slot: Hashable, *, too_long: bool = False) -> None:
        self._done[slot] = too_long
        if len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
