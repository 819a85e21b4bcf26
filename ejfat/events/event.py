"""From events to packets, cut into segments; and what becomes of them: complete and lost events, and their counters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ejfat.wire.headers import LbHeaderV1, LbHeaderV2, LbHeaderV3, ReHeader, SegmentHeader


class Loss(Enum):
    """Why an event is lost; the value names its counter, `events_VALUE`, but for the first."""

    TIMEOUT = "incomplete"
    CONTRADICTION = "contradictory"
    TOO_LONG = "too_long"
    NO_ROOM = "no_room"
    RESTART = "restarted"
    NO_BEGINNING = "headless"


_REASONS = {
    Loss.CONTRADICTION: "its packets contradict each other, or can be of another event of the same sender",
    Loss.NO_ROOM: "there was no more room for incomplete events, and this one was the oldest",
    Loss.RESTART: "another event of its sender has the same number, and neither can be told from the other",
    Loss.NO_BEGINNING: "its first packet did not arrive",
}


@dataclass(frozen=True, slots=True)
class EventKey:
    """Identifies the packets of an event within the stream of its sender."""

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
    """An event of which packets arrived, and that is not handed over."""

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
    source: Hashable = None

    @property
    def reason(self) -> str:
        """The reason for the loss, as text."""
        if self.loss in _REASONS:
            return _REASONS[self.loss]
        if self.limit is None:
            return f"missing bytes {self.missing}"
        known = "of an unknown length" if self.length is None else f"of {self.length} bytes"
        return f"{known}, more than the {self.limit} that are accepted"


@dataclass(slots=True)
class ReassemblyCounters:
    """Counters of packets and events.

    A packet is part of an event that was handed over or lost, or it was thrown away and is counted in one of
    `malformed`, `rejected`, `duplicates` and `late`. An event that was seen is complete, lost, or still incomplete.
    """

    packets: int = 0
    bytes: int = 0
    malformed: int = 0
    """Packets too short for their headers, or with the wrong version."""
    rejected: int = 0
    """Packets beyond the end of their event, of an event that is too long, with a contradicting length or contradicting
    bytes, or of an event whose first packet did not arrive. The events that they are of count in `events_lost`."""
    duplicates: int = 0
    """Packets without new bytes."""
    late: int = 0
    """Packets of an event that was already complete or lost."""
    events_seen: int = 0
    """Events of which a packet arrived, without those that only repeat another one."""
    events_complete: int = 0
    events_lost: int = 0
    """Events that timed out or were given up."""
    events_too_long: int = 0
    """Lost events that were too long; all their packets were rejected."""
    events_contradictory: int = 0
    """Lost events whose packets contradict each other, or can be of another event."""
    events_no_room: int = 0
    """Lost events that were the oldest when incomplete events took too much memory."""
    events_restarted: int = 0
    """Lost events with the number of another event of their stream that was under way, or had just been lost."""
    events_headless: int = 0
    """Lost events with the header of version 1 whose first packet did not arrive."""

    def lose(self, loss: Loss) -> None:
        """Count a lost event."""
        self.events_lost += 1
        if loss is not Loss.TIMEOUT:
            name = f"events_{loss.value}"
            setattr(self, name, getattr(self, name) + 1)

    def add(self, other: ReassemblyCounters) -> None:
        """Add the counts of another receiver."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def summary(self) -> str:
        """Return a line such as `2 events, 1 lost (1 contradictory), 90 packets (3 rejected)`."""
        reasons = [loss for loss in Loss if loss is not Loss.TIMEOUT]
        lost = {loss.value.replace("_", " "): getattr(self, f"events_{loss.value}") for loss in reasons}
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


_IP_UDP = {4: 28, 6: 48}
MAX_EVENT = (1 << 32) - 1
_LB_SIZE = {1: LbHeaderV1.SIZE, 2: LbHeaderV2.SIZE, 3: LbHeaderV3.SIZE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmenter:
    """Cuts events into the payloads of UDP packets.

    Args:    version: of the LB header, 1 to 3; version 1 uses the 8-byte reassembly header, 2 and 3 use
        the 20-byte one. mtu: bytes of the IP packet.
    """

    version: int = 2
    mtu: int = 1500
    ip_version: int = 4

    def __post_init__(self) -> None:
        if self.version not in _LB_SIZE:
            raise ValueError(f"LB header version {self.version}, expected 1, 2 or 3")
        if self.room < 1:
            raise ValueError(f"an MTU of {self.mtu} leaves no room for payload after the headers")

    @property
    def headers(self) -> int:
        """Total bytes of the LB header and the reassembly header."""
        return _LB_SIZE[self.version] + (SegmentHeader.SIZE if self.version == 1 else ReHeader.SIZE)

    @property
    def room(self) -> int:
        """Event bytes in a full packet."""
        return self.mtu - _IP_UDP[self.ip_version] - self.headers

    def payloads(
        self, event_data: bytes, *, tick: int, data_id: int, event: int, entropy: int = 0
    ) -> Iterator[bytes]:
        """Yield the UDP payloads of an event; an empty event has one packet without data.

        Args:    entropy: 16 bits, the same for all packets of the event, which select the port at the worker.
        Raises:  ValueError: the event is longer than 2**32 - 1 bytes, or a number does not fit its field.
        """
        length = len(event_data)
        if length > MAX_EVENT:
            raise ValueError(f"an event of {length} bytes; the reassembly header allows {MAX_EVENT}")
        front = self._lb(tick, entropy)
        room = self.room
        view = memoryview(event_data)
        for offset in range(0, length, room) or (0,):
            last = offset + room >= length
            header = (
                SegmentHeader(data_id=data_id, offset=offset, first=offset == 0, last=last).build()
                if self.version == 1
                else ReHeader(data_id=data_id, offset=offset, length=length, event=event).build()
            )
            yield b"".join((front, header, view[offset : offset + room]))

    def _lb(self, tick: int, entropy: int) -> bytes:
        if self.version == 1:
            return LbHeaderV1(tick=tick).build()
        if self.version == 2:
            return LbHeaderV2(tick=tick, entropy=entropy).build()
        return LbHeaderV3(tick=tick, slot_select=tick & 0xFFFF, port_select=entropy).build()
