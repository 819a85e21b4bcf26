"""VL arbitration of a link: two tables, and within each the lanes share bytes in proportion to weights.

A lane that has nothing to send, or no credits, is passed over and accumulates no credit for later.

Source: InfiniBand architecture 7.6.9 (VL arbitration): a high and a low priority table, weights, and a limit of
        high priority after which a packet of low priority gets its chance; VL15 goes before all. Omni-Path links
        have the same.
Differs: there an entry of a table sends until its weight, in units of 64 bytes, is used up, and the rest of a
         packet is forgotten; here it is remembered, so that the shares hold for packets of any size. All entries of
         a lane in a table count as one, wherever they stand. A lane that is in no table sends when no other lane
         can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

SCALE: Final = 720_720
"""The charge of a lane of weight 1 for a byte; divisible by every weight from 1 to 16."""
FIRST: Final = 0
HIGH: Final = 1
LOW: Final = 2
REST: Final = 3
"""The tables in order; `FIRST` and `REST` are for lanes in neither of the real ones."""
_TABLES: Final = (FIRST, HIGH, LOW, REST)


class Turn(NamedTuple):
    """The lane that sends, and the table that selected it."""

    vl: int
    table: int


class Arbiter:
    """The arbiter of one direction of a link. It is told what was sent, and asked what to send next."""

    def __init__(
        self,
        low: Sequence[int],
        high: Sequence[int] = (),
        high_limit_bytes: int | None = None,
        first: int | None = None,
    ):
        """Start with nothing sent.

        Args:  low, high: weight of each VL in either table; 0: none. high_limit_bytes: after this many bytes from
               the high table, one packet from the low table goes first, if any waits; None: never. first: a VL that
               goes before all others.
        """
        vls = range(len(low))
        high = tuple(high) or (0,) * len(low)
        self._weights = (
            [int(vl == first) for vl in vls],
            [0 if vl == first else high[vl] for vl in vls],
            [0 if vl == first else low[vl] for vl in vls],
            [int(vl != first and not high[vl] and not low[vl]) for vl in vls],
        )
        """By table and VL."""
        self._tables_of = [[table for table in _TABLES if self._weights[table][vl]] for vl in vls]
        self._limit = high_limit_bytes
        self._high_run = 0
        self._served = [[0] * len(low) for _ in _TABLES]
        """Bytes times `SCALE` over weight, by table and VL: of the lanes in a table, the one with the least is next."""
        self._level = [0 for _ in _TABLES]
        """By table, the value of the VL that was served last: a lane that becomes ready starts there."""

    def shares_like(self, other: Arbiter) -> bool:
        """Return whether both share a wire by the same rules, regardless of what they have sent."""
        return (self._weights, self._limit) == (other._weights, other._limit)

    def woke(self, vl: int) -> None:
        """Note that a VL can send now and could not before."""
        for table in self._tables_of[vl]:
            served = self._served[table]
            served[vl] = max(served[vl], self._level[table])

    def choose(self, ready: Sequence[int]) -> Turn:
        """Return which of these VLs, at least one, sends its next packet."""
        table = next(table for table in _TABLES if self._are_in(table, ready))
        if (
            table == HIGH
            and self._limit is not None
            and self._high_run > self._limit
            and self._are_in(LOW, ready)
        ):
            table = LOW
        served = self._served[table]
        return Turn(min(self._are_in(table, ready), key=lambda vl: (served[vl], vl)), table)

    def _are_in(self, table: int, ready: Sequence[int]) -> list[int]:
        weights = self._weights[table]
        return [vl for vl in ready if weights[vl]]

    def alone(self, vl: int) -> Turn:
        """Return the turn of a VL that sends because no other VL has anything to send."""
        return Turn(vl, self._tables_of[vl][0])

    def sent(self, turn: Turn, size: int) -> None:
        """Note that a VL has sent `size` bytes."""
        vl, table = turn
        if table != FIRST:
            self._high_run = self._high_run + size if table == HIGH else 0
        served = self._served[table]
        self._level[table] = served[vl]
        served[vl] += size * SCALE // self._weights[table][vl]
