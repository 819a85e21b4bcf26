"""Records of what was sent, routed and delivered, to prove that no event was split or lost."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field


def event_data(tick: int, data_id: int, size: int) -> bytes:
    """Return `size` bytes of event content that depend only on the arguments."""
    block = hashlib.sha256(f"{tick}:{data_id}".encode()).digest()
    return (block * (size // len(block) + 1))[:size]


@dataclass(slots=True)
class Ledger:
    """The records of one run. An event is a tick; each source sends a part of it under its data id."""

    sent: set[tuple[int, int]] = field(default_factory=set)
    routed: dict[int, set[str]] = field(default_factory=dict)
    """By tick, the workers to which the load balancer sent its packets."""
    delivered: dict[tuple[int, int], str] = field(default_factory=dict)
    damaged: int = 0
    """Complete parts whose content differs from what was sent."""
    twice: int = 0
    """Parts that were delivered a second time."""

    def forwarded(self, tick: int, worker: str) -> None:
        """Record that a packet of `tick` was forwarded to `worker`."""
        self.routed.setdefault(tick, set()).add(worker)

    def arrived(self, worker: str, tick: int, data_id: int, data: bytes, size: int) -> None:
        """Record a part that a worker has reassembled, and check its content."""
        key = (tick, data_id)
        self.damaged += data != event_data(tick, data_id, size)
        self.twice += key in self.delivered
        self.delivered[key] = worker

    @property
    def events(self) -> int:
        """Number of ticks that were sent."""
        return len({tick for tick, _ in self.sent})

    @property
    def split(self) -> list[int]:
        """Ticks whose packets went to more than one worker."""
        return [tick for tick, workers in self.routed.items() if len(workers) > 1]

    def lost(self, dead: str | None = None) -> list[tuple[int, int]]:
        """Return the parts that were sent but not delivered, except those routed to `dead`."""
        return sorted(
            key
            for key in self.sent - self.delivered.keys()
            if self.routed.get(key[0], set()) != {dead} or dead is None
        )

    def shares(self, first: int, last: int, workers: list[str]) -> dict[str, float]:
        """Return the share of each worker in the ticks from `first` to `last`."""
        counts: Counter[str] = Counter()
        for tick in range(first, last + 1):
            counts.update(self.routed.get(tick, ()))
        total = sum(counts.values()) or 1
        return {worker: round(counts[worker] / total, 4) for worker in workers}
