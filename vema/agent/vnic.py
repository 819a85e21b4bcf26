"""The interface between the agent and a VNIC; `opavnic.vnic.adapter.Adapter` implements it.

Source: the kernel's split of opa_vnic: the agent reaches the adapter through opa_vnic_vema_iface.c, the adapter
reports through opa_vnic_vema_report_event().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hfi_sim.base.types import MacAddr
from vema.attributes.attr_id import Value
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import TrapOpcode, VportNum


class Vnic(Protocol):
    """One vport, as the EM sees it."""

    @property
    def vport_num(self) -> VportNum:
        """Its number on the HFI port, 0-255."""
        ...

    @property
    def port_info(self) -> VeswPortInfo:
        """Current configuration and state, including all read-only fields."""
        ...

    def apply(self, info: VeswPortInfo) -> None:
        """Apply a configuration set by the EM; none is refused. Read-only fields of `info` are ignored."""

    def reset(self) -> None:
        """Return to power-on defaults and discard the MAC table; the VNIC continues to exist (DeleteVesw)."""

    @property
    def mac_table_digest(self) -> int:
        """The 32-bit digest that the EM sent with the last update of the MAC table."""
        ...

    def mac_section(self, offset: int, num_entries: int) -> tuple[MacEntry | None, ...]:
        """Return entries of the MAC table, None for holes; the range is inside the table."""
        ...

    def update_mac_table(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> None:
        """Replace the entries from `offset` on, atomically; the range is inside the table."""

    def ucast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the unicast addresses the netdev listens to, and the generation count of the list."""
        ...

    def ucast_macs_read(self) -> None:
        """Note that the EM has read that list to its end."""

    def mcast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses the netdev listens to, and the generation count of the list."""
        ...

    def read(self, kind: type[Value]) -> Value:
        """Return the current value of an attribute that is only read, a row with `get=VNIC`: SummaryCounters, ..."""
        ...


VnicReport = Callable[[Vnic, TrapOpcode], None]
"""Reports a change of a VNIC to the agent, which may send a trap."""

CreateVnic = Callable[[VportNum, VnicReport], Vnic]
"""Creates a VNIC with power-on defaults and a netdev, when the EM configures a vport that does not exist yet.

Raises:  VnicUnavailableError: the host cannot provide a netdev.
"""
