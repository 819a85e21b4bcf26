"""The switches of a fabric as routing sees them, with arcs by port and LIDs at ports; and what a routing engine finds.

A lane is a copy of the fabric with room of its own. A packet begins on the lane that the first channel has for it, and
may change it from one channel to the next, by the port where it comes to a switch and the one by which it leaves. That
is the same for all senders and receivers, so SCtoSC tables can do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.base.errors import FabricError

Channel = tuple[int, int]
"""One direction of a cable between switches: the switch that sends, and the port by which it does."""


@dataclass(slots=True)
class SwitchGraph:
    """Switches, cables between them, and the LIDs behind their ports. Indices are positions in `names`."""

    names: list[str] = field(default_factory=list)
    arcs: list[dict[int, int]] = field(default_factory=list)
    """For each switch: port number -> the switch at the far end."""
    far_port: dict[tuple[int, int], int] = field(default_factory=dict)
    """(switch, port number) -> the port number at the far end of that cable."""
    vls: dict[Channel, int] = field(default_factory=dict)
    """Virtual lanes of the channels that have credits: they lose nothing, and can wait for each other."""
    lids: list[list[tuple[int, int]]] = field(default_factory=list)
    """For each switch: (LID, port number behind which it is); the switch's own LID has port 0."""

    def add(self, name: str) -> int:
        """Add a switch and return its index."""
        self.names.append(name)
        self.arcs.append({})
        self.lids.append([])
        return len(self.names) - 1

    def connect(self, a: int, a_port: int, b: int, b_port: int) -> None:
        """Add both arcs of a cable."""
        self.arcs[a][a_port] = b
        self.arcs[b][b_port] = a
        self.far_port[a, a_port] = b_port
        self.far_port[b, b_port] = a_port

    def attach(self, switch: int, port_num: int, lids: range) -> None:
        """Record that the LIDs of a port are behind port `port_num` of a switch."""
        self.lids[switch] += [(lid, port_num) for lid in lids]

    def far_end(self, channel: Channel) -> tuple[int, int]:
        """Return the switch that a channel leads to, and the port where it arrives."""
        return self.arcs[channel[0]][channel[1]], self.far_port[channel]

    def spare_vls(self) -> int | None:
        """Return how many virtual lanes every channel with credits has; None: there is none with credits."""
        return min(self.vls.values(), default=None)

    def top_lid(self) -> int:
        """Return the highest LID, or 0."""
        return max((lid for entries in self.lids for lid, _ in entries), default=0)

    def leaves(self) -> list[int]:
        """Return the switches that have hosts."""
        return [index for index, entries in enumerate(self.lids) if any(port_num for _, port_num in entries)]

    def is_routed_as(self, other: SwitchGraph) -> bool:
        """Return whether every engine routes both alike: only hosts differ, and each leaf still is one."""
        return (
            self.names == other.names
            and [*map(list, map(dict.items, self.arcs))] == [*map(list, map(dict.items, other.arcs))]
            and self.far_port == other.far_port
            and self.vls == other.vls
            and self.leaves() == other.leaves()
        )

    def adjacency(self) -> list[int]:
        """Return, for each switch, its neighbours as a bit mask."""
        return [mask_of(arcs.values()) for arcs in self.arcs]

    def levels(self) -> list[int] | None:
        """Return the height of each switch above the hosts, where cables join neighbouring heights only; else None."""
        adjacency = self.adjacency()
        height = [-1] * len(self.names)
        level, at = mask_of(self.leaves()), 0
        seen = level
        while level:
            following = 0
            for switch in bits(level):
                height[switch] = at
                following |= adjacency[switch]
            level, at = following & ~seen, at + 1
            seen |= level
        proper = all(
            abs(height[switch] - height[far]) == 1
            for switch, arcs in enumerate(self.arcs)
            for far in arcs.values()
        )
        return height if proper and -1 not in height else None


def mask_of(switches: Iterable[int]) -> int:
    """Return switches as a bit mask."""
    mask = 0
    for switch in switches:
        mask |= 1 << switch
    return mask


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


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
