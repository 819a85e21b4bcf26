"""Ways that a program gives switches in place of those of the routing engine: single entries of forwarding tables."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hfi_sim.base.errors import FabricError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.routing import LinearTable, Routes, SwitchGraph

Steering = Mapping[str, Mapping[int, int]]
"""By the name of a switch, the port for each LID."""


def steered(graph: SwitchGraph, tables: Sequence[LinearTable], steering: Steering) -> list[LinearTable]:
    """Return tables with other entries, where the ports lead somewhere now."""
    found = list(tables)
    for at, name in enumerate(graph.names):
        ways = steering.get(name)
        if not ways:
            continue
        live = graph.arcs[at].keys() | {port for _, port in graph.lids[at]}
        entries = array("H", found[at].entries)
        for lid, port in ways.items():
            if port in live and lid < len(entries) and entries[lid]:
                entries[lid] = port
        found[at] = LinearTable(entries, found[at].groups)
    return found


def check_steering(fabric: Fabric, graph: SwitchGraph, steering: Steering) -> None:
    """Refuse entries for what is not there.

    Raises:  FabricError.
    """
    known = {lid for entries in graph.lids for lid, _ in entries}
    for name, ways in steering.items():
        switch = fabric.switches.get(name)
        if switch is None:
            raise FabricError(unknown_name("switch", name, fabric.switches))
        for lid, port in ways.items():
            if port not in switch.ports:
                raise FabricError(f"switch {name} has no port {port}; its ports are 1 to {len(switch.ports)}")
            if lid not in known:
                raise FabricError(f"switch {name}: no port of the fabric has the LID {lid:#x}")


def routes_of(graph: SwitchGraph, tables: Sequence[LinearTable], before: Routes) -> Routes:
    """Return the routes that tables are, with the lanes and trees that were there before.

    Raises:  FabricError: packets to a LID would go round in a circle, or end at a port where it is not.
    """
    hops = []
    for destination, entries in enumerate(graph.lids):
        rows = [_row(graph, tables, destination, lid, own) for lid, own in entries]
        hops.append(
            [tuple(sorted({port for row in rows for port in row[at]})) for at in range(len(graph.names))]
        )
    return replace(before, hops=hops, divisors=None)


def _row(
    graph: SwitchGraph, tables: Sequence[LinearTable], destination: int, lid: int, own: int
) -> list[tuple[int, ...]]:
    """Return the ports of every switch to a LID, which is at port `own` of its destination."""
    row: list[tuple[int, ...]] = []
    for at, name in enumerate(graph.names):
        ways = tables[at].next_hops(lid)
        if at == destination:
            if own and ways != (own,):
                raise FabricError(f"switch {name}: LID {lid:#x} is at its port {own}, not at {ways}")
            ways = ()
        if strange := set(ways) - graph.arcs[at].keys():
            raise FabricError(f"switch {name}: LID {lid:#x} is not behind port {min(strange)}")
        row.append(ways)
    _check_arrives(graph, row, destination, lid)
    return row


def _check_arrives(graph: SwitchGraph, row: list[tuple[int, ...]], destination: int, lid: int) -> None:
    """Refuse ways of which some choice never ends."""
    arrives = {destination}
    while new := {
        at
        for at, ports in enumerate(row)
        if at not in arrives and ports and all(graph.arcs[at][port] in arrives for port in ports)
    }:
        arrives |= new
    if circling := [graph.names[at] for at, ports in enumerate(row) if ports and at not in arrives]:
        raise FabricError(f"packets to LID {lid:#x} would go round in a circle by {', '.join(circling)}")
