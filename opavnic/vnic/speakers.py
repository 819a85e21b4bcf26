"""Which addresses of a VNIC are really here: those that speak here, unless they have spoken elsewhere since. Sans-IO.

The driver reports its device address and what the kernel has it listen to. That does not tell an EM where an address
is that several hosts listen to (VRRP with a virtual MAC: its macvlan is up on the backup, too), nor one that no kernel
says anything of (a container behind a bridge). So a VNIC, like a bridge, looks at the sources of the frames it sends:

- a source that is not in its list is added to it;
- an address of the list that the MAC table gives to another port is taken from it: that port has spoken, or reported
  it, later. It comes back when it is the source of a frame here, or when the table no longer has it.

So the list itself carries the movement, and any EM can follow that reads lists when a trap says so. An EM notices that
an address was away only if it has read the list without it: an address does not come back before that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.types import MacAddr
from vema.base.types import SMAC_ENTRIES

MAX_SPEAKERS: Final = SMAC_ENTRIES
"""Sources that one VNIC adds to its list."""
AGEING_S: Final = 300.0
"""How long a source stays in the list after its last frame, at least; at most one and a half times as long."""
_SWEEP_S: Final = AGEING_S / 2
_NO_MAC: Final = MacAddr(bytes(6))
_NOWHERE: Final = 0


@dataclass(slots=True)
class _Gone:
    """An address that the MAC table gives to another port."""

    lid: int
    is_read: bool
    """Whether the EM has read the list without it."""
    waits: bool = False
    """Whether it has spoken here, and comes back once the EM has read the list."""


class Speakers:
    """The addresses of one VNIC, by what it sends and what its MAC table says.

    Methods that may change the list return whether they have. `own` is what the kernel has the VNIC listen to.
    """

    def __init__(self) -> None:
        self._spoken: dict[MacAddr, float] = {}
        """Sources that are in the list for that reason alone, with the time of a frame."""
        self._noticed: set[MacAddr] = set()
        """Sources of frames since the last sweep; further ones are ignored."""
        self._gone: dict[MacAddr, _Gone] = {}
        self._claimed: dict[MacAddr, int] = {}
        """Addresses that have spoken here, with the LID that the MAC table still has for them."""
        self._dlids: Mapping[bytes, int] = {}
        self._lid = _NOWHERE
        self._sweep_at = 0.0

    def listed(self, own: Sequence[MacAddr]) -> list[MacAddr]:
        """Return the list."""
        here = set(own)
        return [
            mac for mac in (*own, *(mac for mac in self._spoken if mac not in here)) if mac not in self._gone
        ]

    def quiet(self, own: Iterable[MacAddr]) -> frozenset[MacAddr]:
        """Return the sources of which further frames need not be noticed."""
        return frozenset(
            self._noticed | {mac for mac in own if mac not in self._gone and mac not in self._claimed}
        )

    def heard(self, mac: MacAddr, own: Collection[MacAddr], now: float) -> bool:
        """Note that a frame with this source was sent."""
        if mac[0] & 1 or mac == _NO_MAC or mac in self._noticed:
            return False
        gone = self._gone.get(mac)
        if gone is not None:
            self._noticed.add(mac)
            gone.waits = not gone.is_read
            return gone.is_read and self._come_back(mac, gone.lid, own, now)
        if mac in self._claimed:
            # it still speaks here, and the EM still has it elsewhere: it is reported once more
            self._noticed.add(mac)
            self._gone[mac] = _Gone(self._claimed.pop(mac), is_read=False, waits=True)
            return True
        if mac not in own and mac not in self._spoken and len(self._spoken) >= MAX_SPEAKERS:
            return False
        self._noticed.add(mac)
        is_new = mac not in own and mac not in self._spoken
        if mac not in own:
            self._spoken[mac] = now
            if to := self._elsewhere(mac):
                self._claimed[mac] = to
        return is_new

    def _elsewhere(self, mac: MacAddr) -> int:
        """Return the LID of the other port that the MAC table gives an address to; 0: to none."""
        to = self._dlids.get(mac, _NOWHERE)
        return _NOWHERE if to == self._lid else to

    def _come_back(self, mac: MacAddr, lid: int, own: Collection[MacAddr], now: float) -> bool:
        del self._gone[mac]
        self._claimed[mac] = lid
        if mac not in own:
            self._spoken[mac] = now
        return True

    def was_read(self, own: Collection[MacAddr], now: float) -> bool:
        """Note that the EM has read the whole list: what has spoken meanwhile may come back."""
        changed = False
        for mac, gone in list(self._gone.items()):
            gone.is_read = True
            if gone.waits:
                changed |= self._come_back(mac, gone.lid, own, now)
        return changed

    def table_changed(
        self, dlids: Mapping[bytes, int], lid: int, own: Collection[MacAddr], now: float
    ) -> bool:
        """Compare the list with a new MAC table; `lid` is that of this port."""
        self._dlids, self._lid = dlids, lid
        changed = False
        for mac in {*own, *self._spoken, *self._gone}:
            to = self._elsewhere(mac)
            gone = self._gone.get(mac)
            if gone is not None and to:
                gone.lid = to
            elif gone is not None:
                del self._gone[mac]
                if gone.waits and mac not in own:
                    self._spoken[mac] = now
                changed |= gone.waits or mac in own
            elif not to:
                self._claimed.pop(mac, None)
            elif self._claimed.get(mac) != to:
                self._claimed.pop(mac, None)
                self._spoken.pop(mac, None)
                self._noticed.discard(mac)
                self._gone[mac] = _Gone(to, is_read=False)
                changed = True
        return changed

    def own_changed(self, removed: Iterable[MacAddr], added: Iterable[MacAddr]) -> None:
        """Handle a change of what the kernel has the VNIC listen to.

        An address that is new there, and elsewhere by the MAC table, has to speak first.
        """
        for mac in removed:
            for known in (self._spoken, self._gone, self._claimed):
                known.pop(mac, None)
            self._noticed.discard(mac)
        for mac in set(added).difference(self._gone, self._claimed, self._spoken):
            if to := self._elsewhere(mac):
                self._gone[mac] = _Gone(to, is_read=True)

    def sweep(self, now: float) -> tuple[bool, bool]:
        """Forget sources that have been silent; return whether the list has changed, and whether `quiet` may have.

        If the table still has an address elsewhere, though it has come back, its next frame is noticed.
        """
        unsettled = self._noticed & self._claimed.keys()
        self._noticed -= unsettled
        if now < self._sweep_at or not (self._noticed or self._spoken):
            return False, bool(unsettled)
        self._sweep_at = now + _SWEEP_S
        silent = [mac for mac, at in self._spoken.items() if now >= at + AGEING_S]
        for mac in silent:
            del self._spoken[mac]
            self._claimed.pop(mac, None)
        self._noticed.clear()
        return bool(silent), True

    def forget(self) -> None:
        """Forget everything: the VNIC leaves its virtual switch."""
        for known in (self._spoken, self._gone, self._claimed):
            known.clear()
        self._noticed.clear()
