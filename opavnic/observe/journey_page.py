"""One packet's way as a part of a page: hops in time, its header bit by bit, who decided each field. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.text import visible, xml_text
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import l4_of
from opavnic.decode.describe import DescribedField, describe_packet
from opavnic.decode.summary import summarize
from opavnic.management.management_layout import layers
from opavnic.observe.html_page import drawing, table
from opavnic.observe.journeys import Hop, Journey

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


_WIDTH, _ROW, _BITS, _LEFT, _TOP = 1120, 46, 64, 50, 18
_FILL: Final = ("#dbe9f4", "#e8f1e4", "#f6ecd8", "#efe3f0")
_NODE, _LINK, _LOST, _TIME = "#2f6f9f", "#8a97a5", "#c0392b", "#5b6671"
_STEP, _BOX, _HEIGHT = 190, 96, 92


def journey_html(journey: Journey, waits: Mapping[str, str] | None = None) -> str:
    """Return the way of a packet, and what it holds, as HTML.

    Args:  waits: what waits at a direction of a link, such as queue and credits, by its name.
    """
    parts = [
        f"<p><code>{xml_text(visible(summarize(journey.packet)))}</code></p>",
        drawing(way_svg(journey), "way of the packet"),
        table(
            ("time", "link", "what", *(("queue and credits now",) if waits else ())),
            [_hop_row(hop, journey, waits) for hop in journey.hops],
            "It entered no link.",
        ),
    ]
    with contextlib.suppress(
        WireError
    ):  # of a damaged packet there is no header to draw; fields_html says why
        parts.append(drawing(header_svg(_fields(journey.packet)), "header of the packet"))
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
            (*heads, "who decided it"), [(*row, by) for row, by in zip(rows, decided, strict=True)], ""
        )
    return table(heads, rows, "")


def _fields(packet: bytes) -> list[DescribedField]:
    return describe_packet(packet, None, layers).fields


def _hop_row(hop: Hop, journey: Journey, waits: Mapping[str, str] | None) -> tuple[str, ...]:
    later = f"+{(hop.time_s - journey.time_s) * 1e6:.3f} us"
    what = f"dropped: {hop.drop}" if hop.drop is not None else "enters the link"
    return (later, hop.direction, what, *((waits.get(hop.direction, ""),) if waits else ()))


def way_svg(journey: Journey) -> str:
    """Return the hops as a drawing: nodes from left to right, copies of a multicast packet below each other."""
    level = {journey.source: 0}
    for hop in journey.hops:
        level.setdefault(hop.far, level.get(hop.near, 0) + 1)
    columns: dict[int, list[str]] = {}
    for node, column in level.items():
        columns.setdefault(column, []).append(node)
    tall = max(map(len, columns.values()))
    width, height = _STEP * len(columns), _HEIGHT * tall
    at = {
        node: (_STEP * (column + 0.5), height * (index + 0.5) / len(nodes))
        for column, nodes in columns.items()
        for index, node in enumerate(nodes)
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="11" role="img" aria-label="the way of the packet">'
    ]
    for hop in journey.hops:
        (x, y), (far_x, far_y) = at.get(hop.near, at[journey.source]), at[hop.far]
        colour = _LINK if hop.drop is None else _LOST
        parts.append(
            f'<line x1="{x}" y1="{y}" x2="{far_x}" y2="{far_y}" stroke="{colour}" stroke-width="2"/>'
        )
        said = f"+{(hop.time_s - journey.time_s) * 1e6:.2f} us"
        said += "" if hop.drop is None else f" ✕ {hop.drop}"
        above = -6 if hop.drop is None else 24
        parts.append(
            f'<text x="{(x + far_x) / 2}" y="{(y + far_y) / 2 + above}" text-anchor="middle" '
            f'fill="{_TIME if hop.drop is None else _LOST}">'
            f"<title>{xml_text(hop.direction)}</title>{xml_text(said)}</text>"
        )
    for node, (x, y) in at.items():
        parts.append(
            f'<rect x="{x - _BOX / 2}" y="{y - 14}" width="{_BOX}" height="28" rx="4" fill="{_NODE}"/>'
            f'<text x="{x}" y="{y + 4}" text-anchor="middle" fill="#fff">{xml_text(visible(node))}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def header_svg(fields: Sequence[DescribedField]) -> str:
    """Return the 16B header as the table of its document: a row for each quad word, bit 63 on the left."""
    rows = [(word, low, high, found) for found in fields for word, low, high in _bits(found.where)]
    words = sorted({word for word, _, _, _ in rows})
    height = _TOP + _ROW * len(words)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="monospace" font-size="10" role="img" aria-label="the header, bit by bit">'
    ]
    step = (_WIDTH - _LEFT - 10) / _BITS
    parts += [
        f'<text x="{_LEFT + (_BITS - bit - 0.5) * step:.1f}" y="12" text-anchor="middle" fill="#5b6671">{bit}</text>'
        for bit in (63, 55, 47, 39, 31, 23, 15, 7, 0)
    ]
    for word in words:
        parts.append(f'<text x="4" y="{_TOP + _ROW * words.index(word) + _ROW / 2 + 4}">QW{word}</text>')
    for index, (word, low, high, found) in enumerate(rows):
        x, y = _LEFT + (_BITS - 1 - high) * step, _TOP + _ROW * words.index(word)
        wide = (high - low + 1) * step
        value = found.text
        parts.append(
            f"<g><title>{xml_text(f'{found.name} = {value}, {found.where}: {found.meaning}')}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_ROW - 6}" fill="{_FILL[index % len(_FILL)]}" '
            'stroke="#5b6671"/>'
        )
        for line, text in enumerate((found.name, value)):
            if len(text) * 6.2 <= wide:
                middle, at = x + wide / 2, y + 16 + 14 * line
                parts.append(
                    f'<text x="{middle:.1f}" y="{at}" text-anchor="middle" fill="#000">{xml_text(text)}</text>'
                )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def _bits(where: str) -> Iterator[tuple[int, int, int]]:
    """Yield quad word, lowest and highest bit of positions such as `QW0 0-19` or `QW1 63`; nothing of others."""
    if not where.startswith("QW"):
        return
    word, _, bits = where[2:].partition(" ")
    low, _, high = bits.partition("-")
    if word.isdecimal() and low.isdecimal():
        yield int(word), int(low), int(high or low)
