"""The model of a lab file: fabric, hosts, virtual Ethernet switches. It is checked completely before a lab starts.

It can also be built in Python: `LabModel(name=..., hosts={...}, vesws=[...])`. `opavnic.lab.file.parts.lab_model` adds
the sections of installed parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from hfi_sim.base.errors import FabricError, FaultError, InputError
from hfi_sim.base.text import nearest, unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import parse_fault, spec_from_data, spec_text
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.netdev.base import IpInterface
from opavnic.base.errors import OpavnicError
from opavnic.lab.file.fabric_model import FabricModel
from opavnic.lab.file.guest_model import guest_problems, is_guest
from opavnic.lab.file.host_setup import host_numbers, setup_problems
from opavnic.lab.file.lab_sections import (
    AppModel,
    Datapath,
    Em,
    Host,
    IcrcModel,
    SubnetManagement,
    datapath_section,
    em_section,
    reach_problems,
    subnet_manager_section,
)
from opavnic.lab.file.members import (
    HostPort,
    HostPorts,
    Membership,
    address_in,
    is_guid,
    member_problems,
    rail_problems,
    vnic_titles,
    vport_numbers,
    vport_problems,
)
from opavnic.lab.file.sections import HOSTS_SCHEMA, AlsoAccepts, LabName, Schema
from opavnic.lab.file.spread import FREE_KEYS, spread_lab
from opavnic.lab.file.topology import cut_off, lab_topology, port_guids, position_problems, routing_problems
from opavnic.lab.file.uplink_model import Cluster, Uplink, uplink_problems
from opavnic.lab.file.vesw_model import Vesw
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_backends.given import interface_name
from vema.base.sections import Section, Subnet, empty_is_default
from vema.em.desired.desired import AUTO, VeswSection
from vema.em.desired.problems import (
    KeyPath,
    Problem,
    default_port_problems,
    path_text,
    repeated,
    twice_problems,
)
from vema.em.desired.subnets import subnet_problems

SWITCH: Final = "sw0"
"""A node of every fabric, like that of the EM; no host may have the name of either."""


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
        dict[LabName, Annotated[Host, BeforeValidator(empty_is_default), AlsoAccepts(None)]],
        Schema(HOSTS_SCHEMA),
    ] = Field(min_length=1)
    """By name; `h[1-16]` names sixteen, and so does the number 16 in place of all names."""
    vesws: Annotated[list[Vesw], BeforeValidator(lambda value: [] if value is None else value)] = Field(
        default_factory=list
    )
    em: Annotated[Em, BeforeValidator(em_section), AlsoAccepts("external", "off", False, None)] = Em()
    subnet_manager: Annotated[
        SubnetManagement,
        BeforeValidator(subnet_manager_section),
        AlsoAccepts("builtin", "external", None),
    ] = SubnetManagement()
    uplinks: Annotated[
        dict[LabName, Uplink], BeforeValidator(lambda value: {} if value is None else value)
    ] = Field(default_factory=dict)
    """Ways out of the lab, by name."""
    apps: Annotated[list[AppModel], BeforeValidator(lambda value: [] if value is None else value)] = Field(
        default_factory=list
    )
    faults: Annotated[list[FaultText], BeforeValidator(lambda value: [] if value is None else value)] = Field(
        default_factory=list
    )
    """Injected once the lab is ready: `loss on h1 20% l4=mad`, or the same as a mapping with kind, on and options."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 1
    """Seed of all randomness in the fabric."""
    datapath: Annotated[
        Datapath, BeforeValidator(datapath_section), AlsoAccepts("auto", "python", "native", None)
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
                *_clashes(self),
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


class CrossError(OpavnicError, InputError, ValueError):
    """Sections that are valid on their own but contradict each other."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{path_text(problem.path)}: {problem.message}" for problem in problems))
        self.problems = problems


def cross_problems(data: Any) -> list[Problem]:
    """Return the contradictions between sections in the plain data of a lab file.

    Values of a wrong type are skipped, so that these problems can be listed together with those of single values.
    """
    hosts = dict(data["hosts"]) if isinstance(data, dict) and isinstance(data.get("hosts"), dict) else {}
    if not hosts:  # which is a mistake that is said; each name of a host would be another
        return []
    vesws = data.get("vesws") if isinstance(data, dict) else None
    entries = [(i, v) for i, v in enumerate(vesws if isinstance(vesws, list) else []) if isinstance(v, dict)]
    last, highest = max(host_numbers(hosts).items(), key=lambda one: one[1])
    problems = twice_problems(entries)
    twice = {problem.path[1] for problem in problems}
    problems += subnet_problems([one for one in entries if one[0] not in twice], len(hosts), highest, last)
    problems += repeated(entries, "multicast_lid", besides=AUTO)
    ports = HostPorts(hosts)
    for index, vesw in entries:
        problems += member_problems(("vesws", index, "members"), vesw.get("members"), ports, len(problems))
        problems += rail_problems(index, vesw, ports, highest)
        problems += default_port_problems(index, vesw, len(problems))
    members = {
        index: [port for member in _texts(vesw.get("members")) if (port := ports.find(member)) is not None]
        for index, vesw in entries
    }
    for host in hosts:
        if host in (EM_NODE, SWITCH):
            problems.append(Problem(("hosts", host), f'"{host}" is the name of a node of every fabric'))
    problems += vport_problems(entries, members, bool(data.get("driver_quirks")))
    problems += guest_problems(hosts, [[port.host for port in here] for here in members.values()])
    by_name = {
        vesw["name"]: {**vesw, "members": [port.host for port in members[index]]}
        for index, vesw in entries
        if isinstance(vesw.get("name"), str)
    }
    uplinks = data.get("uplinks") if isinstance(data, dict) else None
    problems += uplink_problems(uplinks, hosts, by_name, len(problems))
    apps = data.get("apps") if isinstance(data, dict) else None
    of_apps = (
        {str(app.get("host")) for app in apps or () if isinstance(app, dict)}
        if isinstance(apps, list)
        else ()
    )
    problems += setup_problems(hosts, vnic_titles(entries, members), of_apps, list(by_name))
    return problems + _app_problems(data, hosts, {port.host for here in members.values() for port in here})


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _clashes(model: LabModel) -> list[Problem]:
    """Return a problem for each address of its own of a host that another host has in the same virtual switch."""
    problems = []
    own = {(name, title) for name, host in model.hosts.items() for title in host.addresses}
    if not own:
        return []
    for vesw in model.vesws:
        vnics = [
            (host, nth, interface_name(vesw.name, nth))
            for host in model.hosts_of(vesw)
            for nth in range(sum(port.host == host for port in model.members_of(vesw)))
        ]
        has: dict[object, tuple[str, int]] = {}
        for host, nth, title in sorted(vnics, key=lambda vnic: (vnic[0], vnic[2]) in own):
            for address in model.ips_of(vesw, host, nth):
                other = has.setdefault(address.ip, (host, nth))
                if other != (host, nth) and (host, title) in own:
                    path: KeyPath = ("hosts", host, "addresses", title)
                    problems.append(Problem(path, f'{address.ip} is already that of host "{other[0]}"'))
    return problems


def _app_problems(data: Any, hosts: Mapping[str, Any], members: Collection[str]) -> list[Problem]:
    apps = data.get("apps") if isinstance(data, dict) else None
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, app in enumerate(apps if isinstance(apps, list) else []):
        host = app.get("host") if isinstance(app, dict) else None
        if not isinstance(host, str):
            continue
        path: KeyPath = ("apps", index, "host")
        if host not in hosts:
            problems.append(Problem(path, f'unknown host "{host}" ({nearest(host, map(str, hosts))})'))
        elif is_guest(hosts[host]):
            problems.append(Problem(path, f'host "{host}" is a guest: an app needs a host of its own'))
        elif host in seen:
            problems.append(Problem(path, f'host "{host}" already has an app'))
        elif host not in members:
            problems.append(Problem(path, f'host "{host}" is in no virtual switch: its app has no VNIC'))
        seen.add(host)
    for key, what in (("em", "EM"), ("subnet_manager", "subnet manager")):
        section = data.get(key) if isinstance(data, dict) else None
        mode = section.get("mode") if isinstance(section, dict) else section
        if seen and isinstance(mode, str) and mode != "builtin":
            problems.append(
                Problem(("apps",), f"apps need the built-in {what}: they start when their VNICs are up")
            )
    return problems


def fabric_problems(model: LabModel) -> list[Problem]:
    """Return why the fabric of a lab cannot be built, or why its faults cannot be injected."""
    faults = None
    try:
        topology = model.topology
        topology.check()
        if model.faults or any(node.guid is not None for node in topology.nodes.values()):
            # the places of faults, and the GUIDs that others leave free, are known once it is built
            faults = Faults(topology.build(Fabric()))
    except FabricError as error:
        return [_topology_problem(line, model.hosts) for line in str(error).splitlines()]
    if problems := _guid_problems(model):
        return problems
    ports = dict.fromkeys(port.name for vesw in model.vesws for port in model.members_of(vesw))
    problems = _reach_problems(model, cut_off(topology, ports, EM_NODE))
    problems += position_problems(model.fabric, topology)
    problems += _placing_problems(
        model.cluster, [*model.hosts, *(n.name for n in topology.of_kind(NodeKind.SWITCH))]
    )
    if model.subnet_manager.mode == "builtin":
        problems += routing_problems(model.fabric, topology)
    return problems if faults is None else problems + _fault_problems(model, faults)


def _placing_problems(cluster: Cluster, nodes: Collection[str]) -> list[Problem]:
    """Return a problem for each node that a cluster places and a lab does not have, and for each unknown machine."""
    machines = cluster.nodes if isinstance(cluster.nodes, list) else None
    known = {*(machines or ()), *(label for labels in cluster.labels.values() for label in labels)}
    problems = []
    for name, where in cluster.named.items():
        path: KeyPath = ("cluster", "place", name)
        if name not in nodes:
            problems.append(Problem(path, unknown_name("host or switch", name, nodes)))
        elif machines is not None and where not in known:
            problems.append(Problem(path, unknown_name("machine or label", where, sorted(known))))
    return problems


def _guid_problems(model: LabModel) -> list[Problem]:
    """Return a problem for each member by GUID that no port has, or whose port is a member already."""
    problems = []
    for index, vesw in enumerate(model.vesws):
        seen: dict[HostPort, str] = {}
        for place, member in enumerate(vesw.members):
            port = model.ports.find(member)
            if port is None:
                text = f"no port of a host has the GUID {member}"
                problems.append(Problem(("vesws", index, "members", place), text))
            elif (before := seen.setdefault(port, member)) is not member:
                text = f'"{member}" appears twice: it is the port that "{before}" means'
                problems.append(Problem(("vesws", index, "members", place), text))
    return problems


def _fault_problems(model: LabModel, faults: Faults) -> list[Problem]:
    for name in names_that_can_crash(model):
        faults.hook(name, lambda: None, lambda: None)  # the lab is only being checked
    problems = []
    for index, fault in enumerate(model.faults):
        try:
            faults.add(fault)
        except FabricError as error:
            problems.append(Problem(("faults", index), str(error)))
    return problems


def _reach_problems(model: LabModel, cut_off: dict[str, str]) -> list[Problem]:
    """Return a problem for each member of a virtual switch that the Ethernet Manager cannot reach."""
    return [
        Problem(
            ("vesws", index, "members", place),
            f'host "{member}" cannot be reached from the node {EM_NODE}: {cut_off[port.name]}',
        )
        for index, vesw in enumerate(model.vesws)
        for place, (member, port) in enumerate(zip(vesw.members, model.members_of(vesw), strict=True))
        if port.name in cut_off
    ]


_OF_THE_LAB: Final = {*Vesw.__annotations__, "id", "subnet", "vports"}
"""Keys of a virtual switch that mean something without an EM of the lab; all others are the EM's."""


def unused_settings(model: LabModel) -> list[Problem]:
    """Return a problem for each key that only works with the built-in managers, where they do not run."""
    problems = []
    if "external" in (model.em.mode, model.subnet_manager.mode) or model.em.mode == "off":
        text = "the lab does not wait for VNICs that are not its own manager's: add routes once they are up"
        problems = [
            Problem(("hosts", name, "routes"), text) for name, host in model.hosts.items() if host.routes
        ]
    if model.em.mode == "builtin":
        return problems
    return problems + [
        Problem(
            ("vesws", index, key), f"only the built-in EM sets this, and em: {model.em.mode} runs without it"
        )
        for index, vesw in enumerate(model.vesws)
        for key in VeswSection.model_fields
        if key in vesw.model_fields_set and key not in _OF_THE_LAB
    ]


def _topology_problem(line: str, hosts: Collection[str]) -> Problem:
    """Return an error of the topology, such as `links[2]: ...`, with the path in the lab file that it refers to."""
    path: KeyPath = ("fabric", "topology")
    if (node := re.match(r"node '([^']+)': ", line)) and (host := node[1].partition(".")[0]) in hosts:
        return Problem(("hosts", host), line)
    place, colon, rest = line.partition(": ")
    if colon and (link := re.fullmatch(r"links\[(\d+)\](?:\.ends)?", place)):
        return Problem((*path, "links", int(link[1])), rest)
    if colon and place.startswith("switches."):
        return Problem((*path, "switches", place.removeprefix("switches.")), rest)
    if colon and place.startswith("hosts."):
        return Problem(("hosts", place.removeprefix("hosts.")), rest)
    return Problem(path, line)


def names_that_can_crash(model: LabModel) -> list[str]:
    """Return what accepts `crash on NAME`: the lab's own Ethernet Manager, and the hosts that have a driver: no app."""
    apps = {app.host for app in model.apps}
    managers = [EM_NODE] if model.em.mode == "builtin" else []
    return [name for name in model.hosts if name not in apps] + managers
