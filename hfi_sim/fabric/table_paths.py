"""Paths between ports and possible deadlocks, from the forwarding tables that are in the switches now."""

from __future__ import annotations

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import LinkDirection, LinkPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.routing import Routes, SwitchGraph, find_cycle


def paths(fabric: Fabric, source: HfiPort, target: HfiPort) -> list[list[str]]:
    """Return the way from `source` to each LID of `target`, as the nodes and ports that a packet passes.

    Where a switch has a choice, the step lists its ports: `leaf0:3|4`, and the path goes on by the first.
    """
    return [_walk(fabric, source, lid)[0] for lid in _lids(target)]


def hops(fabric: Fabric, source: HfiPort, target: HfiPort) -> list[list[LinkDirection]]:
    """Return the directions of links that a packet takes on each way that `paths` returns, in the same order."""
    return [_walk(fabric, source, lid)[1] for lid in _lids(target)]


def _lids(target: HfiPort) -> range:
    return range(target.lid, target.lid + (1 << target.lmc))


def _walk(fabric: Fabric, source: HfiPort, lid: int) -> tuple[list[str], list[LinkDirection]]:
    steps, ways = [source.name], list[LinkDirection]()
    at: LinkPort = source
    for _ in range(len(fabric.switches) + 1):
        if at.link is None or not at.link.up:
            return [*steps, "link down"], ways
        ways.append(at.link.direction_from(at))
        far = at.link.far_end(at)
        if not isinstance(far, SwitchPort):
            return [*steps, far.name], ways
        ports = far.switch.lft.next_hops(lid)
        if not ports or ports[0] not in far.switch.ports:
            return [*steps, f"{far.switch.name}: no route"], ways
        steps.append(f"{far.switch.name}:{'|'.join(map(str, ports))}")
        at = far.switch.ports[ports[0]]
    return [*steps, "loop"], ways


def cycle(fabric: Fabric) -> list[str]:
    """Return a cycle of channels that wait for each other, as `sw0:3`; empty: the routes are free of deadlock."""
    graph = SwitchGraph()
    index = {switch.name: graph.add(switch.name) for switch in fabric.switches.values()}
    for switch in fabric.switches.values():
        for own, far in fabric.neighbours(switch):
            if isinstance(far, HfiPort):
                lids = range(far.lid, far.lid + (1 << far.lmc))
                graph.attach(index[switch.name], own.port_num, lids)
            elif isinstance(far, SwitchPort):
                graph.connect(index[switch.name], own.port_num, index[far.switch.name], far.port_num)
    switches = list(fabric.switches.values())
    hops = []
    for entries in graph.lids:
        row = []
        for at, switch in enumerate(switches):
            ports = {port for lid, _ in entries for port in switch.lft.next_hops(lid)}
            row.append(tuple(sorted(ports & graph.arcs[at].keys())))
        hops.append(row)
    return find_cycle(graph, Routes(hops))
