"""What the parts of an EM core share: whose turn it is, what is due later, and the records to be written. Sans-IO."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from vema.em.core.dialogue import PORT
from vema.em.core.state import Port, Vport
from vema.em.core.steps import SERVED
from vema.em.desired.desired import EmConfig
from vema.em.store.persisted import EventRecord, Record

Place = TypeVar("Place", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class WorkQueue(Generic[Place, Item]):
    """Ports take turns; the items of one port are served in the order in which they were marked.

    It holds no requests: what to send to a vport is decided when its turn comes, from what is known then.
    """

    def __init__(self, *, in_flight: int, per_port: int) -> None:
        """Allow `in_flight` requests in flight in total, and `per_port` to one port."""
        self._limit = in_flight
        self._per_port = per_port
        self._waiting: dict[Place, dict[Item, None]] = {}
        """Without the ports of which nothing waits."""
        self._turns: deque[Place] = deque()
        self._in_turn: set[Place] = set()
        self._busy: dict[Place, int] = {}
        self.in_flight = 0
        """Requests in flight."""
        self.deepest = 0
        """The largest number of requests in flight so far."""

    def resize(self, *, in_flight: int, per_port: int) -> None:
        """Change the limits; requests in flight are not affected."""
        self._limit, self._per_port = in_flight, per_port

    @property
    def waiting(self) -> bool:
        """Whether any item is waiting."""
        return bool(self._waiting)

    @property
    def ready(self) -> bool:
        """Whether `pop` may return an item now."""
        return bool(self._turns) and self.in_flight < self._limit

    def keeps_waiting(self, port: Place) -> bool:
        """Return whether a port has not been asked yet: items wait, and no request is in flight."""
        return port in self._waiting and port not in self._busy

    def mark(self, port: Place, item: Item) -> None:
        """Queue `item` of `port`, unless it is already waiting."""
        self._waiting.setdefault(port, {})[item] = None
        self._take_turn(port)

    def forget(self, port: Place) -> None:
        """Remove the waiting items of `port`; its requests in flight still count."""
        self._waiting.pop(port, None)

    def pop(self) -> tuple[Place, Item] | None:
        """Return the next item to serve, or None if none is waiting or the limits are reached."""
        while self._turns and self.in_flight < self._limit:
            port = self._turns.popleft()
            self._in_turn.discard(port)
            waiting = self._waiting.get(port)
            if waiting is None:
                continue  # forgotten
            if self._busy.get(port, 0) >= self._per_port:
                continue  # `finished` gives it a turn again
            item = next(iter(waiting))
            del waiting[item]
            if not waiting:
                del self._waiting[port]
            self._take_turn(port)
            return port, item
        return None

    def started(self, port: Place) -> None:
        """Count a request to `port` that is being sent."""
        self._busy[port] = self._busy.get(port, 0) + 1
        self.in_flight += 1
        self.deepest = max(self.deepest, self.in_flight)

    def finished(self, port: Place) -> None:
        """Count a request to `port` that was answered or given up."""
        left = self._busy.get(port, 0) - 1
        if left > 0:
            self._busy[port] = left
        else:
            self._busy.pop(port, None)
        self.in_flight -= 1
        self._take_turn(port)

    def _take_turn(self, port: Place) -> None:
        if port not in self._in_turn and port in self._waiting:
            self._in_turn.add(port)
            self._turns.append(port)


class Turns:
    """The queue of ports and vports that may need a request, and the times at which ports and tables are due."""

    def __init__(self, config: EmConfig) -> None:
        self.active = False
        """Whether this EM is active; a standby only listens."""
        self.queue = WorkQueue[int, int](in_flight=config.limits.in_flight, per_port=config.limits.per_port)
        self._times: list[tuple[float, int, int]] = []
        self._number = 0

    def mark(self, port: Port, vport: Vport) -> None:
        """Queue a vport, if its port is served."""
        if port.life is SERVED:
            self.queue.mark(port.facts.guid, vport.num)

    def mark_port(self, port: Port) -> None:
        """Queue the port itself."""
        if self.active and port.life is SERVED:
            self.queue.mark(port.facts.guid, PORT)

    def wake_at(self, when: float, key: int) -> None:
        """Make `due` yield `key` at `when`; it is the GUID of a port, or the negative id of a virtual switch."""
        self._number += 1
        heapq.heappush(self._times, (when, self._number, key))

    def schedule(self, port: Port, when: float) -> None:
        """Schedule the next action for a port; this replaces the earlier time."""
        port.wake_at = when
        self.wake_at(when, port.facts.guid)

    def due(self, now: float, limit: int) -> Iterator[tuple[float, int]]:
        """Yield time and key of at most `limit` entries that are due, including those added meanwhile."""
        for _ in range(limit):
            if not self._times or self._times[0][0] > now:
                return
            when, _, key = heapq.heappop(self._times)
            yield when, key

    def next_time(self) -> float | None:
        """Return the next time at which something is due, or None."""
        return self._times[0][0] if self._times else None


log = logging.getLogger("vema.em")


class RecordLog:
    """Records in the order in which they were added."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, *records: Record) -> None:
        """Add records."""
        self._records += records

    def extend(self, records: Iterable[Record]) -> None:
        """Add all records of an iterable."""
        self._records += records

    def event(self, kind: str, port: Port, vport: Vport | None = None, *, text: str = "") -> None:
        """Add an event of a port, and log it."""
        num, vesw_id = (None, None) if vport is None else (vport.num, vport.vesw_id or None)
        log.info("[%s%s] %s %s", port.facts.name, "" if num is None else f" vport {num}", kind, text)
        self._records.append(EventRecord(kind, port.facts.name, num, vesw_id, text))

    def take(self) -> list[Record]:
        """Return the records added since the last call."""
        records, self._records = self._records, []
        return records
