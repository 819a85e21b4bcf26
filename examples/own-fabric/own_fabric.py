"""A routing engine, a shape and a fault of your own; pyproject.toml says under which names lab files have them."""

from __future__ import annotations

from collections.abc import Callable

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import FaultTarget, OwnKind
from hfi_sim.fabric.topology import Hosts, Shape, Topology, attach
from hfi_sim.routing import Routes, SwitchGraph, min_hop


def lowest_port(graph: SwitchGraph) -> Routes:
    """Of all shortest paths, take those by the lowest port."""
    return Routes([[ports[:1] for ports in row] for row in min_hop(graph).hops])


def ring(size: int = 4, *, hosts: Hosts = 4) -> Topology:
    """Switches in a ring, hosts on them in turn."""
    topology = Topology(f"ring of {size}")
    names = [topology.switch(f"sw{number}").name for number in range(size)]
    for name, after in zip(names, [*names[1:], names[0]], strict=True):
        topology.join(name, after)
    attach(topology, hosts, names * 20)
    return topology


RING = Shape(ring, {"size": "switches of the ring"})


def brown_out(fabric: Fabric, place: str, by: str) -> Callable[[], None]:
    """Slow all cables of a switch down to a tenth of what is planned; return what ends that."""
    links = [port.link for port in fabric.switches[place].ports.values() if port.link is not None]
    for link in links:
        link.limit_rate(link.directions, by, link.planned_bps / 10)

    def end() -> None:
        for link in links:
            link.limit_rate(link.directions, by, None)

    return end


BROWN_OUT = OwnKind("brown-out", brown_out, FaultTarget.SWITCH, lasts_s=5.0)
