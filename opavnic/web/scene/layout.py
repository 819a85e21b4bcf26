"""Where the nodes of a fabric are drawn in a browser, and how large, so that they stay apart: 200 hosts, too. Pure.

Trees are drawn in layers over the whole area; where the hosts do not fit beside each other, those of a switch stand in
columns below it. Everything else is on a circle, as in other drawings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.fabric.topology.draw import Position, layers, picture
from hfi_sim.fabric.topology.model import Topology

WIDTH: Final = 770.0
HEIGHT: Final = 490.0
"""Pixels of the drawing on a screen of 1400 by 900: ECharts fills four fifths of it, and keeps the proportions."""
_WIDEST: Final = 72.0
_HIGHEST: Final = 24.0
_GAP: Final = 6.0
_SMALLEST: Final = 3.0
_NAMED: Final = 36.0
"""Width from one node to the next that leaves room for a name."""
_LINE: Final = 18.0
"""Height from one host in a column to the next."""
_COLUMNS_HEIGHT: Final = 280.0

Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """The centre and the size of each node, in pixels, by name."""

    at: dict[str, Position]
    size: dict[str, Size]


def layout(topology: Topology) -> Layout:
    """Return where to draw each node, and how large."""
    found = layers(topology)
    return _circle(topology) if found is None else _tree(topology, found)


def _circle(topology: Topology) -> Layout:
    drawn = picture(topology)
    shrunk = min(1.0, WIDTH / drawn.width, HEIGHT / drawn.height)
    size = (max(_WIDEST * shrunk, _SMALLEST), max(_HIGHEST * shrunk, _SMALLEST))
    at = {name: (x * shrunk, y * shrunk) for name, (x, y) in drawn.at.items()}
    return Layout(at, dict.fromkeys(at, size))


def _tree(topology: Topology, found: Sequence[Sequence[str]]) -> Layout:
    at: dict[str, Position] = {}
    size: dict[str, Size] = {}
    hosts, switches = found[0], found[1:]
    groups = _groups(topology, hosts)
    stacked = len(hosts) * _NAMED > WIDTH and bool(switches)
    bottom = HEIGHT
    if stacked:
        columns = list(_columns(groups, len(hosts)))
        bottom -= max(height for _, _, _, height in columns)
        for home, nodes, (left, width), _ in columns:
            many = _columns_of(len(nodes), width)
            step = width / many
            for index, node in enumerate(nodes):
                place = left + step * (index % many + 0.5)
                at[node] = (place, bottom + _LINE * (index // many + 0.5))
                size[node] = (max(min(step, _NAMED) - 2, _SMALLEST), _LINE - 4)
            if home:
                at[home] = (left + width / 2, 0.0)
    else:
        _row(hosts, bottom, at, size)
    rise = (bottom - (_HIGHEST if stacked else 0)) / max(len(switches), 1)
    for rank, names in enumerate(switches, 1):
        y = rise * (len(switches) - rank)
        placed = {name: at[name][0] for name in names if name in at}
        _row(names, y, at, size)
        if len(placed) == len(names):  # each above its hosts
            at |= {name: (x, y) for name, x in placed.items()}
    return Layout(at, size)


def _row(names: Sequence[str], y: float, at: dict[str, Position], size: dict[str, Size]) -> None:
    step = WIDTH / len(names)
    for index, name in enumerate(names):
        at[name] = (step * (index + 0.5), y)
        size[name] = (max(min(step - _GAP, _WIDEST), _SMALLEST), _HIGHEST)


def _groups(topology: Topology, hosts: Sequence[str]) -> dict[str, list[str]]:
    """Return the hosts by the switch that each is cabled to first."""
    graph = topology.graph()
    found: dict[str, list[str]] = {}
    for host in hosts:
        found.setdefault(next(iter(graph.adj[host]), ""), []).append(host)
    return found


def _columns(
    groups: dict[str, list[str]], hosts: int
) -> Iterator[tuple[str, list[str], tuple[float, float], float]]:
    """Yield each switch with its hosts, where they stand from left to right (begin, width), and how high they do."""
    left = 0.0
    for home, nodes in groups.items():
        width = WIDTH * len(nodes) / hosts
        yield (
            home,
            nodes,
            (left + _GAP / 2, width - _GAP),
            _LINE * math.ceil(len(nodes) / _columns_of(len(nodes), width - _GAP)),
        )
        left += width


def _columns_of(hosts: int, width: float) -> int:
    """Return in how many columns the hosts of a switch stand."""
    return min(hosts, max(1, int(width // _NAMED), math.ceil(hosts * _LINE / _COLUMNS_HEIGHT)))
