"""What was sent, where it was routed, what arrived: the proof that no event was split or lost."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field


def event_data(tick: int, data_id: int, size: int) -> bytes:
    """Return the content of an event: `size` bytes that anyone can compute again."""
    block = hashlib.sha256(f"{tick}:{data_id}".encode()).digest()
    return (block * (size // len(block) + 1))[:size]


@dataclass(slots=True)
class Ledger:
    """Books of one run. An event is a tick; each source sends its part of it under a data id."""

    sent: set[tuple[int, int]] = field(default_factory=set)
    routed: dict[int, set[str]] = field(default_factory=dict)
    """Tick -> workers that packets of it were sent to by the load balancer."""
    delivered: dict[tuple[int, int], str] = field(default_factory=dict)
    damaged: int = 0
    """Parts that were complete and had other content than was sent."""
    twice: int = 0
    """Parts that came out complete a second time."""

    def forwarded(self, tick: int, worker: str) -> None:
        """A packet of `tick` was sent on to `worker`."""
        self.routed.setdefault(tick, set()).add(worker)

    def arrived(self, worker: str, tick: int, data_id: int, data: bytes, size: int) -> None:
        """A worker has put a part together."""
        self.received(worker, tick, data_id, data == event_data(tick, data_id, size))

    def received(self, worker: str, tick: int, data_id: int, intact: bool) -> None:
        """A worker has put a part together, and says whether its content is right."""
        key = (tick, data_id)
        self.damaged += not intact
        self.twice += key in self.delivered
        self.delivered[key] = worker

    @property
    def events(self) -> int:
        """Ticks that were sent."""
        return len({tick for tick, _ in self.sent})

    @property
    def split(self) -> list[int]:
        """Ticks whose packets went to more than one worker."""
        return [tick for tick, workers in self.routed.items() if len(workers) > 1]

    def lost(self, dead: str | None = None) -> list[tuple[int, int]]:
        """Return parts that were sent and did not arrive whole; those routed to `dead` do not count."""
        return sorted(
            key
            for key in self.sent - self.delivered.keys()
            if self.routed.get(key[0], set()) != {dead} or dead is None
        )

    def shares(self, first: int, last: int, workers: list[str]) -> dict[str, float]:
        """Return which part of the ticks from `first` to `last` each worker got."""
        counts: Counter[str] = Counter()
        for tick in range(first, last + 1):
            counts.update(self.routed.get(tick, ()))
        total = sum(counts.values()) or 1
        return {worker: round(counts[worker] / total, 4) for worker in workers}
