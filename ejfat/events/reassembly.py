"""From packets to events: packets in any order, duplicates ignored, losses detected by timeout.

An event is handed over only if the parts cover each of its bytes and none contradicts another. With the header of LB
versions 2 and 3, every packet has the number and the length of its event. The 8-byte header of version 1 has neither:
a packet flagged as first begins an event of its source and data id, one flagged as last determines the length, and
packets that do not fit together show that the parts come from more than one event. Such an event is given up.

Source: seed 002, "Reassembly Engine Meta-Data"; the header of versions 2 and 3 as the public receiver library reads it.
Differs: the public receiver only counts bytes, so that a duplicate can make an incomplete event look complete.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final

from ejfat.wire.headers import LB_MAGIC, ReHeader, SegmentHeader, parse_lb
from hfi_sim.base.errors import WireError

DEFAULT_TIMEOUT_S = 0.5
MAX_EVENT = 256 << 20
"""Default for the longest event that is accepted, in bytes, so that a forged length cannot use up memory."""
MAX_HELD: Final = 1 << 30
"""Default for the memory that incomplete events may take, in bytes."""
_EVENT_COST: Final = 512
_PART_COST: Final = 128
"""Memory of an event and of each of its parts, in bytes, beside the data."""
_REMEMBERED: Final = 16384


class Loss(Enum):
    """Why an event was given up."""

    TIMEOUT = "timeout"
    TOO_LONG = "too long"
    CONTRADICTION = "contradiction"
    NO_ROOM = "no room"


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
    loss: Loss = Loss.TIMEOUT

    @property
    def reason(self) -> str:
        """The reason for the loss, as text."""
        if self.loss is Loss.CONTRADICTION:
            return "its packets contradict each other, or can be of another event of the same sender"
        if self.loss is Loss.NO_ROOM:
            return "there was no more room for incomplete events, and this one was the oldest"
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
    """Packets beyond the end of their event, of an event that is too long, with a contradicting length or contradicting
    bytes, from another address than the rest of their event, or of an event whose first packet did not arrive."""
    duplicates: int = 0
    """Packets without new bytes."""
    late: int = 0
    """Packets of an event that was already complete or given up."""
    events_seen: int = 0
    """Events with at least one accepted packet."""
    events_complete: int = 0
    events_lost: int = 0
    """Events that timed out or were given up. Those that were too long may not be in `events_seen`."""
    events_too_long: int = 0
    """Lost events that were too long; all their packets were rejected."""
    events_contradictory: int = 0
    """Lost events whose packets contradict each other, or can be of another event."""
    events_no_room: int = 0
    """Lost events that were the oldest when incomplete events took too much memory."""

    def summary(self) -> str:
        """Return a line such as `2 events, 1 lost (1 contradictory), 90 packets (3 rejected)`."""
        lost = {
            "contradictory": self.events_contradictory,
            "too long": self.events_too_long,
            "no room": self.events_no_room,
        }
        unused = {
            "malformed": self.malformed,
            "rejected": self.rejected,
            "duplicate": self.duplicates,
            "late": self.late,
        }
        return (
            f"{self.events_complete} events, {self.events_lost} lost{_of_these(lost)}, "
            f"{self.packets} packets{_of_these(unused)}"
        )


def _of_these(counts: Mapping[str, int]) -> str:
    """Return the counts above 0 in parentheses."""
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f" ({listed})" if listed else ""


class _Added(Enum):
    """What a part has brought to an event."""

    NEW = 0
    KNOWN = 1
    CONTRADICTION = 2


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
    """They do not overlap, and none is beyond the length."""
    doubtful: bool = False
    """Whether a part can be of another event."""

    @property
    def end(self) -> int:
        """The end of the last part."""
        return self.starts[-1] + len(self.parts[-1]) if self.parts else 0

    @property
    def complete(self) -> bool:
        """Whether the parts cover the event."""
        return self.received == self.length

    @property
    def cost(self) -> int:
        """Memory that it takes, in bytes."""
        return _EVENT_COST + _PART_COST * len(self.parts) + self.received

    def add(self, offset: int, data: bytes) -> _Added:
        """Keep the new bytes of `data`; or none if a byte that was received before differs."""
        new: list[tuple[int, bytes]] = []
        at, end = offset, offset + len(data)
        for position in range(max(bisect_left(self.starts, offset + 1) - 1, 0), len(self.starts)):
            start, part = self.starts[position], self.parts[position]
            if start >= end:
                break
            if at < start:
                new.append((at, data[at - offset : start - offset]))
                at = start
            stop = min(start + len(part), end)
            if at < stop:
                if data[at - offset : stop - offset] != part[at - start : stop - start]:
                    return _Added.CONTRADICTION
                at = stop
        if at < end:
            new.append((at, data[at - offset :]))
        for start, part in new:
            index = bisect_left(self.starts, start)
            self.starts.insert(index, start)
            self.parts.insert(index, part)
            self.received += len(part)
        return _Added.NEW if new else _Added.KNOWN

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

    def can_take(self, offset: int, end: int, *, in_order: bool) -> bool:
        """Return whether a part can be a late one of this event, of which its sender has sent the last already.

        What is missing at the end of an event was lost rather than late if the next event arrives in order.
        """
        late_end = self.length is None and end > self.end and not in_order
        return late_end or any(offset < stop and start < end for start, stop in self.missing())


class Reassembler:
    """Reassembles events. Use one per thread or socket. Sans-IO: time comes in as `now`.

    Args:    old_headers: payloads begin with the 8-byte header of version 1. timeout_s: seconds from the first packet
        of an event until it is given up. max_event: maximum length of an event in bytes. max_held: bytes of memory
        that incomplete events may take. numbers: for events with the header of version 1 and without a tick;
        reassemblers whose events go to one place share them.
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
        self._held = 0
        self._pending: OrderedDict[Hashable, _Pending] = OrderedDict()
        self._done: OrderedDict[Hashable, bool] = OrderedDict()
        """The last events that are complete or lost, and whether they were too long."""
        self._refused: list[LostEvent] = []
        """Events that were given up before their time, to be returned by the next `expire`."""
        self._refused_at = 0.0
        self._streams: OrderedDict[Hashable, tuple[EventKey, EventKey | None]] = OrderedDict()
        """For each of the last senders and data ids without a tick: the latest event, and the one before it."""

    @property
    def pending(self) -> int:
        """Number of incomplete events."""
        return len(self._pending)

    @property
    def held(self) -> int:
        """Memory that incomplete events take, in bytes."""
        return self._held

    @property
    def deadline(self) -> float | None:
        """Time at which `expire` is due; None if nothing is pending."""
        if self._refused:
            return self._refused_at
        return next((p.since + self._timeout_s for p in self._pending.values()), None)

    def receive(self, payload: bytes, now: float, source: Hashable = None) -> Event | None:
        """Handle the payload of a UDP packet; return the event that it completes, or None.

        Args:    payload: with or without the LB header in front. source: the address and port of the sender, or
            another name for it. All packets of an event come from one address; with the header of version 1, from
            one port, too.
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
        packet begins a new event of its source and data id, to which the packets after it belong. A packet before it
        can be the rest of an event whose beginning was not received, so it begins none.
        """
        header = SegmentHeader.parse(payload)
        data = payload[SegmentHeader.SIZE :]
        end = header.offset + len(data)
        length = end if header.last else None
        if tick is not None:
            key = EventKey(tick, header.data_id)
            return self._take((source, key), key, header.offset, data, length, now, source)
        stream = (source, header.data_id)
        latest, before = self._streams.get(stream, (None, None))
        if header.first and not self._has_only(latest, data):
            latest, before = EventKey(next(self._numbers), header.data_id), latest
            self._streams[stream] = latest, before
            self._streams.move_to_end(stream)
            if len(self._streams) > _REMEMBERED:
                self._streams.popitem(last=False)
        elif latest is None:
            self.counters.rejected += 1
            return None
        elif latest not in self._pending:
            self._count_after(latest)
            return None
        event, earlier = self._pending.get(latest), self._pending.get(before)
        doubtful = (
            event is not None
            and earlier is not None
            and earlier.can_take(header.offset, end, in_order=header.offset == event.end)
        )
        return self._take(latest, latest, header.offset, data, length, now, source, doubtful=doubtful)

    def _has_only(self, key: EventKey | None, data: bytes) -> bool:
        """Return whether an event is incomplete and all that is known of it is this part."""
        pending = self._pending.get(key)
        return pending is not None and pending.parts == [data]

    def _take(
        self,
        slot: Hashable,
        key: EventKey,
        offset: int,
        data: bytes,
        length: int | None,
        now: float,
        source: Hashable,
        *,
        doubtful: bool = False,
    ) -> Event | None:
        counters = self.counters
        if slot in self._done:
            self._count_after(slot)
            return None
        pending = self._pending.get(slot)
        if pending is not None and _address(source) != _address(pending.source):
            counters.rejected += 1
            return None
        known, received = (pending.length, pending.received) if pending else (None, 0)
        end = offset + len(data)
        limit = length if length is not None else known
        if known is None and (end if length is None else length) > self._max_event:
            counters.rejected += 1
            lost = LostEvent(key, received, length, (), self._max_event, Loss.TOO_LONG)
            self._give_up(slot, lost, now)
            return None
        farthest = max(end, pending.end) if pending else end
        if (None not in (length, known) and length != known) or (limit is not None and farthest > limit):
            counters.rejected += 1
            if (
                self._old_headers and pending
            ):  # in versions 2 and 3 the length is sure, and this packet alone is wrong
                self._give_up(slot, LostEvent(key, received, known, (), loss=Loss.CONTRADICTION), now)
            return None
        if pending is None:
            pending = self._pending[slot] = _Pending(key, now, length, source)
            self._held += pending.cost
            counters.events_seen += 1
        elif length is not None:
            pending.length = length
        pending.packets += 1
        cost = pending.cost
        added = pending.add(offset, data)
        self._held += pending.cost - cost
        if added is _Added.NEW:
            pending.doubtful |= doubtful
        elif added is _Added.CONTRADICTION:
            counters.rejected += 1
        elif data:
            counters.duplicates += 1
        if added is _Added.CONTRADICTION or (pending.complete and pending.doubtful):
            lost = LostEvent(key, pending.received, pending.length, (), loss=Loss.CONTRADICTION)
            self._give_up(slot, lost, now)
            return None
        if pending.complete:
            self._forget(slot)
            counters.events_complete += 1
            return Event(key, b"".join(pending.parts), pending.packets, pending.source)
        while self._held > self._max_held:
            oldest, other = next(iter(self._pending.items()))
            lost = LostEvent(other.key, other.received, other.length, other.missing(), loss=Loss.NO_ROOM)
            self._give_up(oldest, lost, now)
        return None

    def expire(self, now: float) -> list[LostEvent]:
        """Return the events given up since the last call, and give up those that are overdue."""
        lost, self._refused = self._refused, []
        while self._pending:
            slot, pending = next(iter(self._pending.items()))
            if now < pending.since + self._timeout_s:
                break
            self._forget(slot)
            self.counters.events_lost += 1
            lost.append(LostEvent(pending.key, pending.received, pending.length, pending.missing()))
        return lost

    def _give_up(self, slot: Hashable, lost: LostEvent, now: float) -> None:
        """Give up an event at once, and discard the bytes kept of it."""
        self._forget(slot, too_long=lost.loss is Loss.TOO_LONG)
        counters = self.counters
        counters.events_lost += 1
        counters.events_too_long += lost.loss is Loss.TOO_LONG
        counters.events_contradictory += lost.loss is Loss.CONTRADICTION
        counters.events_no_room += lost.loss is Loss.NO_ROOM
        self._refused.append(lost)
        self._refused_at = now

    def _count_after(self, slot: Hashable) -> None:
        """Count a packet of an event that is already complete or lost."""
        if self._done.get(slot):
            self.counters.rejected += 1
        else:
            self.counters.late += 1

    def _forget(self, slot: Hashable, *, too_long: bool = False) -> None:
        """Discard what is kept of an event, and remember that it has ended."""
        pending = self._pending.pop(slot, None)
        self._held -= pending.cost if pending else 0
        self._done[slot] = too_long
        if len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)


def _address(source: Hashable) -> Hashable:
    """Return the address without the port."""
    return source[0] if isinstance(source, tuple) else source
