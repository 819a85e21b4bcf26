"""The queue of ports and vports to serve now, and the schedule of what is due later. Sans-IO."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from vema.em.core.dialogue import PORT
from vema.em.core.port_life import SERVED
from vema.em.core.state import Port, Vport
from vema.em.core.vport_queue import WorkQueue
from vema.em.desired.desired import EmConfig


class Turns:
    """The queue of ports and vports that may need a request, and the times at which ports and tables are due."""

    def __init__(self, config: EmConfig) -> None:
        self.active = False
        """Whether this EM is active; a standby only listens."""
        self.queue = WorkQueue[int, int](in_flight=config.limits.in_flight, per_port=config.limits.per_port)
        self._times: list[tuple[float, int, int]] = []
        self._number = 0

    def mark(self, port: Port, vport: Vport) -> None:
        """Queue a vport, if its port is ready."""
        if port.ready and port.life is SERVED:
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
