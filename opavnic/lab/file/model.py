"""The model of a lab file: fabric, hosts, virtual Ethernet switches. It is checked completely before a lab starts.

It can also be built in Python: `LabModel(name=..., hosts={...}, vesws=[...])`. `opavnic.lab.file.parts.lab_model` adds
the sections of installed parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from hfi_sim.base.errors import FaultError
from hfi_sim.fabric.faults import parse_fault, spec_from_data, spec_text
from hfi_sim.fabric.topology import Topology
from hfi_sim.netdev.base import IpInterface
from opavnic.lab.file.fabric_model import FabricModel
from opavnic.lab.file.host_setup import host_numbers
from opavnic.lab.file.lab_sections import (
    AppModel,
    Datapath,
    Em,
    Host,
    IcrcModel,
    SubnetManagement,
    Vesw,
    datapath_section,
    em_section,
    reach_problems,
    subnet_manager_section,
)
from opavnic.lab.file.members import HostPort, HostPorts, Membership, address_in, is_guid, vport_numbers
from opavnic.lab.file.problems import (
    CrossError,
    address_clashes,
    cross_problems,
    fabric_problems,
    unused_settings,
)
from opavnic.lab.file.sections import HOSTS_SCHEMA, LabName, Schema, also_accepts
from opavnic.lab.file.spread import FREE_KEYS, spread_lab
from opavnic.lab.file.topology import lab_topology, port_guids
from opavnic.lab.file.uplink_model import Cluster, Uplink
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_backends.given import interface_name
from vema.base.sections import Section, Subnet, empty_is_default


def _none_is_empty(value: object) -> object:
    """Return an empty list for a section without a value."""
    return [] if value is None else value


def _fault_text(value: object) -> str:
    try:
        return spec_text(spec_from_data(value) if isinstance(value, dict) else parse_fault(str(value)))
    except FaultError as error:
        raise ValueError(str(error)) from None


FaultText = Annotated[
    str,
    BeforeValidator(_fault_text),
    WithJsonSchema({"type": ["string", "object"], "description": "KIND on PLACE [OPTION=VALUE ...]"}),
]


class LabModel(Section):
    """A whole lab file, without the sections of parts."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {f"^{FREE_KEYS}": {}}})

    name: LabName
    fabric: Annotated[FabricModel, BeforeValidator(empty_is_default)] = FabricModel()
    hosts: Annotated[
        dict[LabName, Annotated[Host, BeforeValidator(empty_is_default), also_accepts(None)]],
        Schema(HOSTS_SCHEMA),
    ] = Field(min_length=1)
    """By name; `h[1-16]` names sixteen, and so does the number 16 in place of all names."""
    vesws: Annotated[list[Vesw], BeforeValidator(_none_is_empty)] = Field(default_factory=list)
    em: Annotated[Em, BeforeValidator(em_section), also_accepts("external", "off", False, None)] = Em()
    subnet_manager: Annotated[
        SubnetManagement, BeforeValidator(subnet_manager_section), also_accepts("builtin", "external", None)
    ] = SubnetManagement()
    uplinks: Annotated[dict[LabName, Uplink], BeforeValidator(empty_is_default)] = Field(default_factory=dict)
    """Ways out of the lab, by name."""
    apps: Annotated[list[AppModel], BeforeValidator(_none_is_empty)] = Field(default_factory=list)
    faults: Annotated[list[FaultText], BeforeValidator(_none_is_empty)] = Field(default_factory=list)
    """Injected once the lab is ready: `loss on h1 20% l4=mad`, or the same as a mapping with kind, on and options."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 1
    """Seed of all randomness in the fabric."""
    datapath: Annotated[
        Datapath, BeforeValidator(datapath_section), also_accepts("auto", "python", "native", None)
    ] = Datapath()
    driver_quirks: Annotated[bool, Field(strict=True)] = False
    """Follow the Linux driver even where that harms isolation and recovery."""
    icrc: Annotated[IcrcModel, BeforeValidator(empty_is_default)] = IcrcModel()
    cluster: Annotated[Cluster, BeforeValidator(empty_is_default)] = Cluster()

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, data: Any) -> Any:
        spread = spread_lab(data)
        if spread.problems:
            raise CrossError(spread.problems)
        return spread.data

    @model_validator(mode="after")
    def _sections_fit(self) -> LabModel:
        problems = (
            cross_problems(self.model_dump())
            or [
                *address_clashes(self),
                *reach_problems(
                    self.hosts,
                    {vesw.name: vesw.subnet for vesw in self.vesws},
                    lambda: self.vnic_addresses,
                    has_uplinks=bool(self.uplinks),
                ),
            ]
            or unused_settings(self)
            or fabric_problems(self)
        )
        if problems:
            raise CrossError(problems)
        return self

    @cached_property
    def ports(self) -> HostPorts:
        """The ports of all hosts, by the names that members have for them."""
        hosts = {name: {"hfis": host.hfis, "ports": host.ports} for name, host in self.hosts.items()}
        if not any(is_guid(member) for vesw in self.vesws for member in vesw.members):
            return HostPorts(hosts)
        return HostPorts(hosts, port_guids(self.fabric, self.hosts, [EM_NODE]))

    @cached_property
    def topology(self) -> Topology:
        """How it is cabled, with the node of the managers, to look at: who changes one makes another."""
        return lab_topology(self.fabric, self.hosts, [EM_NODE])

    @cached_property
    def vnics(self) -> dict[str, list[tuple[Vesw, HostPort]]]:
        """The virtual switches of each host and the ports by which it is there, in file order."""
        found: dict[str, list[tuple[Vesw, HostPort]]] = {host: [] for host in self.hosts}
        for vesw in self.vesws:
            for port in self.members_of(vesw):
                found[port.host].append((vesw, port))
        return found

    @property
    def pinned_vports(self) -> dict[Membership, int]:
        """The numbers of vports that are written in the file."""
        return {
            (vesw.id, port.name): number
            for vesw in self.vesws
            for member, number in vesw.vports.items()
            if (port := self.ports.find(member)) is not None
        }

    @cached_property
    def vports(self) -> dict[Membership, int]:
        """The number of each vport among those of its port."""
        memberships = [(vesw.id, port.name) for vesw in self.vesws for port in self.members_of(vesw)]
        return vport_numbers(memberships, self.pinned_vports)

    def members_of(self, vesw: Vesw) -> list[HostPort]:
        """Return the ports that are members of a virtual switch, in file order."""
        return [port for member in vesw.members if (port := self.ports.find(member)) is not None]

    def hosts_of(self, vesw: Vesw) -> list[str]:
        """Return the hosts that are members of a virtual switch by one or more ports, in file order."""
        return list(dict.fromkeys(port.host for port in self.members_of(vesw)))

    def vesws_of(self, host: str) -> list[Vesw]:
        """Return the virtual switches that a host is a member of, each once, in file order."""
        return list({vesw.id: vesw for vesw, _ in self.vnics[host]}.values())

    @property
    def managing_hosts(self) -> list[str]:
        """The hosts that may manage the fabric, in file order; see `Host.may_manage`."""
        said = [name for name, host in self.hosts.items() if host.may_manage]
        unsaid = [name for name, host in self.hosts.items() if host.may_manage is None]
        return said or (unsaid if self.subnet_manager.mode == "external" else unsaid[:1])

    def uplinks_of(self, vesw: str) -> dict[str, Uplink]:
        """Return the uplinks of a virtual switch by name."""
        return {name: uplink for name, uplink in self.uplinks.items() if uplink.vesw == vesw}

    def is_bridge_port(self, vesw: Vesw, host: str) -> bool:
        """Return whether the VNIC of a host is the port of a bridge: then addresses belong to the bridge, or behind."""
        led_out = any(up.host == host and up.is_bridged for up in self.uplinks_of(vesw.name).values())
        return led_out or self.hosts[host].tap is not None

    def address(self, vesw: Vesw, host: str) -> IpInterface | None:
        """Return the first IP address of a VNIC, with the prefix; None where it has none."""
        return next(iter(self.addresses(vesw, host)), None)

    def addresses(self, vesw: Vesw, host: str, nth: int = 0) -> tuple[IpInterface, ...]:
        """Return the IP addresses of a VNIC, with their prefixes; none for the port of a bridge.

        Args:    nth: which of the VNICs that the host has there, from 0.
        """
        return () if not nth and self.is_bridge_port(vesw, host) else self.ips_of(vesw, host, nth)

    @cached_property
    def vnic_addresses(self) -> dict[tuple[str, str], tuple[IpInterface, ...]]:
        """The IP addresses of all VNICs, by host and by what the lab calls them: blue, blue-2."""
        found = {}
        for host, vnics in self.vnics.items():
            there = Counter[str]()
            for vesw, _ in vnics:
                nth = there[vesw.name]
                found[host, interface_name(vesw.name, nth)] = self.addresses(vesw, host, nth)
                there[vesw.name] += 1
        return found

    def ips_of(self, vesw: Vesw, host: str, nth: int = 0) -> tuple[IpInterface, ...]:
        """Return the IP addresses kept for the n-th VNIC of a host in a virtual switch, with their prefixes."""
        own = self.hosts[host].addresses.get(interface_name(vesw.name, nth))
        return tuple(self._nth_address(subnet, host, nth) for subnet in vesw.subnet) if own is None else own

    def addresses_in(
        self, vesw: str, subnets: Iterable[Subnet], host: str, nth: int = 0
    ) -> tuple[IpInterface, ...]:
        """Return the IP addresses of a host in a virtual switch that an EM may have added, with their prefixes.

        None in a subnet that is too small, and for a virtual machine: its VNIC is a port of a bridge.
        """
        if (own := self.hosts[host].addresses.get(interface_name(vesw, nth))) is not None:
            return own
        if self.hosts[host].tap:
            return ()
        number = self._number(host, nth)
        fitting = [subnet for subnet in subnets if subnet.num_addresses >= number + 2]
        return tuple(self._nth_address(subnet, host, nth) for subnet in fitting)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Which address of every subnet each host gets."""
        return host_numbers(self.hosts)

    def _number(self, host: str, nth: int) -> int:
        """Return which address of every subnet a VNIC gets: the first ones of all hosts come before the second."""
        return self.numbers[host] + (nth * max(self.numbers.values()) if nth else 0)

    def _nth_address(self, subnet: Subnet, host: str, nth: int) -> IpInterface:
        return address_in(subnet, self._number(host, nth))
