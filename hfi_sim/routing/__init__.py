"""Routing: pure functions from a graph of switches to forwarding tables, multicast trees and a deadlock check."""

from __future__ import annotations

from hfi_sim.routing.deadlock import find_cycle
from hfi_sim.routing.engines import DEFAULT_ENGINE, ENGINES, NextHops, Routes, fat_tree, min_hop, up_down
from hfi_sim.routing.graph import SwitchGraph
from hfi_sim.routing.multicast import SpanningForest
from hfi_sim.routing.table import EMPTY_TABLE, LinearTable, PathGroups, build_tables

__all__ = [
    "DEFAULT_ENGINE",
    "EMPTY_TABLE",
    "ENGINES",
    "LinearTable",
    "NextHops",
    "PathGroups",
    "Routes",
    "SpanningForest",
    "SwitchGraph",
    "build_tables",
    "fat_tree",
    "find_cycle",
    "min_hop",
    "up_down",
]
