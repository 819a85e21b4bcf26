"""Lets all processors take in what hosts receive, while a worker has no time left and many flows pass it.

A worker writes what arrives, and in that write goes through TCP/IP of the receiving host; with many flows that is most
of what it does. Other processors can take it over (`Netdev.steer`), and then carry more together. A single flow loses
by it: it is never on two processors at once, and each of its frames wakes another one. So the traffic
chooses the processor; it is checked ten times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from hfi_sim.netdev.base import Netdev

FULL: Final = 0.9
"""The part of a processor that a worker takes which has no time left."""
HALF: Final = 0.5
"""The part down to which others go on."""
MANY: Final = 4.5
"""Flows at all hosts of a worker beyond which others take over. Two are four: data there, and answers back."""
FEW: Final = 4.0
"""Flows down to which others go on."""
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

    def __init__(
        self,
        ask: Callable[[], Sequence[tuple[int, int, int]]],
        drained: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Know nothing yet.

        Args:  ask: returns what the carrier says of all vports (`Carrier.mixes`), which costs it a moment. drained: in
               its context nothing is handed over to hosts, nor waits at other processors: it would be overtaken.
        """
        self._ask = ask
        self._drained = drained
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
        parts = self._parts(times)
        if not parts or (max(parts) < FULL and not self._steered):
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
        wanted: set[Netdev] = set()
        kept = {netdevs[vport] for vport in netdevs.keys() - passed.keys()}  # nothing is known of these yet
        for worker, part in enumerate(parts):
            here = {vport: mix for vport, mix in passed.items() if mix.worker == worker}
            bursts = sum(mix.bursts for mix in here.values())
            busy = {vport: mix for vport, mix in here.items() if mix.bursts > _MINOR * bursts}
            flows = sum(mix.flows / mix.bursts for mix in busy.values())
            if part >= FULL and flows > MANY:
                wanted |= {netdevs[vport] for vport in busy}
            if part > HALF and flows > FEW:
                kept |= {netdevs[vport] for vport in here}
        wanted |= self._steered & kept
        over = self._steered - wanted
        self._steered = {
            netdev for netdev in wanted if netdev.steer(True)
        }  # not where a host has chosen itself
        if over:
            with self._drained():
                for netdev in over:
                    netdev.steer(False)

    def _parts(self, times: Sequence[Time]) -> list[float]:
        """Return what part of a processor each worker has taken; nothing where that is not known."""
        before, self._times = self._times, times
        if len(before) != len(times):
            return []
        return [(b.used - a.used) / max(b.now - a.now, 1) for a, b in zip(before, times, strict=True)]
