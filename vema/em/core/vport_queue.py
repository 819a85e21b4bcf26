"""A fair queue of vports to serve, with limits for the requests in flight to one port and in total.

The queue does not hold requests: what to send to a vport is decided when its turn comes, from what is known then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Port = TypeVar("Port", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class WorkQueue(Generic[Port, Item]):
    """Ports take turns; the items of one port are served in the order in which they were marked."""

    def __init__(self, *, in_flight: int, per_port: int) -> None:
        """Allow `in_flight` requests in flight in total, and `per_port` to one port."""
        self._limit = in_flight
        self._per_port = per_port
        self._waiting: dict[Port, dict[Item, None]] = {}
        """Without the ports of which nothing waits."""
        self._turns: deque[Port] = deque()
        self._in_turn: set[Port] = set()
        self._busy: dict[Port, int] = {}
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

    def keeps_waiting(self, port: Port) -> bool:
        """Return whether a port has not been asked yet: items wait, and no request is in flight."""
        return port in self._waiting and port not in self._busy

    def mark(self, port: Port, item: Item) -> None:
        """Queue `item` of `port`, unless it is already waiting."""
        self._waiting.setdefault(port, {})[item] = None
        self._take_turn(port)

    def forget(self, port: Port) -> None:
        """Remove the waiting items of `port`; its requests in flight still count."""
        self._waiting.pop(port, None)

    def pop(self) -> tuple[Port, Item] | None:
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

    def started(self, port: Port) -> None:
        """Count a request to `port` that is being sent."""
        self._busy[port] = self._busy.get(port, 0) + 1
        self.in_flight += 1
        self.deepest = max(self.deepest, self.in_flight)

    def finished(self, port: Port) -> None:
        """Count a request to `port` that was answered or given up."""
        left = self._busy.get(port, 0) - 1
        if left > 0:
            self._busy[port] = left
        else:
            self._busy.pop(port, None)
        self.in_flight -= 1
        self._take_turn(port)

    def _take_turn(self, port: Port) -> None:
        if port not in self._in_turn and port in self._waiting:
            self._in_turn.add(port)
            self._turns.append(port)
