"""The topology of a lab file: a shape with its numbers, or an explicit list of switches and links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hfi_sim.base.errors import FabricError, TopologyError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import SHAPES, NodeKind, Topology, generate
from hfi_sim.fabric.topology.explicit import from_data, host_nodes
from hfi_sim.routing import DEFAULT_ENGINE, ENGINES, refusal
from opavnic.lab.file.fabric_model import EXPLICIT, REFUSE, FabricModel
from opavnic.lab.file.lab_sections import Host
from vema.em.desired.problems import Problem

_HOSTS_PER_LEAF: Final = 48


def lab_topology(fabric: FabricModel, hosts: Mapping[str, Host], first: Sequence[str] = ()) -> Topology:
    """Return the topology of a lab.

    Args:    fabric, hosts: those sections of the lab file. first: HFIs besides those of hosts; they get the first LIDs.
    Raises:  TopologyError: it cannot be built.
    """
    options = fabric.topology.options()
    kind = options.pop("kind")
    if kind == EXPLICIT:
        return _explicit(fabric, hosts, first)
    hfis = [
        node
        for name, host in hosts.items()
        for node in host_nodes(name, host.hfis, host.ports, host.guid, host.lid)
    ]
    if SHAPES[kind].grows:
        topology = generate(kind, hosts=[*first, *hfis], **options)
        _check_switches(kind, topology)
    else:  # the ports of the shape are for hosts
        topology = _with_first(generate(kind, hosts=hfis, **options), first)
    link = fabric.link.options()
    topology.cables = [replace(cable, link=link) for cable in topology.cables]
    return topology


def _check_switches(kind: str, topology: Topology) -> None:
    """Refuse a shape whose one switch has grown beyond a switch; say one that has room."""
    most = max(node.ports for node in topology.nodes.values())
    if most > topology.switch_ports_max:
        leaves = math.ceil(most / _HOSTS_PER_LEAF)
        raise TopologyError(
            f"{kind}: {most} HFI ports, a switch has at most {topology.switch_ports_max}: take several switches, "
            f"such as {{kind: clos, leaves: {leaves}, spines: 2, hosts_per_leaf: {_HOSTS_PER_LEAF}}}"
        )


def _explicit(fabric: FabricModel, hosts: Mapping[str, Host], first: Sequence[str]) -> Topology:
    section = fabric.topology
    topology = from_data(
        {
            "switches": section.switches,
            "hosts": {
                name: {"hfis": host.hfis, "ports": host.ports, "guid": host.guid, "lid": host.lid}
                for name, host in hosts.items()
            },
            "links": [{"ends": cable.ends} for cable in section.links or ()],
        }
    )
    link = fabric.link.options()
    cables = zip(topology.cables, section.links or (), strict=True)
    topology.cables = [
        replace(cable, link=said.options(fabric.link) if said.has_options else link) for cable, said in cables
    ]
    spare = len(topology.cables)
    topology = _with_first(topology, first)
    topology.cables[spare:] = [replace(cable, link=link) for cable in topology.cables[spare:]]
    return topology


def position_problems(fabric: FabricModel, topology: Topology) -> list[Problem]:
    """Return a problem for each position of something that the fabric does not have."""
    return [
        Problem(("fabric", "positions", name), unknown_name("HFI or switch", name, topology.nodes))
        for name in fabric.positions
        if name not in topology.nodes
    ]


def routing_problems(fabric: FabricModel, topology: Topology) -> list[Problem]:
    """Return why the routing engine does not fit, or why its routes can deadlock where links have credits."""
    graph = topology.switch_graph()
    if not graph.vls and fabric.routing == DEFAULT_ENGINE:
        return []
    try:
        why = refusal(graph, ENGINES[fabric.routing](graph), fabric.routing)
    except FabricError as error:
        return [Problem(("fabric", "routing"), str(error))]
    return [Problem(("fabric", "routing"), why)] if why and fabric.deadlock == REFUSE else []


def port_guids(fabric: FabricModel, hosts: Mapping[str, Host], first: Sequence[str] = ()) -> dict[int, str]:
    """Return the ports of all HFIs, HFI:PORT, by their GUIDs; the arguments are those of `lab_topology`.

    Raises:  FabricError: it cannot be built.
    """
    built = lab_topology(fabric, hosts, first).build(Fabric())
    return {int(port.guid): port.name for port in built.hfi_ports()}


def cut_off(topology: Topology, ports: Iterable[str], root: str) -> dict[str, str]:
    """Return the ports, HFI:PORT, without a path to port 1 of `root`, each with a text that says where it is instead.

    HFIs do not forward packets: one with two ports does not connect the switches that these are cabled to.
    """
    # every `opavnic up` and `validate` comes by here: importing networkx would take longer than all that is asked of it
    neighbors: dict[str, list[str]] = {}
    for cable in topology.cables:
        a, b = (_vertex(topology, *end) for end in (cable.a, cable.b))
        neighbors.setdefault(a, []).append(b)
        neighbors.setdefault(b, []).append(a)
    here, reached = set[str](), [f"{root}:1"]
    while reached:
        vertex = reached.pop()
        if vertex not in here:
            here.add(vertex)
            reached += neighbors[vertex]
    found = {}
    for port in ports:
        if port not in neighbors:
            found[port] = f"no cable is at {port}"
        elif port not in here:
            near, far = (neighbors[end][0] for end in (f"{root}:1", port))
            found[port] = f"it is on {far}, {root} on {near}, and no cables join the two"
    return found


def _vertex(topology: Topology, name: str, port: int) -> str:
    return name if topology.nodes[name].kind is NodeKind.SWITCH else f"{name}:{port}"


def _with_first(topology: Topology, first: Sequence[str]) -> Topology:
    """Attach further HFIs and put them first, so that they get the first LIDs."""
    for name in first:
        topology.attach(name)
    nodes = sorted(topology.nodes.values(), key=lambda node: node.name not in first)
    topology.nodes = {node.name: node for node in nodes}
    return topology
