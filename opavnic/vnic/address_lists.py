"""The addresses that a netdev listens to, with generation counts that let the EM detect changes. Sans-IO.

Source: the public driver's opa_vnic_set_mac_addr(), opa_vnic_set_rx_mode(), opa_vnic_mac_send_event(),
opa_vnic_query_ucast_macs().
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import Netdev

_UINT16: Final = 0xFFFF


class AddressLists:
    """The address and the address lists of one netdev, as reported by its VNIC."""

    def __init__(self, netdev: Netdev) -> None:
        self.uc_gen = self.mc_gen = 0
        """Generation counts, 16 bits."""
        self._netdev = netdev
        self._uc_hash = self._mc_hash = 0

    def unicast(self, base_mac: MacAddr) -> tuple[Sequence[MacAddr], int]:
        """Return the device address, unless it is the base MAC, then the other unicast addresses."""
        address = self._netdev.address
        own = () if address == base_mac else (address,)
        return (*own, *self._netdev.uc_list), self.uc_gen

    def multicast(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses."""
        return self._netdev.mc_list, self.mc_gen

    def count_address(self) -> None:
        """Count a change of the device address."""
        self.uc_gen = self.uc_gen + 1 & _UINT16

    def unicast_changed(self) -> bool:
        """Count a reading of the unicast list; return whether it has changed since the last one."""
        self.uc_gen = self.uc_gen + 1 & _UINT16
        before, self._uc_hash = self._uc_hash, list_hash(self._netdev.uc_list)
        return before != self._uc_hash

    def multicast_changed(self) -> bool:
        """Count a reading of the multicast list; return whether it has changed since the last one."""
        self.mc_gen = self.mc_gen + 1 & _UINT16
        before, self._mc_hash = self._mc_hash, list_hash(self._netdev.mc_list)
        return before != self._mc_hash


def list_hash(macs: Sequence[bytes]) -> int:
    """Return the hash of an address list, 32 bits, for detecting changes; it depends on the order.

    Source: opa_vnic_mac_send_event(): the complement of the kernel's crc32_le, which inverts neither before
    nor after, over the addresses and their size in bytes.
    """
    data = b"".join(macs)
    return zlib.crc32(data + len(data).to_bytes(4, "little"), 0xFFFFFFFF)
