"""Pages that open offline, one HTML file each, without scripts, and their parts: drawings, tables, the ways of packets
hop by hop, who decided each field of a header, MADs as a sequence diagram. Text is escaped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from hfi_sim.base.drawing import BLUE, BROWN, DIM, GREEN, RED, RULE, Canvas
from hfi_sim.base.errors import WireError
from hfi_sim.base.text import counted, visible, xml_text
from hfi_sim.wire.lrh16b import L4, l4_of
from opavnic.decode.describe import DescribedField, describe_packet
from opavnic.decode.summary import summarize
from opavnic.management.management_layout import layers
from opavnic.observe.drawings import KEY, MESSAGES_DRAWN, header_drawing, sequence, way_drawing
from opavnic.observe.journeys import Hop, Journey, Message, messages

COLOURS: Final = files("opavnic.observe").joinpath("colours.css").read_text()
"""Variables of CSS, light and dark."""
_PAGE_STYLE: Final = """
body { font: 1rem/1.45 system-ui, sans-serif; margin: 2.2rem auto 1rem; max-width: 90rem; padding: 0 1rem; }
body { background: var(--paper); color: var(--ink); } a { color: var(--link); }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid; }
pre { background: var(--panel); padding: .8rem; overflow: auto; } .failed { color: var(--bad); }
.drawing { max-height: 75vh; } .colours { position: absolute; top: .5rem; right: 1rem; }
@media (prefers-color-scheme: light) { :root:has(.colours :checked) { color-scheme: dark; } }
@media (prefers-color-scheme: dark) { :root:has(.colours :checked) { color-scheme: light; } }
@media (min-width: 2200px) { body { zoom: 1.35; } }
@media (min-width: 3200px) { body { zoom: 2; } }
"""
_SWITCH: Final = '<label class="colours"><input type="checkbox"> other colours</label>'
_DRAWN: Final = {
    DIM: "--dim",
    RULE: "--rule",
    BLUE: "--rate",
    GREEN: "--good",
    BROWN: "--fault",
    RED: "--bad",
}
"""Colours of drawings, which also stand alone, on white, and what they are on a page."""
PARTS_STYLE: Final = """
.parts pre, .parts code, .parts td { font-family: ui-monospace, monospace; font-size: .85rem; }
.parts table { border-collapse: collapse; margin: .5rem 0; } .parts td.n { text-align: right; }
.parts td, .parts th { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top; }
@media (max-width: 599px) { .parts td { overflow-wrap: anywhere; min-width: 2.5rem; } }
.parts .drawing { overflow: auto; } .parts svg { min-width: 44rem; max-width: 100%; height: auto; }
.parts .fields td:nth-child(2) { white-space: nowrap; }
.parts :target { outline: 2px solid var(--link); }
.parts summary { cursor: pointer; overflow-wrap: anywhere; display: list-item; }
.parts text:not([fill]) { fill: var(--ink); } .parts rect[fill="white"] { fill: var(--paper); }
.parts [stroke="white"] { stroke: var(--paper); }
.replayed.live line { stroke: var(--dim); stroke-dasharray: none; stroke-width: 1; }
.replayed.live text[data-link] { visibility: hidden; } .replayed.live text[data-link].is-down { visibility: visible; }
.replayed.live line.is-faulty { stroke: var(--fault); stroke-width: 4; }
.replayed.live line.is-down { stroke: var(--bad); stroke-width: 3; stroke-dasharray: 5 4; }
.replayed.live rect.is-faulty { stroke: var(--fault); stroke-width: 4; }
.replayed.live rect.is-down { fill: var(--bad); }
""" + "\n".join(
    f'.parts text[fill="{drawn}"], .parts path[fill="{drawn}"] {{ fill: var({shown}); }} '
    f'.parts [stroke="{drawn}"] {{ stroke: var({shown}); }}'
    for drawn, shown in _DRAWN.items()
)
"""Of what stands within an element of the class `parts`, on a page of its own or on one of the web view."""


def drawing(drawn: Canvas, what: str, *, links: bool = False, replayed: bool = False) -> str:
    """Return a drawing as a part of a page that can be scrolled with the keyboard.

    Args:  what: it shows, plain text. links: there are some in it. replayed: the timeline of the page shows in it what
           was so at its cursor.
    """
    classes = "drawing replayed" if replayed else "drawing"
    svg = drawn.svg(what, role="group" if links else "img")
    return f'<div class="{classes}" tabindex="0" role="region" aria-label="{xml_text(what)}">{svg}</div>'


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page. Args: title: of the browser's tab, plain text. parts: of its body, HTML."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{xml_text(visible(title))}</title><style>{COLOURS}{_PAGE_STYLE}{PARTS_STYLE}</style></head>"
            '<body class="parts"><main>',
            *parts,
            f"{_SWITCH}</main></body></html>\n",
        ]
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], nothing: str, kind: str = "") -> str:
    """Return a table; where it has no rows, the text `nothing` in its place. Args: kind: its class."""
    rows = list(rows)
    if not rows:
        return f"<p>{nothing}</p>"
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table{f' class={kind}' if kind else ''}><tr>{head}</tr>\n{body}</table>"


def _cell(value: object) -> str:
    return f'<td class="n">{value}</td>' if isinstance(value, int) else f"<td>{xml_text(str(value))}</td>"


# --- the way of a packet, and what it holds ----------------------------------------------------------------

_SLID, _DLID = (
    "the subnet manager: PortInfo of the sending port",
    "the MAC table of the virtual switch; else the LID within the MAC address; else u_ucast_dlid of VeswPortInfo, and "
    "u_mcast_dlid for broadcast and multicast",
)
DECIDED: Final = {
    "slid_low": _SLID,
    "slid_high": _SLID,
    "dlid_low": _DLID,
    "dlid_high": _DLID,
    "length_qw": "the frame, padded to 60 bytes, in quad words with header, ICRC and tail",
    "sc": "VeswPortInfo: non_vlan_sc_uc and _mc; of tagged frames pcp_to_sc_uc and _mc",
    "rc": "VeswPortInfo: rc, by the kind of the frame",
    "pkey": "VeswPortInfo: pkey of the virtual switch; the receiving port checks it",
    "entropy": "the hash of the flow: packets of a flow take one way where there are several",
    "l4": "the kind of payload: 0x78 Ethernet, 0x08 management",
    "l2": "16B packets have 2",
    "lt": "always set",
    "becn": "the receiver, about an earlier packet that came with FECN",
    "fecn": "the switch whose queue was long",
    "vesw_id": "VeswPortInfo: vesw_id; the receiving HFI finds the VNIC by it",
    "icrc": "computed over the packet by the sending HFI",
}
"""By the name of the field in the description of a packet."""


def journey_html(journey: Journey, waits: Mapping[str, str] | None = None) -> str:
    """Return the way of a packet, and what it holds, as HTML.

    Args:  waits: what waits at a direction of a link, such as queue and credits, by its name.
    """
    parts = [
        f"<p><code>{xml_text(visible(summarize(journey.packet)))}</code></p>",
        drawing(way_drawing(journey), "way of the packet"),
        table(
            ("at", "link", "what", *(("queue and credits now",) if waits else ())),
            [_hop_row(hop, journey, waits) for hop in journey.hops],
            "It entered no link.",
        ),
    ]
    with contextlib.suppress(
        WireError
    ):  # of a damaged packet there is no header to draw; fields_html says why
        parts.append(drawing(header_drawing(_fields(journey.packet)), "header, bit by bit"))
    return "\n".join([*parts, fields_html(journey.packet)])


def fields_html(packet: bytes) -> str:
    """Return the fields of a packet as a table; of one with an Ethernet frame, who decided each stands beside it."""
    try:
        fields = _fields(packet)
    except WireError as error:
        return f"<p>{xml_text(str(error))}</p>"
    heads = ("header", "where", "field", "value", "meaning")
    rows = [(found.layer, found.where, found.name, found.text, found.meaning) for found in fields]
    if l4_of(packet) == L4.ETHERNET:
        decided = (DECIDED.get(found.name, "") for found in fields)
        return table(
            (*heads, "who decided it"),
            [(*row, by) for row, by in zip(rows, decided, strict=True)],
            "",
            "fields",
        )
    return table(heads, rows, "", "fields")


def _fields(packet: bytes) -> list[DescribedField]:
    return describe_packet(packet, None, layers).fields


def _hop_row(hop: Hop, journey: Journey, waits: Mapping[str, str] | None) -> tuple[str, ...]:
    later = f"{(hop.time_s - journey.time_s) * 1e6:.3f} us"
    what = f"dropped: {hop.drop}" if hop.drop is not None else "enters the link"
    return (later, hop.direction, what, *((waits.get(hop.direction, ""),) if waits else ()))


# --- many packets ------------------------------------------------------------------------------------------

_ANCHOR: Final = "mad-"


def mad_parts(found: Sequence[Message], decoded: int) -> Iterator[str]:
    """Yield the diagram and the fields of the last MADs, as parts of a page. Args: decoded: of how many."""
    if not found:
        yield "<p>No MAD was seen.</p>"
        return
    wrong = sum(message.is_wrong for message in found)
    yield (
        f"<p>{counted(len(found), 'MAD')}, {wrong} lost or refused; the last {min(len(found), MESSAGES_DRAWN)} are "
        f"drawn. {KEY} A click leads to the fields.</p>"
    )
    yield drawing(sequence(found, link="#" + _ANCHOR), "MADs as a sequence diagram", links=True)
    shown = found[-decoded:]
    yield f"<details><summary>The fields of the last {counted(len(shown), 'MAD')}</summary>"
    for message in shown:  # browsers open what holds the target of a link
        ends = f"{message.source} to {message.target}"
        yield (
            f"<details><summary>{message.number}. {xml_text(visible(ends))}: {xml_text(message.text)}</summary>"
            f'<div id="{_ANCHOR}{message.number}">{fields_html(message.journey.packet)}</div></details>'
        )
    yield "</details>"


WAYS_DRAWN: Final = 50
"""The last packets, those that were lost, and as many others, whose way is drawn."""


def packet_page(found: Sequence[Journey], title: str) -> str:
    """Return the page. Args: title: plain text."""
    parts = [f"<h1>{xml_text(visible(title))}</h1>"]
    parts += [f"<p>{counted(len(found), 'packet')}.</p>"]
    parts += ["<h2>MADs</h2>", *mad_parts(messages(found), MESSAGES_DRAWN)]
    lost = [journey for journey in found if journey.dropped is not None]
    parts += ["<h2>Packets that were lost</h2>", *way_parts(lost)]
    parts += ["<h2>Packets, hop by hop</h2>", *way_parts(found)]
    return page(title, parts)


def way_parts(found: Sequence[Journey], drawn: int = WAYS_DRAWN) -> Iterable[str]:
    """Yield the ways of the last packets, the newest first, as parts of a page."""
    if not found:
        yield "<p>None.</p>"
        return
    yield f"<p>{counted(len(found), 'packet')}; the last {min(len(found), drawn)} are shown, the newest first.</p>"
    for journey in reversed(found[-drawn:]):
        head = f"{journey.time_s * 1e3:.6f} ms {visible(journey.source)}: {summarize(journey.packet)}"
        yield f"<details><summary>{xml_text(head)}</summary>{journey_html(journey)}</details>"
