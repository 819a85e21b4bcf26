"""The time of a kernel that another program decides: the messages of user-mode Linux's `time-travel=ext`. Sans-IO.

The kernel asks to run at a time (REQUEST) and waits (WAIT) until it is told to (RUN). While it runs, its time stands
still, so what it sends while it runs, it sends at the time of that RUN.

Source: include/uapi/linux/um_timetravel.h and arch/um/kernel/time.c of Linux.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, Self

_LAYOUT: Final = struct.Struct("=IIQ")  # what is asked, sequence number, time in ns
FOREVER_NS: Final = (1 << 63) - 1
"""The kernel asks for this time where nothing is to be done until something comes."""
DAY_ONE_NS: Final = 1_700_000_000_000_000_000
"""Time of day at time 0: the same in each run."""


class TimeOp(IntEnum):
    """What a message says."""

    ACK = 0
    """Of the message with this sequence number; of GET and GET_TOD with the time."""
    START = 1
    REQUEST = 2
    """From the kernel: run me at this time; the last one counts."""
    WAIT = 3
    """From the kernel: it waits for RUN."""
    GET = 4
    """From the kernel: what time is it?"""
    UPDATE = 5
    RUN = 6
    """To the kernel: it is this time, go on."""
    FREE_UNTIL = 7
    GET_TOD = 8
    """From the kernel: what time of day is it?"""


MESSAGE_SIZE: Final = _LAYOUT.size


class TimeMessage(NamedTuple):
    """One message, 16 bytes in the byte order of the machine."""

    op: int
    number: int
    time_ns: int = 0

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read one. Raises struct.error: not 16 bytes."""
        return cls(*_LAYOUT.unpack(data))

    def build(self) -> bytes:
        """Return its bytes."""
        return _LAYOUT.pack(*self)


class Calendar:
    """What one kernel has asked for."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """Begin before its first message. Args:  now_ns: the time, which may lag behind what RUN has said."""
        self._now_ns = now_ns
        self._last_ns = 0
        self._number = 0
        self.requested_ns: int | None = None
        """When it wants to run; None: not yet asked since it was told to."""
        self.is_waiting = False

    def take(self, message: TimeMessage) -> TimeMessage | None:
        """Take a message; return the answer to it."""
        if message.op == TimeOp.ACK:
            return None
        time_ns = 0
        if message.op == TimeOp.REQUEST:
            self.requested_ns = message.time_ns
        elif message.op == TimeOp.WAIT:
            self.is_waiting = True
        elif message.op == TimeOp.GET:
            time_ns = self.now_ns()
        elif message.op == TimeOp.GET_TOD:
            time_ns = DAY_ONE_NS + self.now_ns()
        return TimeMessage(TimeOp.ACK, message.number, time_ns)

    def now_ns(self) -> int:
        """Return the time; it never goes back."""
        self._last_ns = max(self._last_ns, self._now_ns())
        return self._last_ns

    def run(self) -> TimeMessage:
        """Return what lets the kernel run at the time that it has asked for.

        Raises:  ValueError: it does not wait, or has not asked for a time.
        """
        if not self.is_waiting or self.requested_ns is None:
            raise ValueError("the kernel does not wait for its turn")
        self._last_ns = max(self._last_ns, self.requested_ns)
        self._number += 1
        message = TimeMessage(TimeOp.RUN, self._number, self.requested_ns)
        self.requested_ns, self.is_waiting = None, False
        return message
