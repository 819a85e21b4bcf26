"""The VNICs of a host in a running lab, and the names of their interfaces: those of its file, then those of an EM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.nodes.hfi import HfiPort
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.given import (
    INTERFACE_NAME_MAX,
    Interface,
    VeswFacts,
    VnicKey,
    interface_name,
)
from opavnic.world.host_driver import HostDriver, ShownVnic
from vema.base.types import VportNum
from vema.em.desired.desired import VeswSection


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


def plan_interfaces(model: LabModel, host: str) -> list[Interface]:
    """Return the VNICs of a host, in the order of the virtual switches in the file."""
    found = []
    there = Counter[int]()
    for vesw, port in model.vnics[host]:
        nth = there[vesw.id]
        there[vesw.id] += 1
        name, addresses = interface_name(vesw.name, nth), model.addresses(vesw, host, nth)
        found.append(
            Interface(
                host,
                port.name,
                vesw,
                model.vports[vesw.id, port.name],
                name,
                addresses,
                nth,
                link_local=vesw.has_link_local,
            )
        )
    return found


def facts_of(
    model: LabModel, given: Sequence[VeswSection], name: str, vesw_id: int, host: str, nth: int
) -> VeswFacts:
    """Return what a lab knows of a virtual switch for the n-th VNIC of a host there. Args: given: those of its EM."""
    sections = [*model.vesws, *given]
    subnets = next((item.subnet for item in sections if item.id == vesw_id and item.subnet), ())
    bridged = any(vesw.id == vesw_id and model.is_bridge_port(vesw, host) for vesw in model.vesws)
    addresses = () if bridged else model.addresses_in(name, subnets, host, nth)
    link_local = all(vesw.has_link_local for vesw in model.vesws if vesw.id == vesw_id)
    return VeswFacts(name, addresses, link_local)


def avoid_taken_names(lab: str, interfaces: list[Interface], taken: Callable[[str], bool]) -> None:
    """Rename interfaces on the machine itself whose names are taken there: to LAB-blue, or HOST-blue.

    Raises:  LabError: these names are taken or too long as well.
    """
    for interface in interfaces:
        wanted = interface.title
        candidates = [wanted, f"{lab}-{wanted}", f"{interface.host}-{wanted}"]
        free = [name for name in candidates if len(name) <= INTERFACE_NAME_MAX and not taken(name)]
        others = {item.name for item in interfaces if item is not interface}
        name = next((name for name in free if name == wanted or name not in others), None)
        if name is None:
            raise LabError(
                f'an interface "{wanted}" exists on this machine, and {", ".join(candidates[1:])} are taken or longer '
                f"than {INTERFACE_NAME_MAX} characters: give the virtual switch another name"
            )
        interface.name = name
