"""Which virtual lane of a link sends next: two priorities, and within each the bytes in proportion to weights.

A lane that has nothing to send, or no credits, is passed over and saves up nothing: its turn is not kept for it.

Source: InfiniBand architecture 7.6.9 (VL arbitration): a high and a low priority table, weights, and a limit of high
priority after which a packet of low priority gets its chance. Omni-Path links have the same tables.
Differs: there an entry of a table sends until its weight, in units of 64 bytes, is used up, and the rest of a packet
is forgotten; here it is remembered, so that the shares hold for packets of any size. A lane stands in one table, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Arbiter:
    """One direction of a link. It is told what was sent, and asked what to send."""

    def __init__(self, weights: Sequence[int], high: Iterable[int] = (), high_limit_bytes: int | None = None):
        """Begin with nothing sent.

        Args:  weights: of each VL, 1 and more. high: VLs that go before the others. high_limit_bytes: after so many
               bytes of those a packet of the others goes first, if there is one; None: never.
        """
        self._weights = tuple(weights)
        self._high = frozenset(high)
        self._limit = high_limit_bytes
        self._high_run = 0
        self._served = [0.0] * len(self._weights)
        """Bytes over weight, of each VL: the one with the least is next."""
        self._level = {True: 0.0, False: 0.0}
        """What the VL that was served last had, in either table: one that wakes up begins there."""

    def woke(self, vl: int) -> None:
        """Note that a VL can send now and could not before."""
        self._served[vl] = max(self._served[vl], self._level[vl in self._high])

    def choose(self, ready: Sequence[int]) -> int:
        """Return which of these VLs, at least one, sends its next packet."""
        high = [vl for vl in ready if vl in self._high]
        low = [vl for vl in ready if vl not in self._high]
        if high and low:
            low_is_due = self._limit is not None and self._high_run > self._limit
            candidates = low if low_is_due else high
        else:
            candidates = high or low
        return min(candidates, key=lambda vl: (self._served[vl], vl))

    def sent(self, vl: int, size: int) -> None:
        """Note that a VL has sent `size` bytes."""
        is_high = vl in self._high
        self._high_run = self._high_run + size if is_high else 0
        self._level[is_high] = self._served[vl]
        self._served[vl] += size / self._weights[vl]
