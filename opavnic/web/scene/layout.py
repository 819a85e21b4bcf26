"""Where the nodes of a fabric are drawn in a browser, and how large, so that they stay apart: 200 hosts, too. Pure.

Trees are drawn in layers over the whole area; where the hosts do not fit beside each other, those of a switch stand in
columns below it. Everything else is on a circle, as in other drawings. Where the lab file gives positions, those hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
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
_BELOW: Final = 70.0
"""Height from a node with a position to what stands below it without one."""
_APART: Final = 96.0
"""Width from one such node to the next: the area is narrower on a small screen, and boxes are not."""
_COLUMNS_HEIGHT: Final = 280.0

Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """The centre and the size of each node, in pixels, by name."""

    at: dict[str, Position]
    size: dict[str, Size]


def layout(topology: Topology, given: Mapping[str, Position] = MappingProxyType({})) -> Layout:
    """Return where to draw each node, and how large. Args: given: positions in any unit, of some nodes or none."""
    if given := {name: at for name, at in given.items() if name in topology.nodes}:
        return _given(topology, given)
    found = layers(topology)
    return _circle(topology) if found is None else _tree(topology, found)


def _given(topology: Topology, given: Mapping[str, Position]) -> Layout:
    """Draw nodes where the lab file has them, and each other one in a row below a neighbour that is drawn."""
    at, graph = dict(given), topology.graph()
    left, top = (min(place[axis] for place in at.values()) for axis in (0, 1))
    wide, high = (max(place[axis] for place in at.values()) - least for axis, least in ((0, left), (1, top)))
    scale = min(WIDTH / wide if wide else math.inf, HEIGHT / high if high else math.inf)
    scale = scale if scale < math.inf else 1.0
    at = {name: ((x - left) * scale, (y - top) * scale) for name, (x, y) in at.items()}
    while left_over := [name for name in topology.nodes if name not in at]:
        rows: dict[str, list[str]] = {}
        for name in left_over:
            if home := next((far for far in graph.adj[name] if far in at), ""):
                rows.setdefault(home, []).append(name)
        if not rows:  # no cable joins them to what has a position
            rows = {"": left_over}
        for home, names in rows.items():
            x, y = at.get(home, (WIDTH / 2, HEIGHT))
            at |= {
                name: (x + (index - (len(names) - 1) / 2) * _APART, y + _BELOW)
                for index, name in enumerate(names)
            }
    return Layout(at, dict.fromkeys(at, (_room(at), _HIGHEST)))


def _room(at: Mapping[str, Position]) -> float:
    """Return how wide all nodes may be: those at one height stay apart."""
    nearest = _WIDEST + _GAP
    ordered = sorted(at.values(), key=lambda place: place[1])
    for index, (x, y) in enumerate(ordered):
        for other_x, other_y in ordered[index + 1 :]:
            if other_y - y >= _HIGHEST:
                break
            nearest = min(nearest, abs(other_x - x) or nearest)
    return max(nearest - _GAP, _SMALLEST)


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
