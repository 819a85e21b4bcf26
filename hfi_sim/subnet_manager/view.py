"""What one sweep of the subnet manager has found."""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.base.types import Guid
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.routing import Routes, SpanningForest, SwitchGraph


@dataclass(slots=True)
class SweepView:
    """The nodes of one sweep, and the routes over it."""

    ports: list[HfiPort]
    switches: list[Switch]
    graph: SwitchGraph
    attached: dict[Guid, tuple[int, int]]
    """HFI port -> the switch (index) and the port of it that the cable ends at."""
    forest: SpanningForest | None = None
    routes: Routes | None = None
