"""Traps of a node, repeated until a manager represses them. Sans-IO: `now` comes in, notices to send go out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

REPEATS: Final = 5
"""Times that a trap is repeated if it is not repressed."""
MAX_WAITING: Final = 100
"""Traps of one notice type that wait at once; a further one is not sent.

Source: check_and_add_trap of hfi1 mad.c and RVT_MAX_TRAP_LEN of rdma_vt.h, in Linux.
"""
SHORTEST_WAIT_S: Final = 0.1


@dataclass(slots=True)
class _Trap:
    kind: int
    mad: bytes
    wait_s: float
    due: float
    repeated: int = 0


class TrapQueue:
    """The traps of one port."""

    def __init__(self) -> None:
        self._traps: dict[int, _Trap] = {}
        self._due: deque[bytes] = deque()

    def add(self, now: float, tid: int, kind: int, mad: bytes, wait_s: float) -> bool:
        """Take a trap to send; return whether it will be. Args: kind: notice type; wait_s: until it is repeated."""
        waiting = [trap for trap in self._traps.values() if trap.kind == kind]
        if len(waiting) >= MAX_WAITING or any(trap.mad[24:] == mad[24:] for trap in waiting):
            return False
        wait_s = max(wait_s, SHORTEST_WAIT_S)
        self._traps[tid] = _Trap(kind, mad, wait_s, now + wait_s)
        self._due.append(mad)
        return True

    def repress(self, tid: int) -> bool:
        """Forget a trap that a manager has acknowledged; return whether it was there."""
        return self._traps.pop(tid, None) is not None

    def clear(self) -> None:
        """Forget all traps: no manager awaits them any more."""
        self._traps.clear()
        self._due.clear()

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        return min((trap.due for trap in self._traps.values()), default=None)

    def expire(self, now: float) -> None:
        """Repeat what has waited long enough, or give it up."""
        for tid, trap in list(self._traps.items()):
            if trap.due > now:
                continue
            if trap.repeated >= REPEATS:
                del self._traps[tid]
                continue
            trap.repeated += 1
            trap.due = now + trap.wait_s
            self._due.append(trap.mad)

    def next(self) -> bytes | None:
        """Return the next trap to send, or None."""
        return self._due.popleft() if self._due else None
