"""Dimension order on meshes, tori and hypercubes: along the first axis, then along the second, and so on.

Switches are known by the coordinates at the end of their names, as the shapes mesh, torus and hypercube name them:
sw2-0. A ring of a torus has a dateline, the cable that joins its last switch to its first: packets cross it on the next
lane, and stay there for the rest of the ring, so that no ring of buffers closes. On the next axis they begin at lane 0
again.

The multicast tree leads along the axes in the same order towards its root, and in the opposite order away from it. What
turns to a lower axis goes on on a lane of its own, the last one.

Source: Dally and Seitz, "Deadlock-Free Message Routing in Multiprocessor Interconnection Networks" (1987).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hfi_sim.base.errors import FabricError
from hfi_sim.routing.graph import Channel, Ports, RouteLanes, Routes, SwitchGraph, Turn, check_lanes

NAME: Final = "dimension-order"
_COORDINATES: Final = re.compile(r"[0-9]+(?:-[0-9]+)*$")
_Place = tuple[int, ...]


class _Grid:
    """The switches of a graph by their coordinates."""

    def __init__(self, graph: SwitchGraph) -> None:
        """Look at a graph.

        Raises:  FabricError: it is no mesh and no torus.
        """
        self.graph = graph
        self.places = [_place_of(name) for name in graph.names]
        self.at = {place: index for index, place in enumerate(self.places)}
        axes = {len(place) for place in self.places}
        if len(axes) != 1 or len(self.at) < len(self.places):
            raise _refused("switches have different numbers of coordinates, or the same ones")
        self.axes = axes.pop()
        self.sizes = [1 + max(place[axis] for place in self.places) for axis in range(self.axes)]
        self.wraps = [False] * self.axes
        self.way: dict[Channel, tuple[int, int]] = {}
        """The axis of each channel, and 1 or -1: which way it leads."""
        self.datelines: set[Channel] = set()
        for at, arcs in enumerate(graph.arcs):
            for port, far in arcs.items():
                self._place_cable((at, port), at, far)

    def _place_cable(self, channel: Channel, at: int, far: int) -> None:
        here, there = self.places[at], self.places[far]
        apart = [axis for axis in range(self.axes) if here[axis] != there[axis]]
        if len(apart) == 1:
            (axis,) = apart
            step = there[axis] - here[axis]
            if abs(step) == 1:
                self.way[channel] = axis, step
                return
            if abs(step) == self.sizes[axis] - 1:
                self.way[channel] = axis, -1 if step > 0 else 1
                self.datelines.add(channel)
                self.wraps[axis] = True
                return
        a, b = self.graph.names[at], self.graph.names[far]
        raise _refused(f"the cable from {a} to {b} joins no neighbours of a mesh or torus")

    def ports(self, at: int, axis: int, step: int) -> Ports:
        """Return the ports by which a switch sends one step along an axis.

        Raises:  FabricError: there is no such cable.
        """
        found = tuple(port for port in sorted(self.graph.arcs[at]) if self.way[at, port] == (axis, step))
        if not found:
            raise _refused(f"{self.graph.names[at]} has no cable along axis {axis + 1}, {step:+d}")
        return found

    def next_hop(self, at: int, destination: int) -> Ports:
        """Return the ports by which a packet goes on: the shorter way around a ring, or one of two that are equal."""
        here, there = self.places[at], self.places[destination]
        axis = next(axis for axis in range(self.axes) if here[axis] != there[axis])
        ahead = there[axis] - here[axis]
        if self.wraps[axis]:
            size = self.sizes[axis]
            ahead %= size
            back = size - ahead
            forward = ahead < back or (ahead == back and sum(there) % 2 == 0)
            return self.ports(at, axis, 1 if forward else -1)
        return self.ports(at, axis, 1 if ahead > 0 else -1)

    def tree(self) -> dict[int, int]:
        """Return the multicast tree: of each switch the next one towards the middle, along no dateline."""
        root = tuple(size // 2 for size in self.sizes)
        parents: dict[int, int] = {}
        for at, place in enumerate(self.places):
            axis = next((axis for axis in range(self.axes) if place[axis] != root[axis]), None)
            if axis is None:
                continue
            step = 1 if place[axis] < root[axis] else -1
            beside = self.at.get((*place[:axis], place[axis] + step, *place[axis + 1 :]))
            if beside is None or beside not in self.graph.arcs[at].values():
                raise _refused(f"{self.graph.names[at]} has no cable along axis {axis + 1}, {step:+d}")
            parents[at] = beside
        return parents

    def turns(self, count: int) -> Iterator[tuple[Turn, tuple[int, ...]]]:
        """Yield the turns at which packets change their lane."""
        last = count - 1
        backwards = tuple([last] * count)
        for at, arcs in enumerate(self.graph.arcs):
            for port_in in arcs:
                axis_in, back = self.way[at, port_in]
                for port_out in arcs:
                    axis, step = self.way[at, port_out]
                    if port_out == port_in or (axis == axis_in and step == back):
                        continue
                    crosses = int((at, port_out) in self.datelines)
                    if axis < axis_in:
                        yield (at, port_in, port_out), backwards
                    elif axis > axis_in or crosses:
                        ahead = [crosses] * count
                        if self.axes > 1:
                            ahead[last] = last
                        yield (at, port_in, port_out), tuple(ahead)


def dimension_order(graph: SwitchGraph) -> Routes:
    """Return the ways in dimension order.

    Raises:  FabricError: it is no mesh and no torus, a cable is missing, or channels with credits have too few lanes.
    """
    grid = _Grid(graph)
    switches = range(len(graph.names))
    hops: list[list[Ports]] = [
        [() if at == destination else grid.next_hop(at, destination) for at in switches]
        for destination in switches
    ]
    count = (2 if any(grid.wraps) else 1) + (grid.axes > 1)
    check_lanes(NAME, count, graph)
    first = dict.fromkeys(grid.datelines, 1)
    return Routes(hops, lanes=RouteLanes(count, first, dict(grid.turns(count))), parents=grid.tree())


def _place_of(name: str) -> _Place:
    match = _COORDINATES.search(name)
    if match is None:
        raise _refused(f"switch {name} has no coordinates at the end of its name, such as sw2-0")
    return tuple(map(int, match[0].split("-")))


def _refused(why: str) -> FabricError:
    return FabricError(f"routing engine {NAME}: {why}; try lane-shift")
