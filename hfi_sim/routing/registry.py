"""The routing engines by name, those of other packages included, and the choice among them.

An engine is a function that takes the switches (`SwitchGraph`) and returns the ways (`Routes`). One of another package
is an entry point of the group `opavnic.routing`, whose name is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Final

from hfi_sim.base.entry_points import JoinedRows, owner_of
from hfi_sim.base.errors import FabricError
from hfi_sim.routing.deadlock import find_cycle
from hfi_sim.routing.dimension_order import NAME as DIMENSION_ORDER
from hfi_sim.routing.dimension_order import dimension_order
from hfi_sim.routing.engines import fat_tree, min_hop, up_down
from hfi_sim.routing.graph import Routes, SwitchGraph
from hfi_sim.routing.lane_shift import NAME as LANE_SHIFT
from hfi_sim.routing.lane_shift import lane_shift

RoutingEngine = Callable[[SwitchGraph], Routes]
GROUP: Final = "opavnic.routing"


def _foreign(point: EntryPoint) -> RoutingEngine:
    """Return an engine of another package, which is loaded when it is first asked.

    It raises FabricError: the package cannot be loaded, or the engine has returned something else.
    """

    def find(graph: SwitchGraph) -> Routes:
        try:
            found = point.load()(graph)
        except FabricError:
            raise
        except Exception as error:
            raise FabricError(f"{_named(point)}: {type(error).__name__}: {error}") from error
        if not isinstance(found, Routes):
            raise FabricError(f"{_named(point)} returned {type(found).__name__}, and no Routes")
        return found

    return find


def _named(point: EntryPoint) -> str:
    return f"routing engine {point.name} of {owner_of(point)}"


ENGINES: Final[JoinedRows[RoutingEngine]] = JoinedRows(
    {
        "min-hop": min_hop,
        "up-down": up_down,
        "fat-tree": fat_tree,
        DIMENSION_ORDER: dimension_order,
        LANE_SHIFT: lane_shift,
    },
    GROUP,
    _foreign,
)
"""Engines by the name that lab files and the command line use."""
DEFAULT_ENGINE: Final = "min-hop"
_SAFE: Final = ("fat-tree", DIMENSION_ORDER, LANE_SHIFT, "up-down")
"""Engines that are free of deadlock where they fit, in the order of how well they use the cables."""


def refusal(graph: SwitchGraph, routes: Routes, engine: str) -> str:
    """Return why routes may not carry lossless traffic: a cycle, and which engines have none; empty: they may."""
    cycle = find_cycle(graph, routes, lossless=True)
    if not cycle:
        return ""
    ways = [
        f"{name} ({count} virtual lanes, credits: {{vls: {count}}})" if count > 1 else name
        for name, count in _free_of_cycles(graph)
        if name != engine
    ]
    return (
        f"routing {engine} can deadlock on links with credits: {' -> '.join([*cycle, cycle[0]])}; "
        f"free of that: {' or '.join(ways)}; or say deadlock: allow"
    )


def _free_of_cycles(graph: SwitchGraph) -> Iterator[tuple[str, int]]:
    """Yield the engines that are free of cycles on a fabric, with the lanes that each needs."""
    for name in _SAFE:
        for several in (graph, replace(graph, vls={})):
            try:
                routes = ENGINES[name](several)
            except FabricError:
                continue
            yield name, routes.lanes.count
            break


def safe_routes(graph: SwitchGraph) -> tuple[str, Routes]:
    """Return the best engine that is free of cycles with the lanes that there are, and its routes."""
    for name in _SAFE[1:-1]:
        try:
            return name, ENGINES[name](graph)
        except FabricError:
            continue
    return "up-down", up_down(graph)
