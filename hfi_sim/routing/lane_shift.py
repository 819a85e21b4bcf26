"""Shortest paths on any graph; one that turns up again after it went down goes on on the next lane.

Channels are ordered as up/down does: those towards the centre, from afar to near, before those away from it, from near
to afar. A path that keeps to this order needs one lane. At each turn from down to up it changes to the next lane, where
it begins anew; so lanes and order together only grow along a path, and no buffers wait in a circle. Multicast trees
begin at the centre and need no turn.

Source: Sancho, Robles, Flich, Lopez, Duato, "Effective Methodology for Deadlock-Free Minimal Routing in InfiniBand
Networks" (ICPP 2002), which changes virtual lanes at the turns that up/down forbids.
Differs: LASH and DFSSSP choose the lane by source and destination. A VNIC sends to all destinations on one service
channel, so the lane has to follow from the ports by which a packet comes and leaves.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.routing.engines import min_hop, ranks_from_centre
from hfi_sim.routing.graph import NextHops, Ports, RouteLanes, Routes, SwitchGraph, Turn, check_lanes

NAME: Final = "lane-shift"
_NEVER: Final = -1 << 30
"""Turns of packets that no path brings."""
_FAIR_COUNT: Final = 4
"""RouteLanes up to which all shortest paths are taken where no channel has credits, and lanes cost nothing."""


def lane_shift(graph: SwitchGraph) -> Routes:
    """Return all shortest paths, or those of them that need the fewest lanes where channels have no more.

    Raises:  FabricError: channels with credits have fewer virtual lanes than that takes.
    """
    ranks = ranks_from_centre(graph)
    place = {at: index for index, at in enumerate(sorted(range(len(ranks)), key=lambda at: (ranks[at], at)))}
    ups = [
        frozenset(port for port, far in arcs.items() if place[far] < place[at])
        for at, arcs in enumerate(graph.arcs)
    ]
    hops = min_hop(graph).hops
    order = [_by_distance(graph, row, destination) for destination, row in enumerate(hops)]
    count = _lanes_of(graph, hops, ups, order)
    if count > (graph.spare_vls() or _FAIR_COUNT):
        hops = [_fewest_turns(graph, row, ups, order[at]) for at, row in enumerate(hops)]
        count = _lanes_of(graph, hops, ups, order)
    check_lanes(NAME, count, graph)
    turns: dict[Turn, tuple[int, ...]] = {}
    following = tuple(min(lane + 1, count - 1) for lane in range(count))
    for at, arcs in enumerate(graph.arcs) if count > 1 else ():
        for port_in, far in arcs.items():
            if place[far] < place[at]:  # what comes from there went down
                turns |= {(at, port_in, port_out): following for port_out in ups[at] if port_out != port_in}
    return Routes(
        hops, lanes=RouteLanes(count, turns=turns), roots=[at for at, rank in enumerate(ranks) if not rank]
    )


def _by_distance(graph: SwitchGraph, row: list[Ports], destination: int) -> list[int]:
    """Return the switches that reach a destination, the nearest first."""
    distance = {destination: 0}
    found = [destination]
    for at in found:
        for far in graph.arcs[at].values():
            if far not in distance and row[far]:
                distance[far] = distance[at] + 1
                found.append(far)
    return found


def _lanes_of(graph: SwitchGraph, hops: NextHops, ups: list[frozenset[int]], order: list[list[int]]) -> int:
    """Return one more than the most turns from down to up on any path from or to a switch with hosts."""
    leaves = frozenset(graph.leaves())
    most = 0
    for destination, row in enumerate(hops):
        is_leaf = destination in leaves
        came_up = [0 if is_leaf or at in leaves else _NEVER for at in range(len(row))]
        came_down = [_NEVER] * len(row)
        for at in reversed(order[destination]):
            for port in row[at]:
                far = graph.arcs[at][port]
                if port in ups[at]:
                    came_up[far] = max(came_up[far], came_up[at], came_down[at] + 1)
                else:
                    came_down[far] = max(came_down[far], came_up[at], came_down[at])
        most = max(most, came_up[destination], came_down[destination])
    return most + 1


def _fewest_turns(
    graph: SwitchGraph, row: list[Ports], ups: list[frozenset[int]], order: list[int]
) -> list[Ports]:
    """Return those of the next hops that lead to the fewest turns, for packets from any port."""
    fewest: dict[int, tuple[int, int]] = {}
    chosen: list[Ports] = [()] * len(row)
    for at in order:
        cost = {}
        for port in row[at]:
            of_up, of_down = fewest[graph.arcs[at][port]]
            cost[port] = (of_up + 1, of_up) if port in ups[at] else (of_down, of_down)
        best = min(cost.values(), default=(0, 0))
        chosen[at] = tuple(port for port in row[at] if cost[port] == best)
        fewest[at] = best[1], best[0]
    return chosen
