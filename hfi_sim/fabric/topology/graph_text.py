"""A topology in the languages of drawing programs: DOT (Graphviz) and Mermaid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hfi_sim.fabric.topology.model import NodeKind, Topology

Mark = Callable[[str], bool]


def as_dot(topology: Topology, *, is_down: Mark) -> str:
    """Return an undirected graph for Graphviz: switches are boxes, HFIs are ellipses.

    Args:    is_down: whether the cable of that name is to be drawn as down: dashed and red.
    """
    return "\n".join(_dot_lines(topology, is_down)) + "\n"


def _dot_lines(topology: Topology, is_down: Mark) -> Iterator[str]:
    yield f"graph {_quoted(topology.name)} {{"
    for node in topology.nodes.values():
        shape = "box" if node.kind is NodeKind.SWITCH else "ellipse"
        yield f"  {_quoted(node.name)} [shape={shape}];"
    for cable in topology.cables:
        (a, a_port), (b, b_port) = cable.a, cable.b
        style = ", style=dashed, color=red" if is_down(cable.name) else ""
        label = f'taillabel="{a_port}", headlabel="{b_port}", label="{cable.rate_text}"'
        yield f"  {_quoted(a)} -- {_quoted(b)} [{label}{style}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def as_mermaid(topology: Topology, *, is_down: Mark) -> str:
    """Return a flowchart for Mermaid: switches are boxes, HFIs are round; a cable that is down is dotted."""
    return "\n".join(_mermaid_lines(topology, is_down)) + "\n"


def _mermaid_lines(topology: Topology, is_down: Mark) -> Iterator[str]:
    yield "graph TD"
    ids = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    for node in topology.nodes.values():
        text = re.sub(r'["#;\\]', lambda char: f"#{ord(char[0])};", node.name)
        left, right = ("[", "]") if node.kind is NodeKind.SWITCH else ("([", "])")
        yield f'  {ids[node.name]}{left}"{text}"{right}'
    for cable in topology.cables:
        line = "-.-" if is_down(cable.name) else "---"
        label = f"{cable.a[1]}:{cable.b[1]} {cable.rate_text}"
        yield f'  {ids[cable.a[0]]} {line}|"{label}"| {ids[cable.b[0]]}'
