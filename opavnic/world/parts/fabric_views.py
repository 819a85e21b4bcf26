"""What the control API says of a fabric, as plain data: faults, topology, routes, lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.base.errors import InputError
from hfi_sim.fabric.faults.targets import directions_of
from hfi_sim.fabric.table_paths import deadlock, hops, paths
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.ibnet import dumps
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from opavnic.world.world import World

MAX_WAYS: Final = 512
"""Directions whose lanes one reply holds: a view must not delay the fabric for long."""


def faults(world: World, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the faults that are set, and the seed."""
    return {"seed": world.fabric.seed, "faults": world.faults.show()}


def topology(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the fabric as ibnetdiscover text, links that are down, the routing engine, a possible deadlock, LIDs."""
    fabric, engine = world.fabric, "of the fabric manager"
    if world.managed_by == "builtin":
        engine, cycle = world.subnet_manager.routing.engine, world.subnet_manager.deadlock()
    else:
        cycle = deadlock(fabric)
    name = query.get("name", world.topology.name)
    return {
        "ibnetdiscover": dumps(Topology.of_fabric(fabric, name)),
        "down": [link.name for link in fabric.links if not link.up],
        "engine": engine,
        "deadlock": cycle,
        "lids": {port.name: port.lid for port in fabric.hfi_ports()},
    }


def routes(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the ways from one host to another that the tables of the switches say, and the lanes of each link."""
    fabric = world.fabric
    a, b = (_port(fabric.hfi_ports(), query.get(key, "")) for key in ("from", "to"))
    return {
        "from": a.name,
        "to": b.name,
        "lid": b.lid,
        "paths": paths(fabric, a, b),
        "hops": [[direction_status(hop) for hop in way] for way in hops(fabric, a, b)],
    }


def lanes(world: World, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what each virtual lane of links has carried, and holds now."""
    ways = directions_of(world.fabric, query.get("on", ""))
    if len(ways) > MAX_WAYS:
        raise InputError(f"{len(ways)} directions of links match; one reply holds at most {MAX_WAYS}")
    return {"directions": [direction_status(way) for way in ways]}


VIEWS: Final[Mapping[str, Callable[[World, Mapping[str, str]], dict[str, Any]]]] = {
    "faults": faults,
    "topology": topology,
    "routes": routes,
    "lanes": lanes,
}


def direction_status(way: LinkDirection) -> dict[str, Any]:
    """Return one direction of a link with its virtual lanes: counters so far, and on a link with credits what is held.

    `credits`, `waiting` and `occupied` are bytes, None on a link without credits.
    """
    lanes = way.lanes
    return {
        "name": way.name,
        "up": way.link.up,
        "rate_bps": way.link.rate_bps,
        "queue_bytes": way.link.queue_bytes,
        "vls": [
            {
                "vl": vl,
                **asdict(counted),
                "credits": None if lanes is None else lanes.credits[vl],
                "waiting": None if lanes is None else lanes.waiting[vl],
                "occupied": None if lanes is None else lanes.occupied[vl],
            }
            for vl, counted in enumerate(way.vl_counters())
            if lanes is None or vl < len(lanes.credits)
        ],
    }


def _port(known: Any, name: str) -> HfiPort:
    ports: dict[str, HfiPort] = {port.name: port for port in known}
    port = ports.get(name) or ports.get(f"{name}:1")
    if port is None:
        raise InputError(unknown_name("HFI port", name, ports))
    return port
