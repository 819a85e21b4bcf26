"""Which member has an address that several report: the last one to report it, unless the address moves too often.

An address that two members use by mistake would move with every frame. After `MOVES` moves within `WINDOW_S` it is
held: it stays where it is for `HOLD_S`, and then goes to the last member that has reported it.

Source: duplicate MAC detection of RFC 7432, section 15.1, with a shorter window.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from hfi_sim.base.types import MacAddr

MOVES: Final = 5
"""Moves of an address within `WINDOW_S` after which it is held."""
WINDOW_S: Final = 10.0
HOLD_S: Final = 30.0
"""How long an address is held."""
ASSIGNED: Final = math.inf
"""In place of a time: the EM has given the member this address, so that no other member can take it."""
EARLIER: Final = -1.0
"""In place of a time: reported before the EM started."""
ABSENT: Final = -math.inf
"""In place of a time: the member has left. It keeps an address only as long as no other member reports it."""

Owner = int
"""The member that reported an address: the GUID of its port."""
Move = tuple[MacAddr, Owner, Owner]
"""An address that has another owner: the address, the owner before, the owner now."""


class AddressClaim(NamedTuple):
    """A member that reports an address."""

    owner: Owner
    lid: int
    since: float
    """When the EM first read it; `ASSIGNED`, `EARLIER`, `ABSENT`."""


class Movement:
    """The moves of the addresses of one virtual switch."""

    def __init__(self) -> None:
        self.total = 0
        """Moves so far."""
        self.holds = 0
        """How often an address has been held so far."""
        self._last: dict[MacAddr, float] = {}
        """The time of the last move of each address that has moved."""
        self._times: dict[MacAddr, deque[float]] = {}
        """The last moves of each address that has moved within the window."""
        self._held: dict[MacAddr, float] = {}
        """Addresses that are held, and until when."""
        self._heirs: dict[MacAddr, Owner] = {}

    @property
    def held(self) -> list[MacAddr]:
        """The addresses that are held."""
        return list(self._held)

    def heir(self, mac: MacAddr) -> Owner:
        """Return the member that a held address is to go to, as it reported it last; 0: it is not held."""
        return self._heirs.get(mac, 0)

    @property
    def release_at(self) -> float | None:
        """When the next address ceases to be held."""
        return min(self._held.values(), default=None)

    def choose(self, mac: MacAddr, claims: Sequence[AddressClaim], holder: Owner, now: float) -> AddressClaim:
        """Return the claim that wins; `holder` is the owner so far, or 0."""
        current = next((claim for claim in claims if claim.owner == holder and claim.since > ABSENT), None)
        others = (claim for claim in claims if claim is not current)
        newest = max(others, key=lambda claim: claim.since)
        if current is None:
            return newest
        has_it_since = max(current.since, self._last.get(mac, EARLIER))
        if newest.since <= has_it_since:
            return current
        if newest.since < ASSIGNED and self._is_held(mac, now):
            self._heirs[mac] = newest.owner
            return current
        return newest

    def _is_held(self, mac: MacAddr, now: float) -> bool:
        if mac in self._held:
            return True
        times = self._times.get(mac)
        if times is None or len(times) < MOVES or now >= times[0] + WINDOW_S:
            return False
        self._held[mac] = now + HOLD_S
        self.holds += 1
        return True

    def moved(self, mac: MacAddr, now: float) -> None:
        """Count a move."""
        self.total += 1
        self._last[mac] = now
        self._times.setdefault(mac, deque(maxlen=MOVES)).append(now)

    def forget(self, mac: MacAddr) -> None:
        """Forget an address that no member reports any more."""
        for known in (self._last, self._times, self._held, self._heirs):
            known.pop(mac, None)

    def expire(self, now: float) -> None:
        """Release the addresses whose time is up, and forget moves that no longer count."""
        for mac in [mac for mac, until in self._held.items() if now >= until]:
            del self._held[mac]
            self._times.pop(mac, None)
            self._heirs.pop(mac, None)
        for mac in [mac for mac, times in self._times.items() if now >= times[-1] + WINDOW_S]:
            if mac not in self._held:
                del self._times[mac]
