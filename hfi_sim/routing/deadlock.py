"""Can lossless buffers wait for each other in a circle? The channel dependency graph says.

A channel is one direction of a cable between switches. It depends on the next channel of any route that uses both;
with credits, a cycle of such dependencies can stop the fabric for good.

Source: Dally and Seitz, the condition for deadlock-free routing: no cycle among channels.
"""

from __future__ import annotations

from hfi_sim.routing.engines import Routes
from hfi_sim.routing.graph import SwitchGraph, bits

Channel = tuple[int, int]
"""Switch and the port by which it sends."""


def find_cycle(graph: SwitchGraph, routes: Routes) -> list[str]:
    """Return the channels of one cycle, as `sw0:3`, or an empty list where the routes are free of deadlock.

    Only what hosts can send to hosts counts.
    """
    return [
        f"{graph.names[switch]}:{port_num}"
        for switch, port_num in _cycle(_dependencies(graph, routes), graph)
    ]


def _dependencies(graph: SwitchGraph, routes: Routes) -> dict[Channel, int]:
    """Return for each channel the ports, as a mask, that its packets leave the next switch by."""
    leaves = graph.leaves()
    found: dict[Channel, int] = {}
    for destination in leaves:
        row = routes.hops[destination]
        masks: dict[int, int] = {}
        waiting = [leaf for leaf in leaves if leaf != destination]
        seen = set(waiting)
        while waiting:
            switch = waiting.pop()
            for port_num in row[switch]:
                far = graph.arcs[switch][port_num]
                if far == destination:
                    found.setdefault((switch, port_num), 0)
                    continue
                if far not in masks:
                    masks[far] = sum(1 << out for out in row[far])
                found[switch, port_num] = found.get((switch, port_num), 0) | masks[far]
                if far not in seen:
                    seen.add(far)
                    waiting.append(far)
    return found


def _cycle(dependencies: dict[Channel, int], graph: SwitchGraph) -> list[Channel]:
    """Return one cycle, by depth-first search without recursion."""
    done: set[Channel] = set()
    for start in dependencies:
        if start in done:
            continue
        path: list[Channel] = [start]
        on_path = {start}
        iterators = [bits(dependencies[start])]
        while path:
            switch, port_num = path[-1]
            following = next(iterators[-1], None)
            if following is None:
                iterators.pop()
                done.add(path[-1])
                on_path.discard(path.pop())
                continue
            channel = (graph.arcs[switch][port_num], following)
            if channel in on_path:
                return path[path.index(channel) :]
            if channel not in done:
                path.append(channel)
                on_path.add(channel)
                iterators.append(bits(dependencies.get(channel, 0)))
    return []
