"""Scenes as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.quantities import rate_text, rounded_rate
from opavnic.observe.event_timeline import clock_text, event_text
from opavnic.state.em import EmEvent
from opavnic.state.fabric import DirectionStatus, RoutesState
from opavnic.web.scene.scene import LinkView, NodeView, Scene

GOOD, BUSY, FULL, DOWN, FAULTY = "#8a97a5", "#d9a514", "#d35400", "#c0392b", "#8e44ad"
"""Colours of links: idle, above a third of their rate, above three quarters, down, with a fault."""
PATH: Final = "#1668b8"
_KINDS: Final = {
    "host": ("roundRect", "#4d8a3d"),
    "switch": ("rect", "#2f6f9f"),
    "manager": ("roundRect", "#6b6b6b"),
}
_BUSY_LOAD, _FULL_LOAD = 1 / 3, 3 / 4
_LOADS: Final = (0.01, 0.1, _BUSY_LOAD, _FULL_LOAD)
_WIDTHS: Final = 8
"""Widths that a link is drawn with, by its load."""
_LABEL_WIDTH: Final = 30
"""Width in pixels of a node below which its name is shown only where the pointer is: it would not fit."""
_MANY: Final = 60
_FAINT: Final = 0.15


@dataclass(frozen=True, slots=True)
class HopView:
    """One hop of a path: a direction of a link, and what waits on it."""

    name: str
    """`leaf0:3->spine0:1`."""
    text: str
    """Queue and credits of its virtual lanes."""


def hops_of(routes: RoutesState) -> list[HopView]:
    """Return the hops of all ways, each once."""
    return list(dict.fromkeys(HopView(hop.name, _lanes_text(hop)) for way in routes.hops for hop in way))


def hops_by_nodes(path: Sequence[HopView]) -> dict[frozenset[str], list[str]]:
    """Return lines about the hops of a path by the two nodes that each joins."""
    found: dict[frozenset[str], list[str]] = {}
    for hop in path:
        nodes = frozenset(end.rpartition(":")[0] for end in hop.name.split("->"))
        found.setdefault(nodes, []).append(f"{hop.name}: {hop.text}")
    return found


def _lanes_text(hop: DirectionStatus) -> str:
    lanes = [
        f"VL {lane.vl}: {lane.waiting:,} bytes wait, {lane.credits:,} bytes of credit"
        for lane in hop.vls
        if lane.credits is not None
    ]
    dropped = sum(lane.overflows for lane in hop.vls)
    return "; ".join(lanes) or f"no credits, queue of {hop.queue_bytes:,} bytes, {dropped:,} overflows"


def topology(seen: Scene, vesw: str | None = None, path: Sequence[HopView] = ()) -> dict[str, Any]:
    """Return the drawing of a fabric.

    Args:  vesw: what is not on this virtual switch is drawn faintly. path: the hops whose links are marked, and
           whose queues and credits are said where the pointer is.
    """
    many = min((node.size[0] for node in seen.nodes), default=0) < _LABEL_WIDTH
    marked = hops_by_nodes(path)
    return {
        "animation": False,
        "aria": {"enabled": True, "label": {"description": described(seen)}},
        "tooltip": {"renderMode": "richText", "confine": True},
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "roam": True,
                "zoom": 1,
                "edgeSymbol": ["none", "none"],
                "label": {
                    "show": not many,
                    "color": "#fff",
                    "fontSize": 10 if len(seen.nodes) > _MANY else 11,
                },
                "emphasis": {"label": {"show": True}, "scale": False},
                "labelLayout": {"hideOverlap": True},
                "data": [_node(node, vesw) for node in seen.nodes],
                "links": _links(seen.links, marked),
            }
        ],
    }


def described(seen: Scene) -> str:
    """Return the drawing in words, for screen readers."""
    hosts = sum(node.kind == "host" for node in seen.nodes)
    switches = sum(node.kind == "switch" for node in seen.nodes)
    down = [link.name for link in seen.links if not link.up]
    said = (
        f"Fabric of lab {seen.state.lab}: {hosts} HFIs of hosts, {switches} switches, {len(seen.links)} links"
    )
    return f"{said}, down: {', '.join(down)}." if down else f"{said}, all up."


def _node(node: NodeView, vesw: str | None) -> dict[str, Any]:
    symbol, colour = _KINDS[node.kind]
    lines = [node.name, node.kind if node.lid is None else f"{node.kind}, LID {node.lid:#x}"]
    lines += [", ".join(sorted(node.vesws))] if node.vesws else []
    lines += [node.wrong] if node.wrong else []
    lines += [f"faults: {', '.join(map(str, node.faults))}"] if node.faults else []
    shown = vesw is None or node.kind == "switch" or vesw in node.vesws
    return {
        "id": node.name,
        "name": node.name,
        "x": node.at[0],
        "y": node.at[1],
        "symbol": symbol,
        "symbolSize": list(node.size),
        "itemStyle": {
            "color": DOWN if node.wrong else FAULTY if node.faults else colour,
            "opacity": 1 if shown else _FAINT,
        },
        "tooltip": {"formatter": _plain("\n".join(lines))},
    }


def _links(links: Sequence[LinkView], marked: Mapping[frozenset[str], Sequence[str]]) -> list[dict[str, Any]]:
    seen: dict[frozenset[str], int] = {}
    rows = []
    for link in links:
        pair = frozenset((link.a, link.b))
        beside = seen.get(pair, 0)  # parallel cables are bent, each more than the one before
        seen[pair] = beside + 1
        rows.append(
            {
                "source": link.a,
                "target": link.b,
                "value": link.name,
                "lineStyle": {
                    "color": PATH if pair in marked and link.up else colour(link),
                    "width": 5 if pair in marked else 2 + round(_WIDTHS * link.load) * 4 / _WIDTHS,
                    "type": "solid" if link.up else "dashed",
                    "curveness": 0.12 * beside,
                    "opacity": 1,
                },
                "tooltip": {"formatter": _plain("\n".join([*_glance(link), *marked.get(pair, ())]))},
            }
        )
    return rows


def colour(link: LinkView) -> str:
    """Return the colour of a link: what is worst about it decides."""
    if not link.up:
        return DOWN
    if link.faults:
        return FAULTY
    if link.load > _FULL_LOAD:
        return FULL
    return BUSY if link.load > _BUSY_LOAD else GOOD


def _glance(link: LinkView) -> list[str]:
    """Return what the pointer shows of a link: about how loaded it is, not all of `link_lines`.

    The drawing is sent and drawn anew, whole, when it changes, and no flow is quite as fast as it was a second before:
    so it changes only when a load is of another order.
    """
    return [
        f"{link.name}  {rate_text(link.rate_bps)}  {'up' if link.up else 'down'}",
        f"{link.a} -> {link.b}: {_load_text(link.bits_forth / link.rate_bps)}",
        f"{link.b} -> {link.a}: {_load_text(link.bits_back / link.rate_bps)}",
        *(["it drops packets"] if link.drops else []),
        *_faults(link),
    ]


def _load_text(load: float) -> str:
    """Return a share of a link's rate, to its order."""
    if not load:
        return "nothing"
    below = next((step for step in _LOADS if load <= step), None)
    return (
        f"up to {below:.0%} of its rate" if below is not None else f"more than {_FULL_LOAD:.0%} of its rate"
    )


def link_lines(link: LinkView) -> list[str]:
    """Return what is to be said of a link, a line each."""
    lines = [
        f"{link.name}  {rate_text(link.rate_bps)}  {'up' if link.up else 'down'}",
        f"{link.a} -> {link.b}: {rounded_rate(link.bits_forth)}",
        f"{link.b} -> {link.a}: {rounded_rate(link.bits_back)}",
        f"{link.packets:,.0f} packets/s",
    ]
    if link.drops:
        lines.append(f"{link.drops:,.0f} drops/s")
    return lines + _faults(link)


def _faults(link: LinkView) -> list[str]:
    return [f"faults: {', '.join(map(str, link.faults))}"] if link.faults else []


def plot(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return a plot over time.

    Args:  series: points (seconds since the Epoch, value), oldest first, by name.
    """
    return {
        "animation": False,
        "aria": {"enabled": True},
        "useUTC": True,
        "title": {"text": f"{title}, {unit}" if title else unit, "left": 0, "textStyle": {"fontSize": 13}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "legend": {"top": 0, "right": 10},
        "grid": {"left": 60, "right": 20, "top": 40, "bottom": 25},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True}},
        "yAxis": {"type": "value", "min": 0},
        "series": [
            {
                "type": "line",
                "name": name,
                "showSymbol": False,
                "data": [[when * 1000, value] for when, value in points],
            }
            for name, points in series.items()
        ],
    }


def bars(unit: str, names: Sequence[str], pieces: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return lying bars, each of stacked pieces. Args: pieces: lengths in each bar, by name of the piece."""
    return {
        "animation": False,
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "renderMode": "richText"},
        "legend": {"top": 0, "type": "scroll"},
        "grid": {"left": 10, "right": 30, "top": 35, "bottom": 25, "containLabel": True},
        "xAxis": {"type": "value", "name": unit, "nameLocation": "middle", "nameGap": 24, "min": 0},
        "yAxis": {"type": "category", "data": list(names), "inverse": True},
        "series": [
            {"type": "bar", "stack": "all", "name": name, "data": list(lengths), "barMaxWidth": 24}
            for name, lengths in pieces.items()
        ],
    }


def timeline(events: Sequence[EmEvent]) -> dict[str, Any]:
    """Return events of the Ethernet Manager over time, a row for each kind."""
    kinds = list(dict.fromkeys(event.kind for event in events))
    return {
        "animation": False,
        "aria": {"enabled": True},
        "useUTC": True,
        "tooltip": {"renderMode": "richText"},
        "grid": {"left": 140, "right": 20, "top": 20, "bottom": 25},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True}},
        "yAxis": {"type": "category", "data": kinds, "inverse": True},
        "series": [
            {
                "type": "scatter",
                "symbolSize": 9,
                "data": [
                    {
                        "value": [event.time * 1000, event.kind],
                        "tooltip": {"formatter": _plain(f"{clock_text(event.time)}  {event_text(event)}")},
                    }
                    for event in events
                ],
            }
        ],
    }


def _plain(text: str) -> str:
    """Return text for a formatter of ECharts, which would replace {a} and read {style|text}."""
    return text.replace("{", "(").replace("}", ")")
