"""Which VNIC of a virtual switch leads to an address that is not on the fabric. Sans-IO.

Bridges say what they learn; this decides which VNIC reports the address. An address is behind the way out where it was
learnt last: a station that moves is followed at once, although the bridge it has left remembers it for minutes.
Addresses given by hand do not move. Addresses of the fabric are never reported: where one shows up outside, frames go
round in a loop, and reporting it would draw the traffic of a host into that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hfi_sim.base.types import MacAddr

MAX_LEARNT: Final = 1024
"""Addresses learnt for one virtual switch: half of a MAC table, the rest is for members and what they add."""


Report = tuple[str, MacAddr, bool]
"""The VNIC of a way out is to report an address from now on, or no longer."""


class Learning:
    """What is behind the ways out of one virtual switch. Methods return what has changed, in order."""

    def __init__(self, *, on_fabric: Callable[[MacAddr], bool], limit: int = MAX_LEARNT) -> None:
        """Args:  on_fabric: whether an address is that of a member. limit: of addresses learnt."""
        self._on_fabric = on_fabric
        self._limit = limit
        self._fixed: dict[MacAddr, str] = {}
        self._learnt: dict[MacAddr, list[str]] = {}
        """The ways out that remember an address, the newest last."""
        self.loops = 0
        """How often an address of the fabric was learnt outside."""
        self.refused = 0
        """How often an address was not learnt because there were too many."""
        self.moves = 0
        """How often an address has moved from one way out to another."""

    def fix(self, way: str, macs: Iterable[MacAddr]) -> list[Report]:
        """Report fixed addresses at an uplink from now on; learnt ones do not change them."""
        changes = []
        for mac in macs:
            before = self._way_to(mac)
            self._fixed[mac] = way
            changes += self._changes(mac, before)
        return changes

    def learnt(self, way: str, mac: MacAddr) -> list[Report]:
        """A bridge has learnt an address, or learnt it anew, on a port other than its VNIC."""
        if mac[0] & 1:
            return []
        if self._on_fabric(mac):
            self.loops += 1
            return []
        if mac not in self._learnt and len(self._learnt) >= self._limit:
            self.refused += 1
            return []
        before = self._way_to(mac)
        ways = self._learnt.setdefault(mac, [])
        if way in ways:
            ways.remove(way)
        ways.append(way)
        changes = self._changes(mac, before)
        self.moves += len(changes) == 2
        return changes

    def forgotten(self, way: str, mac: MacAddr) -> list[Report]:
        """A bridge has forgotten an address, or has learnt it from the fabric: it is not behind this way out."""
        ways = self._learnt.get(mac, [])
        if way not in ways:
            return []
        before = self._way_to(mac)
        ways.remove(way)
        if not ways:
            del self._learnt[mac]
        return self._changes(mac, before)

    def closed(self, way: str) -> list[Report]:
        """A way out is gone, with all that is behind it."""
        changes = []
        for mac in [mac for mac, its in self._fixed.items() if its == way]:
            del self._fixed[mac]
            changes += self._changes(mac, way)
        for mac in [mac for mac, ways in self._learnt.items() if way in ways]:
            changes += self.forgotten(way, mac)
        return changes

    def behind(self, way: str) -> list[MacAddr]:
        """Return the addresses that the VNIC of a way out reports."""
        return [mac for mac in {**self._fixed, **self._learnt} if self._way_to(mac) == way]

    def _way_to(self, mac: MacAddr) -> str | None:
        if mac in self._fixed:
            return self._fixed[mac]
        ways = self._learnt.get(mac)
        return ways[-1] if ways else None

    def _changes(self, mac: MacAddr, before: str | None) -> list[Report]:
        now = self._way_to(mac)
        if now == before:
            return []
        left = [] if before is None else [(before, mac, False)]
        return left if now is None else [*left, (now, mac, True)]
