"""What the agent needs of a VNIC, and what a VNIC tells the agent. `opavnic.adapter.Adapter` is one.

Source: the kernel's split of opa_vnic: the agent reaches the adapter through opa_vnic_vema_iface.c, the adapter
reports through opa_vnic_vema_report_event().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hfi_sim.types import MacAddr
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.types import TrapOpcode, VportNum


class Vnic(Protocol):
    """One vport, as the EM sees it."""

    @property
    def vport_num(self) -> VportNum:
        """Its number on the HFI port, 0-255."""
        ...

    @property
    def port_info(self) -> VeswPortInfo:
        """Configuration and state now, all read-only fields included."""
        ...

    def apply(self, info: VeswPortInfo) -> None:
        """Take a configuration that the EM has set. Read-only fields of `info` are ignored; none is refused."""

    def reset(self) -> None:
        """Go back to power-on defaults and forget the MAC table, but go on existing (DeleteVesw)."""

    @property
    def mac_table_digest(self) -> int:
        """The digest that came with the last update of the MAC table, 32 bits."""
        ...

    def mac_section(self, offset: int, num_entries: int) -> tuple[MacEntry | None, ...]:
        """Return entries of the MAC table, None for holes; the range lies inside the table."""
        ...

    def update_mac_table(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> None:
        """Replace the entries from `offset` on, swap the table whole; the range lies inside the table."""

    def ucast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the unicast addresses the netdev listens to, and the generation count of the list."""
        ...

    def mcast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses the netdev listens to, and the generation count of the list."""
        ...

    def summary_counters(self) -> SummaryCounters:
        """Return what was sent and received."""
        ...

    def error_counters(self) -> ErrorCounters:
        """Return what could not be."""
        ...


VnicReport = Callable[[Vnic, TrapOpcode], None]
"""How a VNIC says that something changed; the agent turns it into a trap, or not."""


class VnicProvider(Protocol):
    """Makes VNICs when the EM configures a vport that does not exist yet."""

    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> Vnic:
        """Return a new VNIC with power-on defaults, its netdev in place.

        Raises:  VnicUnavailableError: the host has no netdev to give.
        """
        ...
