"""Lets all processors take in what hosts receive, while a worker has no time left and many flows pass it.

A worker writes what arrives, and in that write goes through TCP/IP of the receiving host; with many flows that is most
of what it does. Other processors can take it over (`Netdev.steer`), and then carry more together. A single flow loses
by it: it is never on two processors at once, and each of its frames wakes another one. So who does it depends on what
passes, which is looked at ten times a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from hfi_sim.netdev.base import Netdev

log = logging.getLogger("opavnic.datapath")

FULL: Final = 0.9
"""The part of a processor that a worker takes which has no time left."""
MANY: Final = 4.0
"""Flows at all hosts of a worker beyond which others take over. Two have so many: data there, and answers back."""
_MINOR: Final = 0.01
"""The part of a worker's bursts below which a host does not count."""


class Time(NamedTuple):
    """What a worker has used of a processor, and when that was so, in nanoseconds."""

    used: int
    now: int


class _Mix(NamedTuple):
    """What the carrier says of a vport: its worker, bursts that its host received, and flows in each, added up."""

    worker: int
    bursts: int
    flows: int

    def since(self, before: _Mix) -> _Mix:
        return _Mix(self.worker, self.bursts - before.bursts, self.flows - before.flows)

    def follows(self, before: _Mix) -> bool:
        """Whether it says more of the same: the vport is still the same one, at the same worker."""
        return before.worker == self.worker and before.bursts <= self.bursts


class Steering:
    """Of the hosts of one lab."""

    def __init__(self, ask: Callable[[], Sequence[tuple[int, int, int]]]) -> None:
        """Know nothing yet.

        Args:  ask: returns what the carrier says of all vports (`Carrier.mixes`), which costs it a moment.
        """
        self._ask = ask
        self._times: Sequence[Time] = ()
        self._mixes: list[_Mix] | None = None
        self._steered: set[Netdev] = set()

    @property
    def count(self) -> int:
        """How many hosts' interfaces have others take in what they receive."""
        return len(self._steered)

    def look(self, times: Sequence[Time], netdevs: Mapping[int, Netdev]) -> None:
        """Look at what has passed since the last time.

        Args:  times: of each worker. netdevs: by vport.
        """
        full = self._full(times)
        if not full and not self._steered:
            self._mixes = None
            return
        mixes = [_Mix(*mix) for mix in self._ask()]
        before, self._mixes = self._mixes, mixes
        if before is None:
            return
        passed = {
            vport: now.since(then)
            for vport, (now, then) in enumerate(zip(mixes, before, strict=False))
            if vport in netdevs and now.follows(then)
        }
        for worker in full:
            bursts = sum(mix.bursts for mix in passed.values() if mix.worker == worker)
            busy = {v: m for v, m in passed.items() if m.worker == worker and m.bursts > _MINOR * bursts}
            if sum(mix.flows / mix.bursts for mix in busy.values()) > MANY:
                for vport in busy:
                    self._steer(netdevs[vport])
        # while frames come, some may wait at other processors, which later ones would overtake
        idle = {netdevs[vport] for vport, mix in passed.items() if not mix.bursts}
        busy_ones = set(netdevs.values()) - idle
        for netdev in tuple(self._steered):
            if not netdev.steer(netdev in busy_ones):
                self._steered.discard(netdev)
                log.debug("[%s] the host receives by itself", netdev.name)

    def _full(self, times: Sequence[Time]) -> list[int]:
        """Return the workers that have no time left."""
        before, self._times = self._times, times
        if len(before) != len(times):
            return []
        parts = [(b.used - a.used) / max(b.now - a.now, 1) for a, b in zip(before, times, strict=True)]
        return [worker for worker, part in enumerate(parts) if part >= FULL]

    def _steer(self, netdev: Netdev) -> None:
        if netdev not in self._steered and netdev.steer(True):
            self._steered.add(netdev)
            log.debug("[%s] many flows: all processors take in what the host receives", netdev.name)
