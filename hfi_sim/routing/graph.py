"""The switches of a fabric as routing sees them: numbered from 0, with arcs by port, and LIDs at ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

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
