"""The bytes of one event as its packets bring them: in any order, and some of them more than once."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter


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
