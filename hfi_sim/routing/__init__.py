"""Routing: pure functions from a graph of switches to forwarding tables, multicast trees and a deadlock check."""

from __future__ import annotations

from hfi_sim.routing.deadlock import find_cycle
from hfi_sim.routing.dimension_order import dimension_order
from hfi_sim.routing.engines import fat_tree, min_hop, up_down
from hfi_sim.routing.graph import NextHops, RouteLanes, Routes, SwitchGraph
from hfi_sim.routing.lane_shift import lane_shift
from hfi_sim.routing.multicast import SpanningForest
from hfi_sim.routing.registry import DEFAULT_ENGINE, ENGINES, refusal, safe_routes
from hfi_sim.routing.table import EMPTY_TABLE, LinearTable, PathGroups, build_tables

__all__ = [
    "DEFAULT_ENGINE",
    "EMPTY_TABLE",
    "ENGINES",
    "LinearTable",
    "NextHops",
    "PathGroups",
    "RouteLanes",
    "Routes",
    "SpanningForest",
    "SwitchGraph",
    "build_tables",
    "dimension_order",
    "fat_tree",
    "find_cycle",
    "lane_shift",
    "min_hop",
    "refusal",
    "safe_routes",
    "up_down",
]
