"""The VNICs of a host in a running lab: those of the lab file, then further ones created by an EM."""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.nodes.hfi import HfiPort
from opavnic.world.host_backends.backend import HostBackend, Interface
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.host_driver import HostDriver, ShownVnic
from vema.base.types import VportNum


@dataclass(frozen=True, slots=True)
class HostVnic:
    """The current state of one VNIC of a host."""

    host: str
    port: HfiPort
    vport_num: VportNum
    interface: str
    """The name of its netdev, as its host has it now."""
    asked: Interface | None
    """Its entry in the lab file; None if an EM has created a vport that the file does not mention."""
    adapter: ShownVnic | None
    """None until the EM has created it, and while its driver is gone."""
    addresses: tuple[IpInterface, ...] = ()
    """The IP addresses that it was given."""
    lost: str = ""
    """Why its host is gone; empty while it is there."""

    @property
    def key(self) -> VnicKey:
        """Which VNIC of its host it is."""
        return VnicKey(self.port.name, self.vport_num)

    @property
    def netdev(self) -> Netdev | None:
        """Its netdev; None if there is none now."""
        return None if self.adapter is None else self.adapter.netdev

    @property
    def due_vesw_id(self) -> int:
        """The virtual switch that it is on, else the one that it is to be on; 0: none."""
        vesw_id = 0 if self.adapter is None else self.adapter.vesw_id
        return vesw_id or (0 if self.asked is None else self.asked.vesw.id)

    @property
    def has_usable_addresses(self) -> bool:
        """Whether programs can bind to its addresses; true of a VNIC that is not there, is down or has no carrier."""
        netdev = self.netdev
        if netdev is None or not netdev.is_up or not netdev.carrier or netdev.dormant:
            return True
        return netdev.has_usable_addresses

    def __str__(self) -> str:
        return f"{self.host}/{self.interface}" if self.asked is None else str(self.asked)


def vnics_of(host: HostBackend, port: HostDriver) -> list[HostVnic]:
    """Return the VNICs of a port of a host: those that the file requests, then all others ever created, by number."""
    name_of_port = port.port.name
    asked = {VportNum(item.vport_num): item for item in host.interfaces if item.port == name_of_port}
    found = []
    for number in [*asked, *sorted(set(port.vports_made) - asked.keys())]:
        adapter = port.adapters.get(number)
        key = VnicKey(name_of_port, number)
        name = host.name_of(key) if adapter is None else adapter.netdev.host_name
        found.append(
            HostVnic(
                host.name,
                port.port,
                number,
                name,
                asked.get(number),
                adapter,
                host.addresses_of(key),
                host.lost,
            )
        )
    return found
