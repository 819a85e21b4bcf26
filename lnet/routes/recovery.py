"""The connection daemon (connd): which routes to reconnect, and when.

Source: seed 004, "Route Recovery" (kib_connd_recovery, kiblnd_connd).
"""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.base.deadlines import Deadlines
from lnet.objects.objects import KibDev, KibRoute


@dataclass(slots=True)
class _Entry:
    attempts: int
    due: float | None
    """None while an attempt is in progress."""


class Connd:
    """Disconnected routes whose device is up. The wait before each further attempt grows."""

    def __init__(self, min_wait_s: float, max_wait_s: float) -> None:
        self._min_wait_s = min_wait_s
        self._max_wait_s = max_wait_s
        self._list: dict[KibRoute, _Entry] = {}
        self._deadlines: Deadlines[KibRoute] = Deadlines(self._due_of)

    def _due_of(self, route: KibRoute) -> float | None:
        entry = self._list.get(route)
        return entry.due if entry is not None else None

    def __contains__(self, route: KibRoute) -> bool:
        return route in self._list

    def add(self, route: KibRoute, now: float, *, at_once: bool = False) -> None:
        """Add a route, or schedule its next attempt after one that failed. A route that already waits is unchanged."""
        entry = self._list.get(route)
        if entry is None:
            self._list[route] = _Entry(1, now if at_once else now + self._min_wait_s)
        elif entry.due is None:
            entry.attempts += 1
            entry.due = now + min(self._min_wait_s * 2 ** min(entry.attempts - 1, 32), self._max_wait_s)
        self._deadlines.touch(route)

    def remove(self, route: KibRoute) -> None:
        """Remove a route that is connected or whose device is down; its next failure starts from the first wait."""
        self._list.pop(route, None)

    def remove_device(self, dev: KibDev) -> None:
        """Remove all routes of a device."""
        for route in [route for route in self._list if route.rt_dev is dev]:
            del self._list[route]

    def due(self, now: float) -> list[KibRoute]:
        """Return the routes to reconnect now; call `remove` or `add` with the result of each attempt."""
        routes = self._deadlines.take_due(now)
        for route in routes:
            self._list[route].due = None
        return routes

    def deadline(self) -> float | None:
        """Return when the next route is due, or None."""
        return self._deadlines.next()
