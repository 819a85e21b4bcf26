"""The fabric of a lab: HFIs, switches and links, a subnet manager, partitions. Nothing here touches the system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from hfi_sim.fabric import Fabric
from hfi_sim.hfi import Hfi, HfiPort, NetdevFactory
from hfi_sim.precise_loop import timer_resolution_s as resolution_of
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.wire.icrc import Icrc
from opavnic.lab.model import EM_NODE, LabModel
from opavnic.lab.topology import lab_topology


@dataclass(slots=True)
class Wiring:
    """A fabric that is cabled and swept."""

    fabric: Fabric
    subnet_manager: SubnetManager
    em_port: HfiPort
    """The port that the Ethernet Manager and the subnet manager sit at."""
    hfis: dict[str, list[Hfi]]
    """The HFIs of each host; VNICs are on port 1 of the first."""

    def vnic_port(self, host: str) -> HfiPort:
        """Return the port of a host that carries its VNICs."""
        return self.hfis[host][0].ports[1]


def wire(
    model: LabModel, netdevs: Callable[[str], NetdevFactory], timer_resolution_s: float | None = None
) -> Wiring:
    """Build the fabric of a lab on the running event loop and activate its ports.

    Args:  netdevs: returns the netdev factory of a host. timer_resolution_s: link delays below it pass at once; 0 on
           virtual time, None for what the running loop can keep.
    """
    loop = asyncio.get_running_loop()
    fabric = Fabric(
        loop,
        seed=model.seed,
        icrc=Icrc(model.icrc.polynomial),
        timer_resolution_s=resolution_of(loop) if timer_resolution_s is None else timer_resolution_s,
    )
    lab_topology(
        model.fabric.topology,
        {name: (host.hfis, host.ports) for name, host in model.hosts.items()},
        [EM_NODE],
        link=model.fabric.link,
    ).build(fabric, lambda host: netdevs(host) if host in model.hosts else None)
    em_port = fabric.hfis[EM_NODE].ports[1]
    hfis = {
        name: [fabric.hfis[hfi_name(name, index)] for index in range(host.hfis)]
        for name, host in model.hosts.items()
    }
    subnet_manager = SubnetManager(fabric, em_port, routing=Routing(engine=model.fabric.routing))
    wiring = Wiring(fabric, subnet_manager, em_port, hfis)
    for name in model.hosts:
        if pkeys := [vesw.pkey for vesw in model.vesws_of(name)]:
            subnet_manager.set_pkeys(wiring.vnic_port(name), pkeys)
    subnet_manager.sweep()
    return wiring


def hfi_name(host: str, index: int) -> str:
    """Return the name of an HFI: that of its host, with .2, .3, ... for further ones."""
    return host if index == 0 else f"{host}.{index + 1}"
