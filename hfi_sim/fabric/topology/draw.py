"""Drawings of a topology: as text, and as SVG.

Trees are drawn in layers with the hosts below; everything else on a circle, each host outside its switch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfi_sim.base.drawing import BLUE, DIM, GREEN, Canvas
from hfi_sim.base.quantities import rate_text
from hfi_sim.base.text import counted, xml_text
from hfi_sim.fabric.topology.marks import DOWN, FAULTY, Marks
from hfi_sim.fabric.topology.model import Cable, NodeKind, Topology

_BOX_WIDTH = 74
_BOX_HEIGHT = 26
BOX = _BOX_WIDTH, _BOX_HEIGHT
"""The size of a node."""
_GAP = 10
_LAYER_HEIGHT = 110
_MARGIN = 40
_LABELLED_CABLES = 64
"""Cables up to which ports and rates are written beside each; of more, they are told where the pointer is."""
_PORT_AT = 0.28
_COLOURS = {NodeKind.SWITCH: BLUE, NodeKind.HFI: GREEN}

Position = tuple[float, float]
_UNMARKED = Marks()


def layers(hfis: Sequence[str], near: Mapping[str, Iterable[str]]) -> list[list[str]] | None:
    """Return the nodes in layers, HFIs first, where cables run between neighbouring layers only; else None.

    A switch without HFIs stands beside those with HFIs if it is called alike (`edge2-0` beside `edge0-0`).

    Args:  near: the neighbours of every node.
    """
    below = set(hfis)
    edges = {far for name in hfis for far in near[name] if far not in below}
    kinds = set(map(_kind, edges))
    alike = [name for name in near if name not in below and _kind(name) in kinds]
    found = _layers(hfis, near, alike) if len(alike) > len(edges) else None
    return found or _layers(hfis, near, ())


def _kind(name: str) -> str:
    return re.sub(r"[\d-]+$", "", name)


def _layers(
    hfis: Sequence[str], near: Mapping[str, Iterable[str]], edges: Sequence[str]
) -> list[list[str]] | None:
    """Return the layers. Args: edges: the second layer; empty: all that HFIs are cabled to."""
    rank = dict.fromkeys(hfis, 0)
    found = [list(hfis)]
    while found[-1]:
        reached: dict[str, None] = dict.fromkeys(edges) if len(found) == 1 else {}
        for name in found[-1]:
            reached.update(dict.fromkeys(far for far in near[name] if far not in rank))
        rank.update(dict.fromkeys(reached, len(found)))
        found.append(list(reached))
    if len(rank) < len(near) or any(abs(rank[a] - rank[b]) != 1 for a in near for b in near[a]):
        return None
    return found[:-1]


# --- text --------------------------------------------------------------------------------------------------


def as_text(topology: Topology, *, marks: Marks = _UNMARKED, apart: Collection[str] = ()) -> str:
    """Return one block per switch: its cables in the order of its ports, hosts and switches apart.

    Args:    marks: what is wrong, which is said in the first line and at each cable. apart: hosts that are not counted
             as such.
    """
    hosts = [name for name in topology.hosts() if name not in apart]
    switches = sum(1 for _ in topology.of_kind(NodeKind.SWITCH))
    counts = (
        counted(len(hosts), "host"),
        counted(switches, "switch", "switches"),
        counted(len(topology.cables), "cable"),
        *(f"the node {name}" for name in apart if name in topology.hosts()),
    )
    lines = [
        "; ".join(filter(None, (f"{topology.name}: {', '.join(counts)}", marks.summary(topology.cables))))
    ]
    cables: dict[str, list[tuple[int, str]]] = {name: [] for name in topology.nodes}
    for cable in topology.cables:
        said = marks.text(cable)
        up, down = map(rate_text, cable.link.rates_bps)
        for near, far, out, back in ((cable.a, cable.b, up, down), (cable.b, cable.a, down, up)):
            rate = out if out == back else f"{out} out, {back} in"
            peer = f"{marks.name(topology.nodes[far[0]])}:{far[1]}  {rate}"
            cables[near[0]].append((near[1], f"{peer}  {said}" if said else peer))
    touching = {
        end[0] for cable in topology.cables for end in (cable.a, cable.b) if _joins_switch(topology, cable)
    }
    for node in topology.nodes.values():
        if node.kind is NodeKind.SWITCH or node.name not in touching:
            lines.append(marks.name(node))
            lines += [f"  {number:>3}  {peer}" for number, peer in sorted(cables[node.name])]
    return "\n".join(lines) + "\n"


def _joins_switch(topology: Topology, cable: Cable) -> bool:
    return any(topology.nodes[end[0]].kind is NodeKind.SWITCH for end in (cable.a, cable.b))


# --- SVG ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodePlaces:
    """Where each node of a topology is drawn: its centre in pixels from the top left corner, by its name."""

    width: float
    height: float
    at: dict[str, Position]


def picture(topology: Topology) -> NodePlaces:
    """Return where to draw each node: in layers if there are such, else on a circle."""
    found = layers([node.name for node in topology.of_kind(NodeKind.HFI)], topology.graph().adj)
    return in_layers(found) if found is not None else _circular(topology)


def drawing(topology: Topology, *, marks: Marks = _UNMARKED, waits: Sequence[tuple[str, str]] = ()) -> Canvas:
    """Return the drawing of a topology.

    Args:  marks: what is wrong; a cable that is down is dashed and red. waits: directions of cables that are stuck,
           each with one that it waits for; they are drawn red and thick.
    """
    places = picture(topology)
    drawn = Canvas(places.width, places.height, "sans-serif")
    _draw_cables(drawn, topology, places, marks, waits)
    for node in topology.nodes.values():
        colour = FAULTY if marks.node_faults(node) else _COLOURS[node.kind]
        drawn.node(places.at[node.name], BOX, node.name, colour, text=marks.name(node))
    return drawn


def in_layers(found: Sequence[Sequence[str]]) -> NodePlaces:
    """Return where to draw nodes in layers, of which the first is the lowest."""
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
    return NodePlaces(width, height, at)


def _circular(topology: Topology) -> NodePlaces:
    switches = [node.name for node in topology.of_kind(NodeKind.SWITCH)]
    graph = topology.graph()
    pitch = len(switches) * (_BOX_WIDTH + _GAP) / (2 * math.pi)
    in_pairs = any(
        sum(topology.nodes[far].kind is NodeKind.HFI for far in graph.adj[switch]) > 1 for switch in switches
    )
    inner = max(150.0, pitch)
    outer = max(inner + 110, 2 * pitch if in_pairs else 0.0)
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
    return NodePlaces(side, side, at)


def _draw_cables(
    drawn: Canvas,
    topology: Topology,
    places: NodePlaces,
    marks: Marks,
    waits: Sequence[tuple[str, str]],
) -> None:
    waiting: dict[str, list[str]] = {}
    for lane, other in waits:
        waiting.setdefault(_link_of(lane), []).append(f"{lane} waits for {other}")
    beside: dict[frozenset[str], int] = {}
    for cable in topology.cables:
        (ax, ay), (bx, by) = places.at[cable.a[0]], places.at[cable.b[0]]
        pair = frozenset((cable.a[0], cable.b[0]))
        shift = 4 * beside.get(pair, 0)  # parallel cables lie beside each other
        beside[pair] = beside.get(pair, 0) + 1
        turned = "--".join(reversed(cable.name.split("--")))
        stuck = [*waiting.get(cable.name, ()), *waiting.get(turned, ())]
        a, b = (ax + shift, ay), (bx + shift, by)
        wrong, colour = marks.text(cable), marks.colour(cable, "#888")
        drawn.line(
            a,
            b,
            DOWN if stuck else colour,
            stroke_dasharray="5 4" if colour == DOWN and not stuck else None,
            stroke_width=3 if stuck else None,
            title="; ".join([f"{cable.name} {cable.rate_text} {wrong}".rstrip(), *stuck]),
            data_link=xml_text(cable.name),
        )
        labels: list[tuple[float, object, str]] = [(0.5, wrong, colour)] if wrong else []
        if len(topology.cables) <= _LABELLED_CABLES:
            labels = labels or [(0.5, cable.rate_text, DIM)]
            labels += [(_PORT_AT, cable.a[1], DIM), (1 - _PORT_AT, cable.b[1], DIM)]
        for part, text, ink in labels:
            at = a[0] + (b[0] - a[0]) * part + 3, a[1] + (b[1] - a[1]) * part + 3
            link = xml_text(cable.name) if ink == DOWN else None
            drawn.text(at, str(text), ink, font_size=9, lifted=True, data_link=link)


def _link_of(lane: str) -> str:
    """Return the cable of a direction, which may name its VL, with its ends in that order: `sw0:2--sw1:3`."""
    near, _, far = lane.split(" ")[0].partition("->")
    return f"{near}--{far}"


def as_dot(topology: Topology, *, marks: Marks) -> str:
    """Return an undirected graph for Graphviz: switches are boxes, HFIs are ellipses.

    Args:    marks: what is wrong; a cable that is down is dashed and red.
    """
    return "\n".join(_dot_lines(topology, marks)) + "\n"


def _dot_lines(topology: Topology, marks: Marks) -> Iterator[str]:
    yield f"graph {_quoted(topology.name)} {{"
    for node in topology.nodes.values():
        shape = "box" if node.kind is NodeKind.SWITCH else "ellipse"
        label = f", label={_quoted(marks.name(node))}" if marks.node_faults(node) else ""
        yield f"  {_quoted(node.name)} [shape={shape}{label}];"
    for cable in topology.cables:
        (a, a_port), (b, b_port) = cable.a, cable.b
        style = ", style=dashed, color=red" if marks.state(cable) != "up" else ""
        label = f'taillabel="{a_port}", headlabel="{b_port}", label="{_label(cable, marks)}"'
        yield f"  {_quoted(a)} -- {_quoted(b)} [{label}{style}];"
    yield "}"


def _label(cable: Cable, marks: Marks) -> str:
    return f"{cable.rate_text}  {marks.text(cable)}".rstrip()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def as_mermaid(topology: Topology, *, marks: Marks) -> str:
    """Return a flowchart for Mermaid: switches are boxes, HFIs are round; a cable that is down is dotted."""
    return "\n".join(_mermaid_lines(topology, marks)) + "\n"


def _mermaid_lines(topology: Topology, marks: Marks) -> Iterator[str]:
    yield "graph TD"
    ids = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    for node in topology.nodes.values():
        text = re.sub(r'["#;\\]', lambda char: f"#{ord(char[0])};", marks.name(node))
        left, right = ("[", "]") if node.kind is NodeKind.SWITCH else ("([", "])")
        yield f'  {ids[node.name]}{left}"{text}"{right}'
    for cable in topology.cables:
        line = "---" if marks.state(cable) == "up" else "-.-"
        label = f"{cable.a[1]}:{cable.b[1]} {_label(cable, marks)}"
        yield f'  {ids[cable.a[0]]} {line}|"{label}"| {ids[cable.b[0]]}'
