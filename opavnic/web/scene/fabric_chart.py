"""The drawing of a fabric as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML.

A link is a line; each direction in which something flows is an arrow beside it, with its rate. What is wrong is said by
a sign and a word, not by a colour alone.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from hfi_sim.base.quantities import rounded_rate
from hfi_sim.base.text import counted
from hfi_sim.fabric.topology.marks import DOWN, DOWN_SIGN, FAULT_SIGN, FAULTY, fault_text
from opavnic.state.advice import advice
from opavnic.state.fabric import DirectionStatus, RoutesState
from opavnic.web.scene.charts import TOOLTIP, plain
from opavnic.web.scene.fold import CHATTER_BPS, GROUP, IDLE, Level, about, level_of
from opavnic.web.scene.labels import Label, placed
from opavnic.web.scene.layout import Layout, Plan, Room, Size, text_width
from opavnic.web.scene.scene import LinkView, NodeView, Scene

PATH: Final = "#00a38d"  # of the glow of a path
DROP_SIGN, FULL_SIGN = "▼", "▮"
SIGNS: Final = (
    (DOWN_SIGN, "down, or wrong"),
    (FAULT_SIGN, "fault set"),
    (DROP_SIGN, "drops packets"),
    (FULL_SIGN, "above three quarters of its rate"),
)
"""What stands before the name of a node or on a link, and what it means."""
KINDS: Final = {
    "host": ("roundRect", "#3f7332"),
    GROUP: ("roundRect", "#2f5a26"),
    "switch": ("rect", "#2f6f9f"),
    "manager": ("roundRect", "#6b6b6b"),
}
VESW_COLOURS: Final = ("#2f4b9c", "#8a4b08", "#00706a", "#7a1f5c", "#4f5d00", "#5b3fa0")
"""Colours of the virtual switches' labels, in the order of their names; their text says which it is, too."""
_FULL_LOAD: Final = 3 / 4
_FAINT: Final = 0.15
_RATES_SHOWN: Final = 24
"""Directions whose rate is written beside them: the fastest."""
_SMALL: Final = 1e-2
"""Share of the fastest below which a rate is not written: MADs beside a transfer."""
_BEND, _PARALLEL_BEND = 0.1, 0.2
_ROUND_BEND: Final = 0.18
"""Of a link that would run behind a node."""
_GLOW: Final = 14
"""Pixels of the band below the cables of a path."""
_BENT: Final = 260.0
"""Pixels of length from which a link is bent no further."""
_NAME: Final = 18
"""Characters of a name that are drawn on its node."""
_TAG_PRINT: Final = 10.0
_INK: Final = "#1b2530"


Path = Mapping[str, str]
"""Hops: directions of links, `leaf0:3->spine0:1`, each with queue and credits of its virtual lanes."""


def path_of(routes: RoutesState) -> Path:
    """Return the hops of all ways."""
    return {hop.name: _lanes_text(hop) for way in routes.hops for hop in way}


def _by_nodes(path: Path) -> dict[frozenset[str], list[str]]:
    """Return lines about the hops of a path by the two nodes that each joins."""
    found: dict[frozenset[str], list[str]] = {}
    for name, text in path.items():
        nodes = frozenset(end.rpartition(":")[0] for end in name.split("->"))
        found.setdefault(nodes, []).append(f"{name}: {text}")
    return found


def _lanes_text(hop: DirectionStatus) -> str:
    lanes = [
        f"VL {lane.vl}: {lane.waiting:,} bytes wait, {lane.credits:,} bytes of credit"
        for lane in hop.vls
        if lane.credits is not None
    ]
    dropped = sum(lane.overflows for lane in hop.vls)
    return "; ".join(lanes) or f"no credits, queue of {hop.queue_bytes:,} bytes, {dropped:,} overflows"


def plan_of(seen: Scene) -> Plan:
    """Return what of a lab decides where its nodes are drawn."""
    return Plan(
        texts={node.name: _node_text(node) for node in seen.nodes},
        leaves=frozenset(node.name for node in seen.nodes if node.kind != "switch"),
        cables=[(link.a, link.b) for link in seen.links],
        tagged=any(node.vesws for node in seen.nodes if node.kind == "host"),
        given=seen.positions,
    )


def fabric_chart(
    seen: Scene,
    drawn: Layout,
    room: Room,
    vesw: str | None = None,
    path: Path = MappingProxyType({}),
    *,
    by_use: bool = True,
) -> dict[str, Any]:
    """Return the drawing of a fabric.

    Args:  drawn: where its nodes are in the room. vesw: what is not on this virtual switch is drawn faintly. path: the
           hops whose links glow, and whose queues and credits are said where the pointer is. by_use: flows are coloured
           by how much they use of their link, otherwise by bits a second.
    """
    colours = vesw_colours(seen)
    nodes = [_node(node, vesw, colours, drawn, room) for node in seen.nodes]
    links, labels = _links(seen.links, _by_nodes(path), drawn, room, by_use)
    nodes += labels
    across, down = ([row[axis] for row in nodes] for axis in ("x", "y"))
    return {
        "animation": False,
        "aria": {"enabled": True, "label": {"description": described(seen)}},
        "tooltip": {
            **TOOLTIP,
            "confine": True,
            "textStyle": {"color": "#ffffff", "fontSize": room.print + room.unit},
        },
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "roam": True,
                "zoom": 1,
                # the box of all centres at its own place: positions are pixels
                **_pixels("left", "width", across),
                **_pixels("top", "height", down),
                "label": {"show": True, "color": "#fff", "fontSize": room.print},
                "emphasis": {"scale": False},
                "data": nodes,
                "links": links,
            }
        ],
    }


def _pixels(begin: str, size: str, places: Sequence[float]) -> dict[str, float]:
    """Return where a chart is to have its area along an axis, so that a place on it is a pixel."""
    least, most = min(places, default=0.0), max(places, default=0.0)
    if most == least:  # ECharts makes an area of such, one to each side
        least, most = least - 1, most + 1
    return {begin: least, size: most - least}


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


def _node(
    node: NodeView, vesw: str | None, colours: Mapping[str, str], drawn: Layout, room: Room
) -> dict[str, Any]:
    symbol, colour = KINDS[node.kind]
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
    (x, y), size = drawn.at[node.name], drawn.size[node.name]
    label = _on_node(node, size, colours, room)
    return {
        "id": node.name,
        "name": node.name,
        "value": node.name,
        "x": x,
        "y": y,
        "symbol": symbol,
        "symbolSize": list(size),
        "itemStyle": style,
        "label": label | {"show": text_width(_node_text(node), room.print) <= size[0]},
        "tooltip": {"formatter": plain("\n".join(lines))},
    }


def _node_text(node: NodeView) -> str:
    """Return what stands on a node: signs of what is wrong, and its name."""
    signs = (DOWN_SIGN if node.wrong else "") + (FAULT_SIGN if node.faults else "")
    name = counted(node.hosts, "host") if node.kind == GROUP else node.name
    name = plain(name if len(name) <= _NAME else name[: _NAME - 1] + "…")
    return f"{signs} {name}" if signs else name


def _on_node(node: NodeView, size: Size, colours: Mapping[str, str], room: Room) -> dict[str, Any]:
    """Return the label of a node: its text, and below it as many virtual switches that it is on as have room."""
    name, print_size = _node_text(node), max(_TAG_PRINT * room.unit, _TAG_PRINT)
    if node.kind != "host" or not node.vesws or size[1] < 2 * room.print + print_size:
        return {"formatter": name}
    names = [_short(tag) for tag in sorted(node.vesws)]

    def have_room(count: int) -> bool:
        shown = [*names[:count], *(["+9"] if count < len(names) else [])]
        return sum(text_width(tag, print_size) + 10 for tag in shown) <= size[0]

    tags = names[: next(filter(have_room, range(len(names), 1, -1)), 1)]
    rich = {
        f"v{index}": {
            "backgroundColor": colours.get(tag, PATH),
            "color": "#fff",
            "padding": [1, 3],
            "borderRadius": 3,
            "fontSize": print_size,
            "height": print_size + 1,
        }
        for index, tag in enumerate(sorted(node.vesws)[: len(tags)])
    }
    below = " ".join(f"{{v{index}|{tag}}}" for index, tag in enumerate(tags))
    more = f" +{len(names) - len(tags)}" if len(names) > len(tags) else ""
    return {"formatter": f"{name}\n{below}{more}", "rich": rich, "lineHeight": print_size * 1.6}


def _short(name: str) -> str:
    """Return what of a virtual switch's name has room on a node."""
    text = plain(name).replace("|", "/")
    return text if len(text) <= 7 else text[:6] + "…"


def _links(
    links: Sequence[LinkView],
    marked: Mapping[frozenset[str], Sequence[str]],
    drawn: Layout,
    room: Room,
    by_use: bool,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of links and of what flows on them, and what is said about them as rows of nodes."""
    least = max((bits for link in links for bits in (link.bits_forth, link.bits_back)), default=0.0) * _SMALL
    beside: dict[frozenset[str], int] = {}
    rows: list[dict[str, Any]] = []
    said: list[tuple[float, str]] = []
    for link in links:
        pair = frozenset((link.a, link.b))
        number = beside[pair] = beside.get(pair, -1) + 1
        straight = min(_BENT * room.unit / max(math.dist(drawn.at[link.a], drawn.at[link.b]), 1.0), 1.0)
        bend = _PARALLEL_BEND * straight * number  # parallel cables are bent, each more than the one before
        if drawn.is_hidden(link.a, link.b):
            bend += _ROUND_BEND
        tip = {"tooltip": {"formatter": plain("\n".join([*_glance(link), *marked.get(pair, ())]))}}
        if pair in marked and link.up:  # below it, and no shadow: an upright or level line has none in an SVG
            rows.append(_line(link, bend, color=PATH, width=_GLOW, opacity=0.5) | tip)
            said.append((0, ""))
        rows.append(_line(link, bend) | tip)
        said.append((math.inf, "  ".join(_signs(link))))
        if not link.up:
            continue
        for source, target, bits, rate_bps, way in (
            (link.a, link.b, link.bits_forth, link.rate_bps_forth, 1),
            (link.b, link.a, link.bits_back, link.rate_bps_back, -1),
        ):
            if level_of(bits) is not IDLE:
                full = bits > _FULL_LOAD * rate_bps
                level = level_of(bits, rate_bps if by_use else None)
                row = _arrow(source, target, link, level, room)
                row["lineStyle"] |= {"curveness": _BEND * straight + way * bend}
                rows.append(row | tip)
                rate = about(bits) + (f" {FULL_SIGN}" if full else "")
                enough = max(least, CHATTER_BPS) if level.faint else least
                said.append((bits, rate if full or bits >= enough else ""))
    return rows, _labels(rows, said, drawn, room)


def _labels(
    rows: Sequence[Mapping[str, Any]], said: Sequence[tuple[float, str]], drawn: Layout, room: Room
) -> list[dict[str, Any]]:
    """Return what is said about links, where there is room for it. Args: said: how much it matters, and the text."""
    signs = [number for number, (matters, text) in enumerate(said) if text and matters == math.inf]
    rates = [number for number, (matters, text) in enumerate(said) if text and matters < math.inf]
    wanted = [*signs, *heapq.nlargest(_RATES_SHOWN, rates, key=lambda number: said[number][0])]
    lines = [(drawn.at[row["source"]], drawn.at[row["target"]]) for row in rows]
    labels = [
        Label(
            link=number,
            text=said[number][1],
            size=(text_width(said[number][1], room.print) + 6, room.print * 1.3),
            ends=lines[number],
            bend=rows[number]["lineStyle"]["curveness"],
            alone=said[number][0] == math.inf,
        )
        for number in wanted
    ]
    boxes = [(drawn.at[name], drawn.size[name]) for name in drawn.at]
    return [
        {
            "id": f"about link {label.link}",
            "name": rows[label.link]["value"],
            "value": rows[label.link]["value"],
            "x": at[0],
            "y": at[1],
            "symbol": "roundRect",
            "symbolSize": list(label.size),
            "itemStyle": {"color": "#ffffff"},
            "label": {"color": _INK, "formatter": plain(label.text)},
            "tooltip": rows[label.link]["tooltip"],
        }
        for label, at in placed(labels, boxes, (room.width, drawn.height), lines)
    ]


def _signs(link: LinkView) -> list[str]:
    """Return the signs of what is wrong about a cable."""
    return [
        *([f"{DOWN_SIGN} {link.state}"] if link.is_wrong else []),
        *([fault_text(link.faults)] if link.faults else []),
        *([f"{DROP_SIGN} drops"] if link.drops else []),
    ]


def _line(link: LinkView, bend: float, **style: object) -> dict[str, Any]:
    """Return the cable itself, but for what is given of its style."""
    return {
        "source": link.a,
        "target": link.b,
        "value": link.name,
        "lineStyle": {
            "color": colour(link),
            "width": IDLE.width,
            "type": "solid" if link.up else "dashed",
            "curveness": bend,
            "opacity": 1,
            **style,
        },
    }


def _arrow(source: str, target: str, link: LinkView, level: Level, room: Room) -> dict[str, Any]:
    """Return what flows on a cable in one direction."""
    return {
        "source": source,
        "target": target,
        "value": link.name,
        "symbol": ["none", "none" if level.faint else "arrow"],
        "symbolSize": (6 + level.width) * room.unit,
        "lineStyle": {
            "color": level.colour,
            "width": level.width * room.unit,
            "type": "solid",
            "opacity": level.opacity,
        },
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
