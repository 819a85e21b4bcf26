"""RMPP: messages of several MADs, taken apart and put together.

The receiver acknowledges a window of segments at a time, the sender repeats what is not acknowledged. `Reassembly` is
one message that comes in, `Segmented` one that goes out.

Source: drivers/infiniband/core/mad_rmpp.c of Linux; the InfiniBand architecture, 13.6 (RMPP).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum, IntFlag
from typing import Final

from hfi_sim.wire.mad.header import (
    DATA_OFFSET_VENDOR,
    MAD_SIZE_IB,
    METHOD_OFFSET,
    RESPONSE_BIT,
    RMPP_ACTIVE,
    MadClass,
    MadHeader,
    RmppHeader,
    is_vendor_class,
    mad_size,
)

RMPP_VERSION: Final = 1
RMPP_END: Final = MadHeader.SIZE + RmppHeader.SIZE
"""Where the RMPP header of a MAD ends."""
WINDOW: Final = 64
"""Segments that may be in transit before an acknowledgement."""
_DATA_OFFSET_SA: Final = 56
_DATA_OFFSET_DEVICE: Final = 64
_DEVICE_CLASSES: Final = (0x06, 0x10, 0x12)
"""Management and administration of devices, and BIS."""
_FLAGS_AT: Final = MadHeader.SIZE + 2
_RTIME: Final = 0xF8
"""The bits of the response time, beside the flags."""


class RmppType(IntEnum):
    """The types of MADs with RMPP."""

    DATA = 1
    ACK = 2
    STOP = 3
    ABORT = 4


class RmppStatus(IntEnum):
    """Why one side ends the transfer of a message."""

    RESOURCES = 1
    """With STOP: the message is too long, or too many arrive."""
    BAD_SEGMENT = 120
    """With ABORT: segments contradict each other, or the first is not marked as the first."""
    BAD_TYPE = 121
    """With ABORT: neither DATA, ACK, STOP nor ABORT."""
    SMALL_WINDOW = 122
    """With ABORT: a window that ends before what it acknowledges."""
    BAD_STATUS = 124
    """With ABORT: a status that the type does not have."""
    VERSION = 125
    """With ABORT: unsupported RMPP version."""


_ABORT_STATUS: Final = range(118, 128)


class RmppFlag(IntFlag):
    """The lower three bits beside the response time."""

    ACTIVE = 1
    FIRST = 2
    LAST = 4


def rmpp_of(mad: bytes) -> RmppHeader:
    """Return the RMPP header of a MAD that is long enough for it."""
    return RmppHeader.parse(mad[MadHeader.SIZE : RMPP_END])


def fault_of(rmpp: RmppHeader) -> RmppStatus | None:
    """Return why a receiver aborts the transfer at the sight of a header; None: it does not.

    Source: ib_process_rmpp_recv_wc of Linux, and what it calls for each type.
    """
    if rmpp.version != RMPP_VERSION:
        return RmppStatus.VERSION
    status = rmpp.rmpp_status
    match rmpp.type:
        case RmppType.DATA:
            wrong_place = (rmpp.segment == 1) != bool(rmpp.rtime_flags & RmppFlag.FIRST)
            return RmppStatus.BAD_STATUS if status else RmppStatus.BAD_SEGMENT if wrong_place else None
        case RmppType.ACK:
            too_small = rmpp.length < rmpp.segment
            return RmppStatus.BAD_STATUS if status else RmppStatus.SMALL_WINDOW if too_small else None
        case RmppType.STOP:
            return None if status == RmppStatus.RESOURCES else RmppStatus.BAD_STATUS
        case RmppType.ABORT:
            return None if status in _ABORT_STATUS else RmppStatus.BAD_STATUS
    return RmppStatus.BAD_TYPE


def is_active(mad: bytes) -> bool:
    """Return whether a MAD is part of an RMPP transfer, if its class has RMPP. Looks at nothing but the flag."""
    return len(mad) >= RMPP_END and bool(mad[_FLAGS_AT] & RMPP_ACTIVE)


def has_rmpp(mgmt_class: int) -> bool:
    """Return whether MADs of a class have an RMPP header.

    Source: ib_is_mad_class_rmpp of Linux: subnet administration, classes of devices, vendor classes with OUI.
    """
    return mgmt_class in (MadClass.SUBN_ADM, *_DEVICE_CLASSES) or is_vendor_class(mgmt_class)


def data_offset(mgmt_class: int) -> int:
    """Return where the data of a MAD starts: what stands before it is repeated in every segment."""
    if mgmt_class == MadClass.SUBN_ADM:
        return _DATA_OFFSET_SA
    if mgmt_class in _DEVICE_CLASSES:
        return _DATA_OFFSET_DEVICE
    return DATA_OFFSET_VENDOR if is_vendor_class(mgmt_class) else MadHeader.SIZE


class Reassembly:
    """A message that arrives in segments."""

    def __init__(self) -> None:
        self.complete = False
        self.contradictory = False
        """Two segments with the same number differ, or one follows the last: they belong to different messages."""
        self._segments: list[bytes] = []
        self._received = 0
        self._early: dict[int, bytes] = {}
        """Segments that arrived out of order, ahead of a missing one, by number."""
        self._window = 1

    @property
    def size(self) -> int:
        """Bytes of the segments that are held, without those that are early; 0 once the message was taken."""
        return len(self._segments) * mad_size(self._segments[0][0]) if self._segments else 0

    def add(self, mad: bytes) -> bytes | None:
        """Take a segment, its MAD at full size; return the acknowledgement to send, or None."""
        number = rmpp_of(mad).segment
        if number <= self._received or self.complete:
            if number and not self.complete:
                self.contradictory |= mad != self._segments[number - 1]
            return self._ack(mad)
        if number > self._window:
            return None
        if self._early.setdefault(number, mad) != mad:
            self.contradictory = True
        while (following := self._early.pop(self._received + 1, None)) is not None:
            self._segments.append(following)
            self._received += 1
            if rmpp_of(following).rtime_flags & RmppFlag.LAST:
                self.complete = True
                self.contradictory |= bool(self._early)
                self._early.clear()
                return self._ack(mad)
        if self._received < self._window:
            return None
        self._window += WINDOW
        return self._ack(mad)

    def _ack(self, mad: bytes) -> bytes:
        """Return the acknowledgement of everything so far, in answer to one of the segments."""
        return _answer(mad, RmppType.ACK, 0, self._received, self._window)

    def take(self) -> bytes:
        """Return the complete message, once: the first segment and the data of the others, without padding at the end.

        In a vendor class the length counts the bytes after the RMPP header, while each segment repeats 4 bytes more;
        the message is then up to 4 bytes too long for each segment, as it is from the kernel.
        """
        segments, self._segments = self._segments, []
        offset, size = data_offset(segments[0][1]), mad_size(segments[0][0])
        room = size - RMPP_END
        pad = room - rmpp_of(segments[-1]).length
        total = offset + len(segments) * (size - offset) - (pad if 0 <= pad <= room else 0)
        return (segments[0] + b"".join(segment[offset:] for segment in segments[1:]))[:total]


def refusal(mad: bytes, kind: RmppType, status: RmppStatus) -> bytes:
    """Return the STOP or ABORT that answers a segment, 256 bytes."""
    return _answer(mad, kind, status, 0, 0)


def acknowledged_again(mad: bytes) -> bytes:
    """Return the answer to the acknowledgement of what needed none, 256 bytes. Source: ack_ds_ack of Linux."""
    return _answer(mad, RmppType.ACK, 0, 0, 1)


def _answer(mad: bytes, kind: RmppType, status: int, segment: int, length: int) -> bytes:
    """Return a MAD without data; as in the kernel it has 256 bytes in both base versions."""
    answer = bytearray(mad[: data_offset(mad[1])].ljust(MAD_SIZE_IB, b"\0"))
    answer[METHOD_OFFSET] ^= RESPONSE_BIT
    flags = rmpp_of(mad).rtime_flags & _RTIME | RMPP_ACTIVE
    header = RmppHeader(RMPP_VERSION, kind, flags, status, segment, length)
    answer[MadHeader.SIZE : RMPP_END] = header.build()
    return bytes(answer)


class Lone:
    """A response that bears the RMPP header of its request, although its agent has not made a message of it.

    The kernel sends it as segment 1 of none: the first, not the last, without a length. Every acknowledgement is one
    of what has been acknowledged already.

    Source: ib_send_rmpp_mad and process_rmpp_ack of Linux, with what vema_recv of opa_vnic gives them.
    """

    complete = False

    def __init__(self, mad: bytes) -> None:
        """Take the response, whose header says DATA and ACTIVE."""
        header = rmpp_of(mad)
        flags = header.rtime_flags & _RTIME | RmppFlag.ACTIVE | RmppFlag.FIRST
        header = replace(header, rtime_flags=flags, segment=1, length=0)
        self._mad = mad[: MadHeader.SIZE] + header.build() + mad[RMPP_END:]
        self._is_due = True

    def due(self) -> Iterator[bytes]:
        """Yield it, once."""
        if self._is_due:
            self._is_due = False
            yield self._mad


class Segmented:
    """A message that leaves in segments; it is sent as far as the receiver's window goes."""

    def __init__(self, message: bytes) -> None:
        """Take a message of a program apart: the header of a MAD up to its data, then all data."""
        size, offset = mad_size(message[0]), data_offset(message[1])
        head, data = message[:offset], message[offset:]
        step, room = size - offset, size - RMPP_END
        chunks = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
        pad = step - len(chunks[-1])
        rtime = rmpp_of(message).rtime_flags & _RTIME
        self._segments = []
        for number, chunk in enumerate(chunks, start=1):
            flags, length = RmppFlag.ACTIVE, 0
            if number == 1:
                flags, length = flags | RmppFlag.FIRST, len(chunks) * room - pad
            if number == len(chunks):
                flags, length = flags | RmppFlag.LAST, room - pad
            header = RmppHeader(RMPP_VERSION, RmppType.DATA, rtime | flags, 0, number, max(0, length))
            segment = head[: MadHeader.SIZE] + header.build() + head[RMPP_END:] + chunk
            self._segments.append(segment.ljust(size, b"\0"))
        self._acknowledged = 0
        self._sent = 0
        self._window = 1

    @property
    def complete(self) -> bool:
        """Whether the receiver has acknowledged all of it."""
        return self._acknowledged == len(self._segments)

    def due(self) -> Iterator[bytes]:
        """Yield the segments that may leave now."""
        while self._sent < min(self._window, len(self._segments)):
            self._sent += 1
            yield self._segments[self._sent - 1]

    def acknowledge(self, rmpp: RmppHeader) -> bool:
        """Take an acknowledgement; return whether it told anything new."""
        if rmpp.segment > self._sent or rmpp.segment < self._acknowledged:
            return False
        news = rmpp.segment > self._acknowledged or rmpp.length > self._window
        self._acknowledged = rmpp.segment
        self._window = max(self._window, rmpp.length)
        return news

    def repeat(self) -> None:
        """Send again what is not acknowledged, from the first on."""
        self._sent = self._acknowledged
