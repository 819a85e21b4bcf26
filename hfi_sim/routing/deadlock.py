"""Can lossless buffers wait for each other in a circle? The channel dependency graph says.

A channel is one direction of a cable between switches, on one of its virtual lanes. It depends on the next channel of
any way that uses both, of one receiver or of a multicast tree; with credits, a cycle of such dependencies can stop the
fabric for good.

Source: Dally and Seitz, the condition for deadlock-free routing: no cycle among channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfi_sim.routing.graph import Channel, Routes, SwitchGraph, bits, mask_of
from hfi_sim.routing.multicast import SpanningForest

Buffer = tuple[int, int, int]
"""A channel and a virtual lane: switch, port, VL."""
Dependencies = dict[Buffer, set[Buffer]]


def find_cycle(graph: SwitchGraph, routes: Routes, *, lossless: bool = False) -> list[str]:
    """Return the channels of one cycle, as `sw0:3`, or an empty list where the routes are free of deadlock.

    What hosts send to hosts and to switches counts, what switches send to hosts, and multicast.

    Args:  lossless: look only at channels that have credits, with the virtual lanes that they have; else at all, as if
           they had credits and enough lanes.
    """
    names, several = graph.names, routes.lanes.count > 1
    return [
        f"{names[switch]}:{port_num}{f' VL {vl}' if several else ''}"
        for switch, port_num, vl in _cycle(dependencies(graph, routes, lossless=lossless))
    ]


def dependencies(graph: SwitchGraph, routes: Routes, *, lossless: bool = False) -> Dependencies:
    """Return which buffers each buffer waits for. Args: as for `find_cycle`."""
    found: Dependencies = {}
    if lossless and not graph.vls:
        return found
    links = _one_lane(graph, routes) if routes.lanes.count == 1 else _by_lanes(graph, routes)
    for channel, lane, following in links:
        if lossless and channel not in graph.vls:
            continue
        after = found.setdefault(_buffer(graph, channel, lane, lossless), set())
        for onward, onward_lane in following:
            if not lossless or onward in graph.vls:
                after.add(_buffer(graph, onward, onward_lane, lossless))
    return found


def _buffer(graph: SwitchGraph, channel: Channel, lane: int, lossless: bool) -> Buffer:
    return (*channel, lane % graph.vls[channel] if lossless else lane)


_Link = tuple[Channel, int, Iterator[tuple[Channel, int]]]


def _sources(graph: SwitchGraph) -> Iterator[tuple[int, list[int]]]:
    """Yield each destination with the switches at which packets for it begin."""
    leaves = graph.leaves()
    with_hosts = frozenset(leaves)
    everywhere = list(range(len(graph.names)))
    for destination in everywhere:
        starts = everywhere if destination in with_hosts else leaves
        yield destination, [at for at in starts if at != destination]


def _one_lane(graph: SwitchGraph, routes: Routes) -> Iterator[_Link]:
    found: dict[Channel, int] = {}
    for destination, starts in _sources(graph):
        row = routes.hops[destination]
        masks: dict[int, int] = {}
        waiting, seen = list(starts), set(starts)
        while waiting:
            switch = waiting.pop()
            for port_num in row[switch]:
                far = graph.arcs[switch][port_num]
                if far == destination:
                    found.setdefault((switch, port_num), 0)
                    continue
                if far not in masks:
                    masks[far] = mask_of(row[far])
                found[switch, port_num] = found.get((switch, port_num), 0) | masks[far]
                if far not in seen:
                    seen.add(far)
                    waiting.append(far)
    for channel, onward in SpanningForest(graph, routes).turns(graph.leaves()).items():
        if channel is not None:
            found[channel] = found.get(channel, 0) | mask_of(port for _, port in onward)
    for channel, mask in found.items():
        far = graph.arcs[channel[0]][channel[1]]
        yield channel, 0, (((far, port), 0) for port in bits(mask))


def _by_lanes(graph: SwitchGraph, routes: Routes) -> Iterator[_Link]:
    lanes = routes.lanes
    trees = SpanningForest(graph, routes).turns(graph.leaves())
    begun = [((channel, lane), None) for channel in trees[None] for lane in (0, lanes.first.get(channel, 0))]
    yield from _follow(graph, routes, dict(begun), trees)
    for destination, starts in _sources(graph):
        row = routes.hops[destination]
        onward: dict[Channel | None, set[Channel]] = {}
        for at, ports in enumerate(row):
            for port in ports:
                far = graph.arcs[at][port]
                onward[at, port] = set() if far == destination else {(far, out) for out in row[far]}
        first = [(at, port) for at in starts for port in row[at]]
        begun = [((channel, lane), None) for channel in first for lane in (0, lanes.first.get(channel, 0))]
        yield from _follow(graph, routes, dict(begun), onward)


def _follow(
    graph: SwitchGraph,
    routes: Routes,
    begun: Mapping[tuple[Channel, int], None],
    onward: Mapping[Channel | None, set[Channel]],
) -> Iterator[_Link]:
    """Yield all that packets pass from where they begin. Args: onward: the channels that follow each."""
    waiting, seen = list(begun), set(begun)
    while waiting:
        channel, lane = waiting.pop()
        far, port_in = graph.far_end(channel)
        following = [
            (after, routes.lanes.after((far, port_in, after[1]), lane)) for after in onward.get(channel, ())
        ]
        yield channel, lane, iter(following)
        for step in following:
            if step not in seen:
                seen.add(step)
                waiting.append(step)


def _cycle(found: Dependencies) -> list[Buffer]:
    """Return one cycle, by depth-first search without recursion."""
    done: set[Buffer] = set()
    for start in found:
        if start in done:
            continue
        path, on_path = [start], {start}
        iterators = [iter(found[start])]
        while path:
            following = next(iterators[-1], None)
            if following is None:
                iterators.pop()
                done.add(path[-1])
                on_path.discard(path.pop())
            elif following in on_path:
                return path[path.index(following) :]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                iterators.append(iter(found.get(following, ())))
    return []
