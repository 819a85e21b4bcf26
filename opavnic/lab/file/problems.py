"""Contradictions between the sections of a lab file, each of which is valid on its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.errors import FabricError, InputError
from hfi_sim.base.text import nearest, unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import NodeKind
from hfi_sim.fabric.topology.explicit import hfi_names
from opavnic.base.errors import OpavnicError
from opavnic.kernel.drivers import HFI1
from opavnic.lab.file.guest_model import guest_problems, is_guest
from opavnic.lab.file.host_setup import host_numbers, setup_problems
from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.members import (
    HostPort,
    HostPorts,
    member_problems,
    rail_problems,
    vnic_titles,
    vport_problems,
)
from opavnic.lab.file.topology import cut_off, position_problems, routing_problems
from opavnic.lab.file.uplink_model import Cluster, uplink_problems
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_backends.given import interface_name
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

if TYPE_CHECKING:
    from opavnic.lab.file.model import LabModel

SWITCH: Final = "sw0"
"""A node of every fabric, like that of the EM; no host may have the name of either."""


class CrossError(OpavnicError, InputError, ValueError):
    """Sections that are valid on their own but contradict each other."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{path_text(problem.path)}: {problem.message}" for problem in problems))
        self.problems = problems


def cross_problems(data: Any) -> list[Problem]:
    """Return the contradictions between sections in the plain data of a lab file.

    Values of a wrong type are skipped, so that these problems can be listed together with those of single values.
    """
    if not isinstance(data, dict) or not isinstance(data.get("hosts"), dict) or not data["hosts"]:
        return []  # which is a mistake that is said; each name of a host would be another
    hosts, vesws = data["hosts"], data.get("vesws")
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
    problems += uplink_problems(data.get("uplinks"), hosts, by_name, len(problems))
    apps = data["apps"] if isinstance(data.get("apps"), list) else []
    of_apps = {str(app.get("host")) for app in apps if isinstance(app, dict)}
    problems += setup_problems(hosts, vnic_titles(entries, members), of_apps, list(by_name))
    its = {port.host for here in members.values() for port in here}
    return problems + _app_problems(data, apps, hosts, its)


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def address_clashes(model: LabModel) -> list[Problem]:
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


def _app_problems(
    data: Mapping[str, Any], apps: list[Any], hosts: Mapping[str, Any], members: Collection[str]
) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, app in enumerate(apps):
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
        section = data.get(key)
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
    for name, host in model.hosts.items():
        if host.kernel is not None and host.kernel.linux_driver is HFI1:
            for hfi in hfi_names(name, host.hfis):
                for port in faults.fabric.hfis[hfi].ports.values():
                    port.break_register = lambda: None
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
