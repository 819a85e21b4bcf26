"""Forwarding tables: an array of 16-bit entries by LID, and groups of equal ports.

An entry is 0 (no route), a port number, or 0x4000 + the number of a group. Of a group the packet's entropy picks the
port, so that one flow keeps one path and its order, and many flows use all of them. A group is stored in as many
rotations as it has ports, and LIDs take turns: packets without entropy (management) and senders that use the
further LIDs of a port (LMC) spread as well.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hfi_sim.routing.graph import Ports, Routes, SwitchGraph

GROUP_BASE: Final = 0x4000
"""Entries from here on name a group of ports."""
MAX_PORTS: Final = GROUP_BASE - 1
"""Ports that one switch can have here; real ones have 48, but one switch for a whole lab is handy."""
_MAX_GROUPS: Final = 0x10000 - GROUP_BASE


class PathGroups:
    """Groups of equal ports, each once; tables of many switches share it."""

    def __init__(self) -> None:
        self.groups: list[Ports] = []
        self._entries: dict[Ports, int] = {}
        self._rotations: dict[Ports, array[int]] = {}

    def entry(self, ports: Ports) -> int:
        """Return the table entry for these ports: the port itself where there is one, 0 for none.

        With more than 49 thousand different groups the first port has to do.
        """
        if len(ports) < 2:
            return ports[0] if ports else 0
        entry = self._entries.get(ports)
        if entry is None:
            if len(self.groups) >= _MAX_GROUPS:
                return ports[0]
            entry = self._entries[ports] = GROUP_BASE + len(self.groups)
            self.groups.append(ports)
        return entry

    def rotations(self, ports: Ports, adaptive: bool) -> array[int]:
        """Return an entry for each rotation of `ports`, the whole twice; plain ports unless adaptive."""
        if not adaptive:
            return array("H", ports * 2)
        rotations = self._rotations.get(ports)
        if rotations is None:
            turned = [self.entry(ports[n:] + ports[:n]) for n in range(len(ports))]
            rotations = self._rotations[ports] = array("H", turned * 2)
        return rotations


class LinearTable(Mapping[int, int]):
    """The unicast table of one switch. As a mapping it gives the first port of each LID's choice."""

    __slots__ = ("entries", "groups")

    def __init__(self, entries: array[int], groups: Sequence[Ports] = ()) -> None:
        self.entries = entries
        self.groups = groups

    @classmethod
    def of(cls, ports: Mapping[int, int]) -> LinearTable:
        """Return the table with one port for each LID of a mapping."""
        entries = array("H", bytes(2 * (max(ports, default=-1) + 1)))
        for lid, port_num in ports.items():
            entries[lid] = port_num
        return cls(entries)

    def next_hops(self, lid: int) -> Ports:
        """Return all ports that lead to `lid`; empty where there is no route."""
        entry = self.entries[lid] if 0 <= lid < len(self.entries) else 0
        if entry >= GROUP_BASE:
            return self.groups[entry - GROUP_BASE]
        return (entry,) if entry else ()

    def __getitem__(self, lid: int) -> int:
        ports = self.next_hops(lid)
        if not ports:
            raise KeyError(lid)
        return ports[0]

    def __iter__(self) -> Iterator[int]:
        return (lid for lid, entry in enumerate(self.entries) if entry)

    def __len__(self) -> int:
        return len(self.entries) - self.entries.count(0)


EMPTY_TABLE: Final = LinearTable(array("H"))
"""The table of a switch that no subnet manager has seen."""


def build_tables(graph: SwitchGraph, routes: Routes, *, adaptive: bool = True) -> list[LinearTable]:
    """Return the table of each switch of `graph`.

    Args:  adaptive: let entropy choose among equal ports; off: each LID has one port, LIDs take turns.
    """
    shared = PathGroups()
    size = graph.top_lid() + 1
    position = 0
    positions = []
    for entries in graph.lids:
        positions.append(position)
        position += sum(1 for _, port_num in entries if port_num)
    tables = []
    for switch in range(len(graph.names)):
        row = array("H", bytes(2 * size))
        _fill(row, switch, graph, routes, shared, adaptive, positions)
        tables.append(LinearTable(row, shared.groups))
    return tables


def _fill(
    row: array[int],
    switch: int,
    graph: SwitchGraph,
    routes: Routes,
    shared: PathGroups,
    adaptive: bool,
    positions: list[int],
) -> None:
    divisor = routes.divisors[switch] if routes.divisors is not None else 0
    turn = switch  # where no digit decides, each switch starts its round at another port
    for destination, entries in enumerate(graph.lids):
        if destination == switch:
            for lid, port_num in entries:
                if port_num:
                    row[lid] = port_num
            continue
        ports = routes.hops[destination][switch]
        if not ports:
            continue
        if len(ports) == 1:
            for lid, _ in entries:
                row[lid] = ports[0]
            continue
        rotations = shared.rotations(ports, adaptive)
        count = len(ports)
        position = positions[destination]
        for lid, port_num in entries:
            if divisor:
                row[lid] = rotations[position // divisor % count]
                position += port_num > 0
            else:
                row[lid] = rotations[turn % count]
                turn += 1
