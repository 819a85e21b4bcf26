"""The drawing of a fabric as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML.

A link is a line; each direction in which something flows is an arrow beside it, with its rate. What is wrong is said by
a sign and a word, not by a colour alone.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.quantities import rounded_rate
from hfi_sim.base.text import counted
from opavnic.state.advice import advice
from opavnic.state.fabric import DirectionStatus, RoutesState
from opavnic.web.scene.charts import TOOLTIP, plain
from opavnic.web.scene.fold import GROUP, IDLE, Level, about, level_of
from opavnic.web.scene.scene import LinkView, NodeView, Scene

DOWN, FAULTY, PATH = "#c0392b", "#9450b4", "#00a38d"
"""Colours of what is down or wrong, of what has a fault set, and of the glow of a path."""
DOWN_SIGN, FAULT_SIGN, DROP_SIGN, FULL_SIGN = "✕", "⚠", "▼", "▮"
SIGNS: Final = (
    (DOWN_SIGN, "down, or wrong"),
    (FAULT_SIGN, "fault set"),
    (DROP_SIGN, "drops packets"),
    (FULL_SIGN, "above three quarters of its rate"),
)
"""What stands before the name of a node or on a link, and what it means."""
_KINDS: Final = {
    "host": ("roundRect", "#3f7332"),
    GROUP: ("roundRect", "#2f5a26"),
    "switch": ("rect", "#2f6f9f"),
    "manager": ("roundRect", "#6b6b6b"),
}
VESW_COLOURS: Final = ("#2f4b9c", "#8a4b08", "#00706a", "#7a1f5c", "#4f5d00", "#5b3fa0")
"""Colours of the virtual switches' labels, in the order of their names; their text says which it is, too."""
_FULL_LOAD: Final = 3 / 4
_LABEL_WIDTH: Final = 30
"""Width in pixels of a node below which its name is shown only where the pointer is: it would not fit."""
_VESW_WIDTH: Final = 60
"""Width in pixels of a node from which its virtual switches are named on it."""
_VESWS_NAMED: Final = 4
_VESW_LINE: Final = 14
"""Height in pixels that the names of virtual switches need on a node."""
_MANY: Final = 60
_FAINT: Final = 0.15
_RATES_SHOWN: Final = 24
"""Directions whose rate is written beside them: the fastest."""
_SMALL: Final = 1e-2
"""Share of the fastest below which a rate is not written: MADs beside a transfer."""
_BEND, _PARALLEL_BEND = 0.1, 0.2
_LEAST_PRINT: Final = 10.0


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


def fabric_chart(
    seen: Scene,
    vesw: str | None = None,
    path: Sequence[HopView] = (),
    scale: float = 1.0,
    *,
    by_use: bool = True,
) -> dict[str, Any]:
    """Return the drawing of a fabric.

    Args:  vesw: what is not on this virtual switch is drawn faintly. path: the hops whose links glow, and whose queues
           and credits are said where the pointer is. scale: how much larger nodes and print are on a large screen.
           by_use: flows are coloured by how much they use of their link, otherwise by bits a second.
    """
    colours = vesw_colours(seen)
    return {
        "animation": False,
        "aria": {"enabled": True, "label": {"description": described(seen)}},
        "tooltip": {
            **TOOLTIP,
            "confine": True,
            "textStyle": {"color": "#ffffff", "fontSize": _print(13, scale)},
        },
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "roam": True,
                "zoom": 1,
                "label": {
                    "show": True,
                    "color": "#fff",
                    "fontSize": _print(11 if len(seen.nodes) > _MANY else 12, scale),
                },
                "edgeLabel": {
                    "rotate": 0,
                    "fontSize": _print(13, scale),
                    "lineHeight": _print(15, scale),  # else as high as a character that few fonts have
                    "color": "#1b2530",
                    "backgroundColor": "#ffffff",
                    "padding": [1, 3],
                    "borderRadius": 3,
                },
                "emphasis": {"label": {"show": True}, "scale": False},
                "data": [_node(node, vesw, colours, scale) for node in seen.nodes],
                "links": _links(seen.links, hops_by_nodes(path), scale, by_use),
            }
        ],
    }


def vesw_colours(seen: Scene) -> dict[str, str]:
    """Return the colour of each virtual switch, by name."""
    return {name: VESW_COLOURS[index % len(VESW_COLOURS)] for index, name in enumerate(seen.vesws)}


def described(seen: Scene) -> str:
    """Return the drawing in words, for screen readers."""
    hosts = sum(node.hosts for node in seen.nodes if node.kind in ("host", GROUP))
    groups = [node.name for node in seen.nodes if node.kind == GROUP]
    switches = sum(node.kind == "switch" for node in seen.nodes)
    down = [link.name for link in seen.links if link.is_wrong]
    said = (
        f"Fabric of lab {seen.state.lab}: {hosts} HFIs of hosts, {switches} switches, {len(seen.links)} links"
    )
    if groups:
        said += f", folded: {', '.join(groups)}"
    return f"{said}, down: {', '.join(down)}." if down else f"{said}, all up."


def _node(node: NodeView, vesw: str | None, colours: Mapping[str, str], scale: float) -> dict[str, Any]:
    symbol, colour = _KINDS[node.kind]
    lines = [node.name, node.kind if node.lid is None else f"{node.kind}, LID {node.lid:#x}"]
    lines += [", ".join(sorted(node.vesws))] if node.vesws and not node.vnics else []
    lines += node.vnics
    lines += [node.wrong] if node.wrong else []
    lines += [f"faults: {', '.join(map(str, node.faults))}"] if node.faults else []
    shown = vesw is None or node.kind == "switch" or vesw in node.vesws
    style: dict[str, Any] = {
        "color": DOWN if node.wrong else FAULTY if node.faults else colour,
        "opacity": 1 if shown else _FAINT,
    }
    if vesw is not None and vesw in node.vesws:
        style |= {"borderColor": colours.get(vesw, PATH), "borderWidth": 3}
    label = _name(node, colours, scale) | {"show": node.size[0] * scale >= _LABEL_WIDTH}
    return {
        "id": node.name,
        "name": node.name,
        "value": node.name,
        "x": node.at[0],
        "y": node.at[1],
        "symbol": symbol,
        "symbolSize": [node.size[0] * scale, (node.size[1] + (_VESW_LINE if "rich" in label else 0)) * scale],
        "itemStyle": style,
        "label": label,
        "tooltip": {"formatter": plain("\n".join(lines))},
    }


def _name(node: NodeView, colours: Mapping[str, str], scale: float) -> dict[str, Any]:
    """Return the label of a node: signs of what is wrong, its name, and below it the virtual switches that it is on."""
    signs = (DOWN_SIGN if node.wrong else "") + (FAULT_SIGN if node.faults else "")
    narrow = node.size[0] * scale < _VESW_WIDTH
    name = node.name
    if node.kind == GROUP:
        name = str(node.hosts) if narrow or signs else counted(node.hosts, "host")
    name = plain(f"{signs} {name}" if signs else name)
    if not node.vesws or narrow or node.kind != "host":
        return {"formatter": name}
    tags = sorted(node.vesws)[:_VESWS_NAMED]
    rich = {
        f"v{index}": {
            "backgroundColor": colours.get(tag, PATH),
            "color": "#fff",
            "padding": [1, 3],
            "borderRadius": 3,
            "fontSize": 10 * scale,
            "height": 11 * scale,
        }
        for index, tag in enumerate(tags)
    }
    below = " ".join(f"{{v{index}|{_short(tag)}}}" for index, tag in enumerate(tags))
    more = f" +{len(node.vesws) - len(tags)}" if len(node.vesws) > len(tags) else ""
    return {"formatter": f"{name}\n{below}{more}", "rich": rich, "lineHeight": 16 * scale}


def _print(size: float, scale: float) -> float:
    """Return the size of print in pixels: on a phone it is not as small as what it is beside."""
    return max(size * scale, _LEAST_PRINT)


def _short(name: str) -> str:
    """Return what of a virtual switch's name has room on a node."""
    text = plain(name).replace("|", "/")
    return text if len(text) <= 7 else text[:6] + "…"


def _links(
    links: Sequence[LinkView], marked: Mapping[frozenset[str], Sequence[str]], scale: float, by_use: bool
) -> list[dict[str, Any]]:
    flows = [bits for link in links for bits in (link.bits_forth, link.bits_back)]
    named = max(int(_RATES_SHOWN * min(scale, 1.0)), 1)
    shown_from = max(min(heapq.nlargest(named, flows), default=0.0), max(flows, default=0.0) * _SMALL)
    beside: dict[frozenset[str], int] = {}
    rows = []
    for link in links:
        pair = frozenset((link.a, link.b))
        number = beside[pair] = beside.get(pair, -1) + 1
        bend = _PARALLEL_BEND * number  # parallel cables are bent, each more than the one before
        said = {"tooltip": {"formatter": plain("\n".join([*_glance(link), *marked.get(pair, ())]))}}
        glow = {"shadowBlur": 8, "shadowColor": PATH} if pair in marked and link.up else {}
        rows.append(_line(link, bend, glow) | said)
        if not link.up:
            continue
        for source, target, bits, rate_bps, way in (
            (link.a, link.b, link.bits_forth, link.rate_bps_forth, 1),
            (link.b, link.a, link.bits_back, link.rate_bps_back, -1),
        ):
            if level_of(bits) is not IDLE:
                full = bits > _FULL_LOAD * rate_bps
                level = level_of(bits, rate_bps if by_use else None)
                row = _arrow(
                    source, target, bits, link, level, full=full, named=bits >= shown_from, scale=scale
                )
                row["lineStyle"] |= glow | {"curveness": _BEND + way * bend}
                rows.append(row | said)
    return rows


def _line(link: LinkView, bend: float, glow: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cable itself, with the signs of what is wrong about it."""
    signs = [
        *([f"{DOWN_SIGN} down"] if not link.up else [f"{DOWN_SIGN} {link.down} down"] if link.down else []),
        *([f"{FAULT_SIGN} {', '.join(map(str, link.faults))}"] if link.faults else []),
        *([f"{DROP_SIGN} drops"] if link.drops else []),
    ]
    return {
        "source": link.a,
        "target": link.b,
        "value": link.name,
        "lineStyle": {
            "color": colour(link),
            "width": 5 if glow else IDLE.width,
            "type": "solid" if link.up else "dashed",
            "curveness": bend,
            "opacity": 1,
            **glow,
        },
        "label": {"show": bool(signs), "formatter": plain("  ".join(signs))},
    }


def _arrow(
    source: str,
    target: str,
    bits: float,
    link: LinkView,
    level: Level,
    *,
    full: bool,
    named: bool,
    scale: float,
) -> dict[str, Any]:
    """Return what flows on a cable in one direction."""
    return {
        "source": source,
        "target": target,
        "value": link.name,
        "symbol": ["none", "arrow"],
        "symbolSize": (6 + level.width) * scale,
        "lineStyle": {"color": level.colour, "width": level.width * scale, "type": "solid", "opacity": 1},
        "label": {"show": named or full, "formatter": about(bits) + (f" {FULL_SIGN}" if full else "")},
    }


def colour(link: LinkView) -> str:
    """Return the colour of a cable: what is worst about it decides."""
    if link.is_wrong:
        return DOWN
    return FAULTY if link.faults else IDLE.colour


def _glance(link: LinkView) -> list[str]:
    """Return what the pointer shows of a link: about how fast it is, not all of `link_lines` (`about`)."""
    return [
        f"{link.name}  {link.rate_text}  {link.state}",
        f"{link.a} -> {link.b}: {about(link.bits_forth) or 'idle'}",
        f"{link.b} -> {link.a}: {about(link.bits_back) or 'idle'}",
        *(["it drops packets"] if link.drops else []),
        *_faults(link),
    ]


def link_lines(link: LinkView) -> list[str]:
    """Return what is to be said of a link, a line each."""
    lines = [
        f"{link.name}  {link.rate_text}  {link.state}",
        f"{link.a} -> {link.b}: {rounded_rate(link.bits_forth)}",
        f"{link.b} -> {link.a}: {rounded_rate(link.bits_back)}",
        f"{link.packets:,.0f} packets/s",
    ]
    if link.drops:
        lines.append(f"{link.drops:,.0f} drops/s")
    return lines + _faults(link)


def busiest(seen: Scene, count: int) -> list[str]:
    """Return the fastest directions with their rates, a line each: exact, where the drawing says about how much."""
    flows = [
        (bits, f"{source} -> {target}")
        for link in seen.links
        for bits, source, target in ((link.bits_forth, link.a, link.b), (link.bits_back, link.b, link.a))
        if level_of(bits) is not IDLE
    ]
    return [f"{rounded_rate(bits)}  {way}" for bits, way in heapq.nlargest(count, flows)]


def drop_lines(
    now: Mapping[str, Mapping[str, int]], opened: Mapping[str, Mapping[str, int]], count: int
) -> list[str]:
    """Return what was dropped since the page was opened, the most first, with what each reason means; then the rest.

    Args:  now, opened: by element and reason; opened is what they were when the page was opened. count: lines at most.
    """
    meaning = advice()
    fresh = [
        (number - opened.get(element, {}).get(reason, 0), reason, element)
        for element, reasons in now.items()
        for reason, number in reasons.items()
    ]
    lines = [
        f"{number:,} {reason} at {element}: {meaning[reason].what.partition('.')[0] if reason in meaning else 'a drop'}"
        for number, reason, element in sorted(fresh, key=lambda row: (-row[0], row[1:]))[:count]
        if number > 0
    ]
    before: Counter[str] = Counter()
    for reasons in opened.values():
        before.update({reason: number for reason, number in reasons.items() if number})
    if before:
        most, _ = before.most_common(1)[0]
        harmless = meaning[most].harmless if most in meaning else ""
        told = f", harmless {harmless.partition(':')[0]}" if harmless else ""
        lines.append(f"before that {before.total():,}, most of them {most}{told}")
    return lines


def _faults(link: LinkView) -> list[str]:
    return [f"faults: {', '.join(map(str, link.faults))}"] if link.faults else []
