"""From packets to events: packets in any order, duplicates ignored, losses detected by timeout.

An event is complete when the received bytes cover it exactly. With the header of LB versions 2 and 3, every packet has
the length of the event; with the 8-byte header of version 1, only the packet flagged as last determines it.

Source: seed 002, "Reassembly Engine Meta-Data"; the header of versions 2 and 3 as the public receiver library reads it.
Differs: the public receiver only counts bytes, so that a duplicate can make an incomplete event look complete.
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
"""Default for the longest event that is accepted, in bytes, so that a forged length cannot use up memory."""
_REMEMBERED = 16384


@dataclass(frozen=True, slots=True)
class EventKey:
    """Identifies the packets of an event."""

    event: int
    """The event number; with the header of version 1, the tick, or a number that the receiver counts."""
    data_id: int


@dataclass(frozen=True, slots=True)
class Event:
    """A complete event."""

    key: EventKey
    data: bytes
    packets: int
    source: Hashable = None


@dataclass(frozen=True, slots=True)
class LostEvent:
    """An incomplete event that was given up."""

    key: EventKey
    received: int
    """Number of received bytes."""
    length: int | None
    """Length of the event in bytes; None if its last packet did not arrive."""
    missing: tuple[tuple[int, int], ...]
    """Missing byte ranges (start, end), end not included; if the length is unknown, up to the last received byte."""
    limit: int | None = None
    """Maximum length of an event in bytes, if this one was too long and nothing of it was kept; otherwise None."""

    @property
    def reason(self) -> str:
        """The reason for the loss, as text."""
        if self.limit is None:
            return f"missing bytes {self.missing}"
        known = "of an unknown length" if self.length is None else f"of {self.length} bytes"
        return f"{known}, more than the {self.limit} that are accepted"


@dataclass(slots=True)
class ReassemblyCounters:
    """Counters of packets and events."""

    packets: int = 0
    bytes: int = 0
    malformed: int = 0
    """Packets too short for their headers, or with the wrong version."""
    rejected: int = 0
    """Packets beyond the end of their event, of an event that is too long, or with a contradicting event length."""
    duplicates: int = 0
    """Packets without new bytes."""
    late: int = 0
    """Packets of an event that was already complete or given up."""
    events_seen: int = 0
    """Events with at least one accepted packet."""
    events_complete: int = 0
    events_lost: int = 0
    """Events that timed out or were too long. The latter may not be in `events_seen`."""
    events_too_long: int = 0
    """Lost events that were too long; all their packets were rejected."""


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
        """Keep the new bytes of `data`; return whether there are any."""
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
        """Whether the parts, which do not overlap, cover the event."""
        return self.length is not None and self.received == self.length

    def missing(self) -> tuple[tuple[int, int], ...]:
        """Return the missing byte ranges."""
        holes, at = [], 0
        for start, part in zip(self.starts, self.parts, strict=True):
            if at < start:
                holes.append((at, start))
            at = start + len(part)
        if self.length is not None and at < self.length:
            holes.append((at, self.length))
        return tuple(holes)


class Reassembler:
    """Reassembles events. Use one per thread or socket. Sans-IO: time comes in as `now`.

    Args:    old_headers: payloads begin with the 8-byte header of version 1. timeout_s: seconds from the first packet
        of an event until it is given up. max_event: maximum length of an event in bytes.
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
        """The last events that are complete or lost, and whether they were too long."""
        self._refused: list[LostEvent] = []
        """Events that were too long, to be returned by the next `expire`."""
        self._refused_at = 0.0
        self._numbers: dict[Hashable, int] = {}

    @property
    def pending(self) -> int:
        """Number of incomplete events."""
        return len(self._pending)

    @property
    def deadline(self) -> float | None:
        """Time at which `expire` is due; None if nothing is pending."""
        if self._refused:
            return self._refused_at
        return next((p.since + self._timeout_s for p in self._pending.values()), None)

    def receive(self, payload: bytes, now: float, source: Hashable = None) -> Event | None:
        """Handle the payload of a UDP packet; return the event that it completes, or None.

        Args:    payload: with or without the LB header in front. source: the address of the sender, which
            distinguishes senders with the header of version 1.
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
        """Handle a packet with the header of version 1, which has no event number.

        If the LB header is in front, its tick is the number. After a load balancer, which removes that header, a first
        packet begins a new event of its source and data id.
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
        """Give up overdue events and return them, after those found too long since the last call."""
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
        """Give up an event that is too long at once, and discard the bytes kept of it."""
        pending = self._pending.pop(slot, None)
        self._finish(slot, too_long=True)
        self.counters.rejected += 1
        self.counters.events_lost += 1
        self.counters.events_too_long += 1
        received = pending.received if pending else 0
        self._refused.append(LostEvent(key, received, length, (), limit=self._max_event))
        self._refused_at = now

    def _count_after(self, slot: Hashable) -> None:
        """Count a packet of an event that is already complete or lost."""
        if self._done[slot]:
            self.counters.rejected += 1
        else:
            self.counters.late += 1

    def _finish(self, slot: Hashable, *, too_long: bool = False) -> None:
        self._done[slot] = too_long
        if len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
