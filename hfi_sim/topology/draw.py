"""Drawings of a topology: as text, and as SVG.

Trees are drawn in layers with the hosts below; everything else on a circle, each host outside its switch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from hfi_sim.quantities import rate_text
from hfi_sim.topology.model import NodeKind, Topology

_BOX_WIDTH = 74
_BOX_HEIGHT = 26
_GAP = 10
_LAYER_HEIGHT = 110
_MARGIN = 40
_COLOURS = {NodeKind.SWITCH: "#2f6f9f", NodeKind.HFI: "#4d8a3d"}

Position = tuple[float, float]
Mark = Callable[[str], bool]


def layers(topology: Topology) -> list[list[str]] | None:
    """Return the nodes in layers, HFIs first, where cables run between neighbouring layers only; else None."""
    graph = topology.graph()
    hfis = [node.name for node in topology.of_kind(NodeKind.HFI)]
    rank = dict.fromkeys(hfis, 0)
    found = [hfis]
    while found[-1]:
        reached: dict[str, None] = {}
        for name in found[-1]:
            reached.update(dict.fromkeys(far for far in graph.adj[name] if far not in rank))
        rank.update(dict.fromkeys(reached, len(found)))
        found.append(list(reached))
    if len(rank) < len(topology.nodes) or any(abs(rank[a] - rank[b]) != 1 for a, b in graph.edges()):
        return None
    return found[:-1]


# --- text --------------------------------------------------------------------------------------------------


def _none(_: str) -> bool:
    return False


def as_text(topology: Topology, *, is_down: Mark = _none) -> str:
    """Return one block per switch: its cables in the order of its ports, hosts and switches apart.

    Args:    is_down: whether the cable of that name is to be marked as down.
    """
    hosts, switches = len(topology.hosts()), sum(1 for _ in topology.of_kind(NodeKind.SWITCH))
    lines = [f"{topology.name}: {hosts} hosts, {switches} switches, {len(topology.cables)} cables"]
    cables: dict[str, list[tuple[int, str]]] = {name: [] for name in topology.nodes}
    for cable in topology.cables:
        state = "  (down)" if is_down(cable.name) else ""
        for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
            cables[near[0]].append((near[1], f"{far[0]}:{far[1]}  {rate_text(cable.rate_bps)}{state}"))
    for node in topology.nodes.values():
        if node.kind is NodeKind.SWITCH or not _touches_switch(topology, cables[node.name]):
            lines.append(f"{node.name}")
            entries = sorted(cables[node.name])
            for index, (number, peer) in enumerate(entries):
                corner = "└" if index == len(entries) - 1 else "├"
                lines.append(f"  {corner}─ {number:<3} {peer}")
    return "\n".join(lines) + "\n"


def _touches_switch(topology: Topology, cables: list[tuple[int, str]]) -> bool:
    return any(topology.nodes[far.rsplit(":", 1)[0]].kind is NodeKind.SWITCH for _, far in cables)


# --- SVG ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Picture:
    width: float
    height: float
    at: dict[str, Position]


def as_svg(topology: Topology, *, is_down: Mark | None = None) -> str:
    """Return the drawing as an SVG document.

    Args:  is_down: says by a cable's name whether it is down, which draws it dashed and red.
    """
    found = layers(topology)
    picture = _layered(found) if found is not None else _circular(topology)
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width:.0f}" height="{picture.height:.0f}" '
        f'viewBox="0 0 {picture.width:.0f} {picture.height:.0f}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(topology.name)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *_cable_lines(topology, picture, is_down),
        *_node_boxes(topology, picture),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _layered(found: list[list[str]]) -> _Picture:
    widest = max(map(len, found))
    width = widest * (_BOX_WIDTH + _GAP) + 2 * _MARGIN
    height = (len(found) - 1) * _LAYER_HEIGHT + 2 * _MARGIN + _BOX_HEIGHT
    at: dict[str, Position] = {}
    for rank, names in enumerate(found):
        step = (width - 2 * _MARGIN) / len(names)
        for index, name in enumerate(names):
            at[name] = (
                _MARGIN + step * (index + 0.5),
                height - _MARGIN - _BOX_HEIGHT / 2 - rank * _LAYER_HEIGHT,
            )
    return _Picture(width, height, at)


def _circular(topology: Topology) -> _Picture:
    switches = [node.name for node in topology.of_kind(NodeKind.SWITCH)]
    graph = topology.graph()
    inner = max(150.0, len(switches) * (_BOX_WIDTH + _GAP) / (2 * math.pi))
    outer = inner + 110
    side = 2 * (outer + _BOX_WIDTH + _MARGIN)
    angle = {name: 2 * math.pi * index / max(len(switches), 1) for index, name in enumerate(switches)}
    at: dict[str, Position] = {
        name: (side / 2 + inner * math.sin(turn), side / 2 - inner * math.cos(turn))
        for name, turn in angle.items()
    }
    slots = dict.fromkeys(switches, 0)
    for node in topology.of_kind(NodeKind.HFI):
        home = next((far for far in graph.adj[node.name] if far in angle), None)
        turn, slot = (0.0, 0) if home is None else (angle[home], slots[home])
        if home is not None:
            slots[home] += 1
        # two beside each other on a ring, further ones outside of them
        turn += (0.5 if slot % 2 else -0.5) * (_BOX_WIDTH + _GAP) / outer
        radius = outer + (slot // 2) * (_BOX_HEIGHT + _GAP)
        at[node.name] = (side / 2 + radius * math.sin(turn), side / 2 - radius * math.cos(turn))
    return _Picture(side, side, at)


def _cable_lines(topology: Topology, picture: _Picture, is_down: Mark | None) -> Iterator[str]:
    drawn: dict[frozenset[str], int] = {}
    for cable in topology.cables:
        (ax, ay), (bx, by) = picture.at[cable.a[0]], picture.at[cable.b[0]]
        pair = frozenset((cable.a[0], cable.b[0]))
        shift = 4 * drawn.get(pair, 0)  # parallel cables lie beside each other
        drawn[pair] = drawn.get(pair, 0) + 1
        down = is_down is not None and is_down(cable.name)
        style = 'stroke="#c0392b" stroke-dasharray="5 4"' if down else 'stroke="#888"'
        title = escape(f"{cable.name} {rate_text(cable.rate_bps)}{' down' if down else ''}")
        yield (
            f'<line x1="{ax + shift:.1f}" y1="{ay:.1f}" x2="{bx + shift:.1f}" y2="{by:.1f}" {style}>'
            f"<title>{title}</title></line>"
        )


def _node_boxes(topology: Topology, picture: _Picture) -> Iterator[str]:
    for node in topology.nodes.values():
        x, y = picture.at[node.name]
        yield (
            f'<rect x="{x - _BOX_WIDTH / 2:.1f}" y="{y - _BOX_HEIGHT / 2:.1f}" width="{_BOX_WIDTH}" '
            f'height="{_BOX_HEIGHT}" rx="4" fill="{_COLOURS[node.kind]}"/>'
        )
        yield (
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="white">{escape(node.name)}</text>'
        )
