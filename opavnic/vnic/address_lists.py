"""The addresses that a netdev listens to, with generation counts that let the EM detect changes. Sans-IO.

Source: the public driver's opa_vnic_set_mac_addr(), opa_vnic_set_rx_mode(), opa_vnic_mac_send_event(),
opa_vnic_query_ucast_macs().
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import Netdev
from opavnic.vnic.speakers import Speakers

_UINT16: Final = 0xFFFF
_FORMER_S: Final = 1.0
"""How long frames from an earlier device address are ignored: a TAP may hand them over late."""
_NO_MAC: Final = MacAddr(bytes(6))


class AddressLists:
    """The address and the address lists of one netdev, as reported by its VNIC.

    With `speakers`, the unicast list also follows what the VNIC sends and what its MAC table says, unlike the driver's.
    """

    def __init__(self, netdev: Netdev, speakers: Speakers | None = None) -> None:
        self.uc_gen = self.mc_gen = 0
        """Generation counts, 16 bits."""
        self.base_mac = _NO_MAC
        """The address that the EM has given."""
        self._netdev = netdev
        self._speakers = speakers
        self._uc_before: frozenset[MacAddr] = frozenset()
        self._former: dict[MacAddr, float] = {}
        """Earlier device addresses, and until when each was it."""
        self._uc_hash = self._mc_hash = 0

    def _own(self) -> tuple[MacAddr, ...]:
        address = self._netdev.address
        return (*(() if address == self.base_mac else (address,)), *self._netdev.uc_list)

    def unicast(self) -> tuple[Sequence[MacAddr], int]:
        """Return the device address, unless it is the base MAC, then the other unicast addresses."""
        own = self._own()
        return own if self._speakers is None else self._speakers.listed(own), self.uc_gen

    def multicast(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses."""
        return self._netdev.mc_list, self.mc_gen

    def count_change(self) -> None:
        """Count a change of the list."""
        self.uc_gen = self.uc_gen + 1 & _UINT16

    def address_changed(self, before: MacAddr, now: float) -> None:
        """Count a change of the device address."""
        self.count_change()
        self.leave(before, now)
        if self._speakers is not None:
            self._speakers.own_changed({before}.difference(self._own()), ())

    def leave(self, before: MacAddr, now: float) -> None:
        """Note that the device had this address until now: frames from it may still come."""
        self._former = {mac: at for mac, at in self._former.items() if now < at + _FORMER_S} | {before: now}

    def unicast_changed(self) -> bool:
        """Count a reading of the unicast list; return whether it has changed since the last one."""
        self.count_change()
        if self._speakers is not None:
            known, self._uc_before = self._uc_before, frozenset(self._netdev.uc_list)
            self._speakers.own_changed(known.difference(self._own()), self._uc_before - known)
        before, self._uc_hash = self._uc_hash, list_hash(self._netdev.uc_list)
        return before != self._uc_hash

    def multicast_changed(self) -> bool:
        """Count a reading of the multicast list; return whether it has changed since the last one."""
        self.mc_gen = self.mc_gen + 1 & _UINT16
        before, self._mc_hash = self._mc_hash, list_hash(self._netdev.mc_list)
        return before != self._mc_hash

    # --- who speaks here -----------------------------------------------------------------------------------

    @property
    def quiet(self) -> frozenset[MacAddr] | None:
        """The sources of which frames need not be noticed; None: none needs to."""
        if self._speakers is None:
            return None
        return self._speakers.quiet((*self._own(), self.base_mac))

    def heard(self, source: MacAddr, now: float) -> bool:
        """Handle a frame that was sent from a source that is not `quiet`; return whether the list has changed."""
        # by now: the kernel announces an address that the EM gives before that is taken in here
        quiet = self.quiet
        if self._speakers is None or quiet is None or source in quiet:
            return False
        if now < self._former.get(source, -_FORMER_S) + _FORMER_S:
            return False
        return self._counted(self._speakers.heard(source, self._own(), now))

    def was_read(self, now: float) -> bool:
        """Handle that the EM has read the whole unicast list; return whether it has changed after that."""
        return self._counted(self._speakers is not None and self._speakers.was_read(self._own(), now))

    def table_changed(self, dlids: Mapping[bytes, int], lid: int, now: float) -> bool:
        """Handle another MAC table; return whether the list has changed."""
        speakers = self._speakers
        return self._counted(speakers is not None and speakers.table_changed(dlids, lid, self._own(), now))

    def sweep(self, now: float) -> bool:
        """Forget sources that have been silent for long; return whether `quiet` may have changed."""
        if self._speakers is None:
            return False
        changed, is_swept = self._speakers.sweep(now)
        self._counted(changed)
        return is_swept

    def forget_speakers(self) -> None:
        """Forget who speaks here: the VNIC has left its virtual switch."""
        if self._speakers is not None:
            self._speakers.forget()

    def _counted(self, changed: bool) -> bool:
        if changed:
            self.count_change()
        return changed


def list_hash(macs: Sequence[bytes]) -> int:
    """Return the hash of an address list, 32 bits, for detecting changes; it depends on the order.

    Source: opa_vnic_mac_send_event(): the complement of the kernel's crc32_le, which inverts neither before
    nor after, over the addresses and their size in bytes.
    """
    data = b"".join(macs)
    return zlib.crc32(data + len(data).to_bytes(4, "little"), 0xFFFFFFFF)
