"""The VNICs that a host of a running lab has: those of the lab file, then those that an EM has made beside them."""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.netdev.base import Netdev
from opavnic.adapter import Adapter
from opavnic.vnic_port import VnicPort
from opavnic.world.ground.host import GroundHost, Interface
from vema.types import VportNum


@dataclass(frozen=True, slots=True)
class HostVnic:
    """One VNIC of a host, as it is now."""

    host: str
    vport_num: VportNum
    interface: str
    """The name of its netdev."""
    asked: Interface | None
    """What the lab file says of it; None where an EM has made a vport that the file does not know."""
    adapter: Adapter | None
    """None until the EM has created it, and while its driver is gone."""

    @property
    def netdev(self) -> Netdev | None:
        """Its netdev, while there is one."""
        return None if self.adapter is None else self.adapter.netdev

    def __str__(self) -> str:
        return f"{self.host}/{self.interface}" if self.asked is None else str(self.asked)


def vnics_of(host: GroundHost, port: VnicPort) -> list[HostVnic]:
    """Return the VNICs of a host by their vport numbers: what the file asks for, and what was ever made beside it."""
    asked = {VportNum(interface.vport_num): interface for interface in host.interfaces}
    return [
        HostVnic(host.name, number, host.name_of(number), asked.get(number), port.adapters.get(number))
        for number in [*asked, *sorted(port.vports_made - asked.keys())]
    ]
