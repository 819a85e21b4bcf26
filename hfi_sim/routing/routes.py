"""What a routing engine finds: the ways of packets, and the lanes on which they take them.

A lane is a copy of the fabric with room of its own. A packet begins on the lane that the first channel has for it, and
may change it from one channel to the next, by the port where it comes to a switch and the one by which it leaves. That
is the same for all senders and receivers, so SCtoSC tables can do it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.base.errors import FabricError
from hfi_sim.routing.graph import Channel, SwitchGraph

Ports = tuple[int, ...]

NextHops = list[list[Ports]]
"""`hops[destination][switch]`: the ports of `switch` that lead to `destination`; empty: itself, or out of reach."""

Turn = tuple[int, int, int]
"""A switch, the port where a packet comes in from another switch, and the port by which it leaves to one."""


@dataclass(frozen=True, slots=True)
class RouteLanes:
    """The lanes of packets."""

    count: int = 1
    first: Mapping[Channel, int] = field(default_factory=dict)
    """The lane on which packets of hosts take their first channel; 0 where it is not said."""
    turns: Mapping[Turn, Sequence[int]] = field(default_factory=dict)
    """For each lane of the incoming channel, that of the leaving one; where nothing is said, it stays."""

    def after(self, turn: Turn, lane: int) -> int:
        """Return the lane on which a packet leaves."""
        table = self.turns.get(turn)
        return lane if table is None else table[lane]


ONE_LANE: Final = RouteLanes()


@dataclass(frozen=True, slots=True)
class Routes:
    """What an engine found."""

    hops: NextHops
    divisors: list[int] | None = None
    """Fat tree: at this switch the n-th LID of the fabric starts at the port (n // divisor) of its choice."""
    lanes: RouteLanes = ONE_LANE
    roots: Sequence[int] = ()
    """Switches that multicast trees begin at, where their part of the fabric has several: the first of them."""
    parents: Mapping[int, int] = field(default_factory=dict)
    """The multicast tree itself: of each switch but the root, the next one towards it. Empty: the shortest paths."""


def check_lanes(engine: str, count: int, graph: SwitchGraph) -> None:
    """Refuse routes that need more lanes than channels with credits have.

    Raises:  FabricError.
    """
    spare = graph.spare_vls()
    if spare is not None and spare < count:
        raise FabricError(
            f"routing engine {engine} needs {count} virtual lanes here, and a link with credits has {spare}: "
            f"say credits: {{vls: {count}}}"
        )
