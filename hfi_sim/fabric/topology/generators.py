"""Regular topologies by their numbers: single switch, fat tree, Clos, dragonfly, mesh, torus, hypercube.

Each puts the HFIs of its hosts, in their order, on the places that the shape offers; hosts are a number (h1, h2,
...), names, or the HFIs themselves, as nodes of their hosts and with their ports.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, Final, cast

from hfi_sim.base.entry_points import JoinedRows, owner_of
from hfi_sim.base.errors import TopologyError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.topology.model import End, Node, Topology

_SWITCH_PORTS: Final = 48
MAX_PARTS: Final = 1 << 18
"""Nodes and cables of a generated topology. More is a slip of the keyboard, and would fill the memory."""
_MAX_DIGITS: Final = 9
_MAX_DIMENSIONS: Final = 64

Hosts = int | Sequence[str | Node]


def _attachments(topology: Topology, hosts: Hosts) -> list[End]:
    """Add the HFIs of all hosts and return their ports, in order."""
    if isinstance(hosts, int):
        hosts = [f"h{number}" for number in range(1, hosts + 1)]
    ends: list[End] = []
    for hfi in hosts:
        node = topology.hfi(hfi) if isinstance(hfi, str) else topology.add(hfi)
        ends += [(node.name, number) for number in range(1, node.ports + 1)]
    return ends


def attach(topology: Topology, hosts: Hosts, places: Sequence[str]) -> None:
    """Add the HFIs of all hosts, and cable every port to the switch at its place.

    Raises:  TopologyError: more ports than places.
    """
    ends = _attachments(topology, hosts)
    if len(ends) > len(places):
        raise TopologyError(
            f"{topology.name} has room for {len(places)} HFI ports, the hosts have {len(ends)}"
        )
    for end, switch in zip(ends, places, strict=False):
        topology.cable(end, topology.free_port(switch))


def _check_size(name: str, parts: int) -> None:
    """Refuse a shape with too many nodes and cables, before it is built."""
    if parts > MAX_PARTS:
        raise TopologyError(f"{name}: {parts} nodes and cables; the most is {MAX_PARTS}")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise TopologyError(f"{name} is {value}; the least is {least}")


def single_switch(hosts: Hosts = 2) -> Topology:
    """Every HFI port on one switch, sw0."""
    _check_size("single switch", 2 * (hosts if isinstance(hosts, int) else len(hosts)))
    topology = Topology("single switch")
    ends = _attachments(topology, hosts)
    topology.switch("sw0", ports=max(len(ends), _SWITCH_PORTS))
    for end in ends:
        topology.cable(end, topology.free_port("sw0"))
    return topology


def fat_tree(k: int = 4, *, hosts: Hosts | None = None, pods: int | None = None) -> Topology:
    """A three-level fat tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.

    Args:    hosts: as many as fit unless given (k^3/4 with all pods); pods: k unless given.
    Raises:  TopologyError: k odd or below 2, more than k pods, too many hosts.
    """
    if k < 2 or k % 2:
        raise TopologyError(f"fat tree: k is {k}; it is an even number, 2 or more")
    pods = k if pods is None else pods
    if not 1 <= pods <= k:
        raise TopologyError(f"fat tree k={k}: {pods} pods; it has 1 to {k}")
    half = k // 2
    _check_size(f"fat tree k={k}", half * half + pods * (k + 4 * half * half))
    topology = Topology(f"fat tree k={k}")
    cores = [topology.switch(f"core{n}", ports=k).name for n in range(half * half)]
    places: list[str] = []
    for pod in range(pods):
        edges = [topology.switch(f"edge{pod}-{n}", ports=k).name for n in range(half)]
        aggregates = [topology.switch(f"agg{pod}-{n}", ports=k).name for n in range(half)]
        for edge, (number, aggregate) in itertools.product(edges, enumerate(aggregates, 1)):
            topology.cable((edge, half + number), topology.free_port(aggregate))
        for number, aggregate in enumerate(aggregates):
            for core in cores[number * half : (number + 1) * half]:
                topology.cable(topology.free_port(aggregate), topology.free_port(core))
        places += [edge for edge in edges for _ in range(half)]
    attach(topology, len(places) if hosts is None else hosts, places)
    return topology


def clos(
    leaves: int = 2, spines: int = 2, *, hosts_per_leaf: int = 2, uplinks: int = 1, hosts: Hosts | None = None
) -> Topology:
    """A two-level Clos: every leaf has `uplinks` cables to every spine.

    Raises:  TopologyError: a number below 1, too many hosts.
    """
    for name, value in (("leaves", leaves), ("spines", spines), ("uplinks", uplinks)):
        _at_least(f"clos: {name}", value, 1)
    _at_least("clos: hosts_per_leaf", hosts_per_leaf, 0)
    _check_size(f"clos {leaves}x{spines}", spines + leaves * (1 + spines * uplinks + 2 * hosts_per_leaf))
    topology = Topology(f"clos {leaves}x{spines}")
    spine_names = [topology.switch(f"spine{n}", ports=leaves * uplinks).name for n in range(spines)]
    leaf_names = [
        topology.switch(f"leaf{n}", ports=hosts_per_leaf + spines * uplinks).name for n in range(leaves)
    ]
    places = [leaf for leaf in leaf_names for _ in range(hosts_per_leaf)]
    attach(topology, len(places) if hosts is None else hosts, places)
    for leaf, spine in itertools.product(leaf_names, spine_names):
        for _ in range(uplinks):
            topology.join(leaf, spine)
    return topology


def dragonfly(
    routers: int = 4,
    *,
    hosts_per_router: int = 2,
    global_links: int = 1,
    groups: int | None = None,
    hosts: Hosts | None = None,
) -> Topology:
    """A dragonfly: full mesh inside each group of `routers`, one cable between every two groups.

    Args:    global_links: cables to other groups that each router has; groups: routers * global_links + 1 unless given.
    Raises:  TopologyError: a number below 1, or more groups than the global links can join.
    """
    for name, value in (("routers", routers), ("global_links", global_links)):
        _at_least(f"dragonfly: {name}", value, 1)
    most = routers * global_links + 1
    groups = most if groups is None else groups
    if not 1 <= groups <= most:
        raise TopologyError(
            f"dragonfly: {groups} groups; {routers} routers with {global_links} global links join 1 to {most}"
        )
    _at_least("dragonfly: hosts_per_router", hosts_per_router, 0)
    name = f"dragonfly a={routers} h={global_links} g={groups}"
    _check_size(name, groups * (routers * (1 + routers // 2 + 2 * hosts_per_router) + groups // 2))
    topology = Topology(name)
    ports = hosts_per_router + routers - 1 + global_links
    names = [
        [topology.switch(f"g{group}r{router}", ports=ports).name for router in range(routers)]
        for group in range(groups)
    ]
    places = [router for group in names for router in group for _ in range(hosts_per_router)]
    attach(topology, len(places) if hosts is None else hosts, places)
    for group in names:
        for a, b in itertools.combinations(group, 2):
            topology.join(a, b)
    for low, high in itertools.combinations(range(groups), 2):
        slot_low, slot_high = (high - low - 1) // global_links, (groups - 1 - (high - low)) // global_links
        topology.join(names[low][slot_low], names[high][slot_high])
    return topology


def mesh(dims: Sequence[int] = (3, 3), *, hosts_per_switch: int = 1, hosts: Hosts | None = None) -> Topology:
    """A mesh of any dimension: each switch has a cable to its neighbour along each axis."""
    return _grid("mesh", dims, hosts_per_switch, hosts, wrap=False)


def torus(dims: Sequence[int] = (3, 3), *, hosts_per_switch: int = 1, hosts: Hosts | None = None) -> Topology:
    """A mesh whose ends are joined."""
    return _grid("torus", dims, hosts_per_switch, hosts, wrap=True)


def hypercube(dimensions: int = 3, *, hosts_per_switch: int = 1, hosts: Hosts | None = None) -> Topology:
    """A mesh of two switches along each axis."""
    _at_least("hypercube: dimensions", dimensions, 1)
    _check_size(f"hypercube {dimensions}", 1 << min(dimensions, _MAX_DIMENSIONS))
    return _grid("hypercube", (2,) * dimensions, hosts_per_switch, hosts, wrap=False)


def _grid(
    name: str, dims: Sequence[int], hosts_per_switch: int, hosts: Hosts | None, *, wrap: bool
) -> Topology:
    if not dims:
        raise TopologyError(f"{name}: no dimensions; say for example 3x3")
    for size in dims:
        _at_least(f"{name}: a dimension", size, 1)
    _at_least(f"{name}: hosts_per_switch", hosts_per_switch, 0)
    _check_size(name, math.prod(dims) * (1 + len(dims) + 2 * hosts_per_switch))
    topology = Topology(f"{name} {'x'.join(map(str, dims))}")
    ports = hosts_per_switch + 2 * len(dims)

    def switch_at(at: Sequence[int]) -> str:
        return "sw" + "-".join(map(str, at))

    positions = list(itertools.product(*(range(size) for size in dims)))
    for at in positions:
        topology.switch(switch_at(at), ports=ports)
    places = [switch_at(at) for at in positions for _ in range(hosts_per_switch)]
    attach(topology, len(places) if hosts is None else hosts, places)
    for at, axis in itertools.product(positions, range(len(dims))):
        size = dims[axis]
        if at[axis] + 1 < size or (wrap and size > 2):
            far = (*at[:axis], (at[axis] + 1) % size, *at[axis + 1 :])
            topology.join(switch_at(at), switch_at(far))
    return topology


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of topology that is generated from numbers."""

    build: Callable[..., Topology]
    options: Mapping[str, str] = field(default_factory=dict)
    """Its numbers, and what they are of; `dims` is text such as 3x3."""
    grows: bool = False
    """It has room for any number of HFI ports."""


_GRID: Final = {
    "dims": "switches along each axis: 4x4",
    "hosts_per_switch": "places for HFI ports on each switch",
}
_OWN: Final = {
    "single-switch": Shape(single_switch, grows=True),
    "fat-tree": Shape(fat_tree, {"k": "ports of each switch", "pods": "pods, k at most"}),
    "clos": Shape(
        clos,
        {
            "leaves": "leaf switches",
            "spines": "spine switches",
            "hosts_per_leaf": "places for HFI ports on each leaf",
            "uplinks": "cables from each leaf to each spine",
        },
    ),
    "dragonfly": Shape(
        dragonfly,
        {
            "routers": "switches of each group",
            "hosts_per_router": "places for HFI ports on each switch",
            "global_links": "cables from each switch to other groups",
            "groups": "groups of switches",
        },
    ),
    "mesh": Shape(mesh, _GRID),
    "torus": Shape(torus, _GRID),
    "hypercube": Shape(
        hypercube,
        {
            "dimensions": "axes, of two switches each",
            "hosts_per_switch": _GRID["hosts_per_switch"],
        },
    ),
}
GROUP: Final = "opavnic.topologies"


def _load(point: EntryPoint) -> Shape:
    """Return a shape of another package; one that cannot be loaded says so when it is asked for."""
    whose = f"topology {point.name} of {owner_of(point)}"
    try:
        found = point.load()
        why = "" if isinstance(found, Shape) else f"{point.value} is not a Shape"
    except Exception as error:
        why = f"cannot be loaded: {type(error).__name__}: {error}"
    if not why:
        return cast("Shape", found)

    def refuse(**_options: object) -> Topology:
        raise TopologyError(f"{whose}: {why}")

    return Shape(refuse)


SHAPES: Final = JoinedRows(_OWN, GROUP, _load)
"""Kinds of topologies by the name that lab files and the command line use.

Those of other packages are entry points of the group `opavnic.topologies`: the name is the kind, the object a `Shape`.
"""
DEFAULT_SHAPE: Final = "single-switch"


def generate(kind: str, *, hosts: Hosts | None = None, **options: Any) -> Topology:
    """Make a topology by the name of its generator, for example `generate("fat-tree", k=4)`.

    Args:    hosts: as many as the shape has room for unless given; options: numbers, `dims` also as "3x3".
    Raises:  TopologyError: an unknown kind or option, or numbers that do not fit together.
    """
    if not isinstance(kind, str) or kind not in SHAPES:
        raise TopologyError(unknown_name("topology", str(kind), SHAPES))
    shape = SHAPES[kind]
    for name in options:
        if name not in shape.options:
            raise TopologyError(f"topology {kind}: {unknown_name('option', name, shape.options)}")
    if isinstance(options.get("dims"), str):
        options["dims"] = _parse_dims(options["dims"])
    for name, value in options.items():
        numbers = value if name == "dims" and isinstance(value, tuple | list) else [value]
        if not all(type(number) is int for number in numbers):
            wanted = "whole numbers, such as 3x3" if name == "dims" else "a whole number"
            raise TopologyError(f"topology {kind}: {name} is {value!r}; it is {wanted}")
    if hosts is not None:
        if (type(hosts) is not int and not isinstance(hosts, Sequence)) or isinstance(hosts, str):
            raise TopologyError(
                f"topology {kind}: hosts is {hosts!r}; it is a whole number or a list of names"
            )
        if isinstance(hosts, int):
            _at_least(f"topology {kind}: hosts", hosts, 0)
        options["hosts"] = hosts
    return shape.build(**options)


def _parse_dims(text: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(part.isdecimal() and len(part) <= _MAX_DIGITS for part in parts):
        raise TopologyError(f'dims "{text[:60]}" are not numbers joined by x such as 3x3')
    return tuple(map(int, parts))


def fat_tree_for(hosts: int) -> Topology:
    """Return the smallest fat tree with room for `hosts`, with no more pods than they need."""
    k = 2 * math.ceil((hosts * 2) ** (1 / 3) / 2 - 1e-9)
    while k**3 // 4 < hosts:
        k += 2
    return fat_tree(k, pods=math.ceil(hosts / (k * k // 4)), hosts=hosts)
