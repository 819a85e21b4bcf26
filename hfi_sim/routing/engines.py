"""Routing engines of one lane: from every switch, the ports that lead to each other switch.

- min_hop: shortest paths, all of them. Free of deadlock only where the shape is (trees, meshes with luck).
- up_down: no path goes up again once it went down, so buffers cannot wait for each other in a circle.
- fat_tree: up_down on a fat tree, with the upward port chosen by the destination's number, digit by digit, so that
  all-to-all traffic spreads evenly over all cables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from hfi_sim.base.errors import FabricError
from hfi_sim.routing.graph import Ports, Routes, SwitchGraph, bits, mask_of

_PortChoice = Callable[[int, int], Ports]
"""Returns the ports of a switch to the switches in a mask, in order."""


def _port_choice(graph: SwitchGraph) -> _PortChoice:
    """Return what works out each choice once."""

    @functools.cache
    def ports(switch: int, neighbours: int) -> Ports:
        return tuple(sorted(port for port, far in graph.arcs[switch].items() if neighbours >> far & 1))

    return ports


def min_hop(graph: SwitchGraph) -> Routes:
    """Return all shortest paths between all switches."""
    adjacency = graph.adjacency()
    choice = _port_choice(graph)
    return Routes(
        [_towards(destination, adjacency, adjacency, choice) for destination in range(len(adjacency))]
    )


def _towards(destination: int, back: list[int], forth: list[int], choice: _PortChoice) -> list[Ports]:
    """Return the next hops to `destination` of all switches, by breadth-first search from it.

    Args:  back: predecessors of a switch; forth: its successors.
    """
    hops: list[Ports] = [()] * len(back)
    level = seen = 1 << destination
    while level:
        before = 0
        for switch in bits(level):
            before |= back[switch]
        before &= ~seen
        for switch in bits(before):
            hops[switch] = choice(switch, forth[switch] & level)
        seen |= before
        level = before
    return hops


# --- up/down -----------------------------------------------------------------------------------------------


def up_down(graph: SwitchGraph) -> Routes:
    """Return paths that go up, then down, and never up again. Up is towards the roots.

    The roots are the top of a fat tree, or else the switch from which all others are nearest. Multicast trees begin at
    a root, so that their paths go up and down as well.
    """
    levels = graph.levels()
    if levels is not None and len(levels) > 1:
        top = max(levels)
        ranks = [top - level for level in levels]
        routes = _up_down(graph, ranks)
        roots = _common_tops(graph, ranks)
        if roots is not None and _all_leaves_reach_each_other(graph, routes):
            return Routes(routes.hops, roots=roots)
        # a broken tree may need a path that dives below its top and comes back: rank it from one root instead
    ranks = ranks_from_centre(graph)
    return Routes(_up_down(graph, ranks).hops, roots=[at for at, rank in enumerate(ranks) if not rank])


def _common_tops(graph: SwitchGraph, ranks: list[int]) -> list[int] | None:
    """Return, for each part of the fabric, a switch from which paths down lead to all hosts; None: a part has none."""
    downs = [
        mask_of(far for far in arcs.values() if ranks[far] > ranks[at]) for at, arcs in enumerate(graph.arcs)
    ]
    adjacency = graph.adjacency()
    leaves = mask_of(graph.leaves())
    order = sorted(range(len(ranks)), key=lambda switch: (ranks[switch], switch))
    tops: list[int] = []
    covered = 0
    for start in order:
        if covered >> start & 1:
            continue
        part = _reach(start, adjacency)
        covered |= part
        candidates = (switch for switch in order if part >> switch & 1)
        top = next((switch for switch in candidates if not leaves & part & ~_reach(switch, downs)), None)
        if top is None:
            return None
        tops.append(top)
    return tops


def _reach(start: int, onward: list[int]) -> int:
    """Return the switches that are reached from one, itself included, as a mask."""
    level = seen = 1 << start
    while level:
        following = 0
        for switch in bits(level):
            following |= onward[switch]
        level = following & ~seen
        seen |= level
    return seen


def _up_down(graph: SwitchGraph, ranks: list[int]) -> Routes:
    order = sorted(range(len(ranks)), key=lambda switch: (ranks[switch], switch))
    place = {switch: index for index, switch in enumerate(order)}
    ups = [
        mask_of(far for far in arcs.values() if place[far] < place[switch])
        for switch, arcs in enumerate(graph.arcs)
    ]
    downs = [mask & ~up for mask, up in zip(graph.adjacency(), ups, strict=True)]
    up_lists = [list(bits(mask)) for mask in ups]
    choice = _port_choice(graph)
    hops = []
    for destination in range(len(ranks)):
        row = _towards(destination, ups, downs, choice)
        distance = _distances(row, destination, graph, order)
        for switch in order:
            if distance[switch] is not None:
                continue
            nearest = min((d for far in up_lists[switch] if (d := distance[far]) is not None), default=None)
            if nearest is not None:
                distance[switch] = nearest + 1
                best = mask_of(far for far in up_lists[switch] if distance[far] == nearest)
                row[switch] = choice(switch, best)
        hops.append(row)
    return Routes(hops)


def _distances(row: list[Ports], destination: int, graph: SwitchGraph, order: list[int]) -> list[int | None]:
    """Return the number of hops along the downward paths in `row`; None where there is none."""
    distance: list[int | None] = [None] * len(row)
    distance[destination] = 0
    for switch in reversed(order):
        if row[switch]:
            below = distance[graph.arcs[switch][row[switch][0]]]
            distance[switch] = None if below is None else below + 1
    return distance


def _all_leaves_reach_each_other(graph: SwitchGraph, routes: Routes) -> bool:
    leaves = graph.leaves()
    return all(
        routes.hops[destination][switch] or destination == switch
        for destination in leaves
        for switch in leaves
    )


def ranks_from_centre(graph: SwitchGraph) -> list[int]:
    """Return the distance of each switch from the one with the smallest greatest distance, part by part."""
    adjacency = graph.adjacency()
    ranks: dict[int, int] = {}
    for start in range(len(adjacency)):
        if start in ranks:
            continue
        part = _ranks_from(start, adjacency)
        candidates = [_ranks_from(root, adjacency) for root in part]
        depths = [max(found.values()) for found in candidates]
        ranks.update(candidates[depths.index(min(depths))])
    return [ranks[switch] for switch in range(len(adjacency))]


def _ranks_from(root: int, adjacency: list[int]) -> dict[int, int]:
    ranks = {root: 0}
    level = seen = 1 << root
    at = 0
    while level:
        following = 0
        for switch in bits(level):
            following |= adjacency[switch]
        level = following & ~seen
        seen |= level
        at += 1
        ranks.update(dict.fromkeys(bits(level), at))
    return ranks


# --- fat tree ----------------------------------------------------------------------------------------------


def fat_tree(graph: SwitchGraph) -> Routes:
    """Return up/down paths on a fat tree, with divisors that spread destinations digit by digit.

    Raises:  FabricError: the fabric is not a fat tree: a cable joins switches that are not one level apart.
    """
    levels = graph.levels()
    if levels is None:
        raise FabricError(
            "routing engine fat-tree: the fabric is not a fat tree: hosts must sit at the lowest switches only, and "
            "every cable must join neighbouring levels; try up-down"
        )
    width = [1] * (max(levels, default=0) + 1)
    for switch, arcs in enumerate(graph.arcs):
        ups = sum(1 for far in arcs.values() if levels[far] > levels[switch])
        width[levels[switch]] = max(width[levels[switch]], ups)
    divisors = [1]
    for count in width:
        divisors.append(divisors[-1] * count)
    ways = up_down(graph)
    return Routes(ways.hops, [divisors[level] for level in levels], roots=ways.roots)
