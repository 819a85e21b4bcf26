"""The offset tables of docs/, made from the declarations, so that page and code cannot drift apart.

A page marks the place of a table with `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.mad.header import LAYOUT as MAD_LAYOUT
from hfi_sim.mad.header import RMPP_LAYOUT, VENDOR_LAYOUT
from hfi_sim.wire import lrh16b
from hfi_sim.wire.l4 import ETHERNET_LAYOUT, FM_LAYOUT
from hfi_sim.wire.layout import LayoutField, byte_where, layout_fields, quad_word_where
from hfi_sim.wire.packet import TRAILER_LAYOUT

_PLACE: Final = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_LAST_QUAD_WORD: Final = 3
"""Bytes of the last quad word in front of the ICRC: its end of the pad."""


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """A declaration, where it starts (in bytes), and how its positions are written."""

    declaration: Any
    offset: int
    where: Callable[[int, LayoutField], str]


def _last_quad_word(offset: int, item: LayoutField) -> str:
    return quad_word_where(offset, item).replace("QW0", "last QW")


TABLES: Final[Mapping[str, OffsetTable]] = {
    "lrh16b": OffsetTable(lrh16b.LAYOUT, 0, quad_word_where),
    "ethernet-l4": OffsetTable(ETHERNET_LAYOUT, lrh16b.SIZE, quad_word_where),
    "trailer": OffsetTable(TRAILER_LAYOUT, _LAST_QUAD_WORD, _last_quad_word),
    "fm": OffsetTable(FM_LAYOUT, lrh16b.SIZE, byte_where),
    "mad": OffsetTable(MAD_LAYOUT, 0, byte_where),
    "rmpp": OffsetTable(RMPP_LAYOUT, MAD_LAYOUT.sizeof(), byte_where),
    "vendor": OffsetTable(VENDOR_LAYOUT, MAD_LAYOUT.sizeof() + RMPP_LAYOUT.sizeof(), byte_where),
}


def render(table: OffsetTable) -> str:
    """Return a table in Markdown: position, width in bits, name, meaning."""
    rows = ["| position | bits | field | meaning |", "|---|---|---|---|"]
    for item in layout_fields(table.declaration):
        where = table.where(table.offset, item)
        rows.append(f"| {where} | {item.width_bits} | `{item.name}` | {item.meaning} |")
    return "\n".join(rows) + "\n"


def refresh(page: str, tables: Mapping[str, OffsetTable] = TABLES) -> str:
    """Return the text of a page with every marked table made anew.

    Raises:  ValueError: the page marks a table that does not exist.
    """

    def made_anew(place: re.Match[str]) -> str:
        head, name, end = place.groups()
        if name not in tables:
            raise ValueError(f"no table {name!r}; there are {', '.join(sorted(tables))}")
        return head + render(tables[name]) + end

    return _PLACE.sub(made_anew, page)
