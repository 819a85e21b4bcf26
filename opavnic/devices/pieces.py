"""Reads and writes that FUSE takes apart: how many bytes a program has asked for, and what of them has been served.

The kernel asks for at most `fuse.MAX_WRITE` bytes at a time. A longer read or write comes as several requests, one
after the other, with growing offsets; it ends with the first that is answered by fewer bytes, or by an error, and then
says how many bytes were transferred before. A device has messages, not bytes: whether one fits, and whether it is
valid, must be known at the first piece. So the call itself is inspected at the first piece. The first
request of a call has offset 0, since files of devices have no position.

Source: fuse_direct_io in fs/fuse/file.c of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hfi_sim.management.mad.transfers import MAX_MESSAGE
from hfi_sim.management.umad.abi import HEADER_SIZE

MAX_WRITTEN: Final = HEADER_SIZE + MAX_MESSAGE
"""Bytes of the longest write that can be valid."""
MAY_BE_PART: Final = 31 * 4096
"""A write of fewer bytes is not part of a longer one: kernels transfer 32 pages or more at a time."""
MAX_RESTS: Final = 4
"""Reads of one file that are served piece by piece at a time; a thread that ends in the middle leaves its rest."""


@dataclass(frozen=True, slots=True)
class Deposit:
    """A read is too short for its message: its buffer is to be filled all the same (`FileSystem.deposited`)."""

    unique: int
    tid: int
    size: int
    """Of the buffer, as far as it is known: a longer one is to be left alone."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """A write may be longer than the part that has arrived: the rest is requested (`FileSystem.fetched`)."""

    unique: int
    tid: int
    data: bytes
    """What has come."""


@dataclass(slots=True)
class Pieces:
    """The calls on one open file that are served piece by piece."""

    rests: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """By thread: the offset that its read has come to, and the bytes that it still gets."""
    written: tuple[int, int, int] = (0, 0, 0)
    """Thread, offset and number of the bytes that were taken before they have come. A file has one write at a time."""

    def forget_read(self, tid: int) -> None:
        """Forget what a thread has left of a read: it begins another."""
        self.rests.pop(tid, None)

    def begin_read(self, tid: int, data: bytes, piece: int) -> bytes:
        """Return the first piece of what a read gets; the rest waits."""
        if len(data) > piece:
            if len(self.rests) >= MAX_RESTS:
                del self.rests[next(iter(self.rests))]
            self.rests[tid] = piece, data[piece:]
        return data[:piece]

    def next_read(self, tid: int, offset: int, size: int) -> bytes:
        """Return the next piece; empty: the read ends."""
        at, rest = self.rests.pop(tid, (0, b""))
        if at != offset:
            return b""
        if len(rest) > size:
            self.rests[tid] = at + size, rest[size:]
        return rest[:size]

    def begin_write(self, tid: int, taken: int, piece: int) -> None:
        """Note that a write was taken whole at its first piece."""
        self.written = tid, piece, taken - piece

    def next_write(self, tid: int, offset: int, size: int) -> bool:
        """Return whether a piece belongs to a write that was taken."""
        if self.written[:2] != (tid, offset) or self.written[2] < size:
            return False
        self.written = tid, offset + size, self.written[2] - size
        return True
