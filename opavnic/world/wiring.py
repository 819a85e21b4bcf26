"""Cables of a world that come and go while it runs."""

from __future__ import annotations

from collections.abc import Iterable

from hfi_sim.base.errors import FabricError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.topology import Cable
from hfi_sim.fabric.topology.model import End, end_text
from hfi_sim.nodes.cable import Link, LinkPort
from opavnic.world.world import World


def port_at(world: World, end: End) -> LinkPort:
    """Return a port. Raises FabricError: there is none; a switch grows where it has too few."""
    name, number = end
    fabric = world.fabric
    if name in fabric.switches and number not in fabric.switches[name].ports:
        fabric.switches[name].grow(number)
    node = fabric.hfis.get(name) or fabric.switches.get(name)
    if node is None:
        raise FabricError(unknown_name("node", name, [*fabric.hfis, *fabric.switches]))
    if number not in node.ports:
        raise FabricError(f"{name} has no port {number}, its ports are 1 to {len(node.ports)}")
    return node.ports[number]


def link_at(world: World, ends: Iterable[End]) -> Link:
    """Return the cable between two ports. Raises FabricError: there is none."""
    near, far = (end_text(end) for end in ends)
    for link in world.fabric.links:
        if {port.name for port in link.ends} == {near, far}:
            return link
    raise FabricError(unknown_name("link", f"{near}--{far}", [link.name for link in world.fabric.links]))


def lay(world: World, cables: Iterable[Cable]) -> list[Link]:
    """Lay cables; faults of places that they belong to act on them. Raises FabricError: a port has a cable."""
    with world.fabric.together():
        links = [
            world.fabric.connect(port_at(world, cable.a), port_at(world, cable.b), cable.link)
            for cable in cables
        ]
    world.faults.extend()
    return links


def take_away(world: World, cables: Iterable[Cable], switches: Iterable[str] = ()) -> list[str]:
    """Take cables and switches away that are still there; return the faults that ended with them."""
    fabric = world.fabric
    there = {frozenset(port.name for port in link.ends): link for link in fabric.links}
    wanted = (frozenset(map(end_text, (cable.a, cable.b))) for cable in cables)
    links = [there[ends] for ends in wanted if ends in there]
    nodes = [name for name in switches if name in fabric.switches]
    of_nodes = (port.link for name in nodes for port in fabric.switches[name].ports.values())
    every = list(dict.fromkeys([*links, *(link for link in of_nodes if link is not None)]))
    ended = world.faults.leave(nodes, every)
    for name in nodes:
        world.forget_switch(name)
    with fabric.together():
        fabric.disconnect(links)
        fabric.remove_nodes(nodes)
    return ended
