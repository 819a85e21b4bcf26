"""The pages about the wire formats say what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import TRAILER_LAYOUT, build_packet, parse_packet
from hfi_sim.wire.tables import TABLES, refresh, render
from unit.hfi_sim.wire.wire_strategies import PAYLOADS, headers

DOCS = Path(__file__).parents[4] / "docs"
PAGES = ["wire-16b.md", "wire-mad.md"]


@pytest.mark.parametrize("name", PAGES)
def test_page_offset_tables_equal_the_declarations(name: str) -> None:
    page = (DOCS / name).read_text()

    assert refresh(page) == page, "run: .venv/bin/python tools/wire_tables.py docs/wire-*.md"


def test_pages_hold_every_table_once() -> None:
    text = "".join((DOCS / name).read_text() for name in PAGES)

    for name, table in TABLES.items():
        assert text.count(f"<!-- table: {name} -->") == 1
        assert render(table) in text


def test_refresh_unknown_table_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="no table 'lrh'; there are ethernet-l4, fm, lrh16b"):
        refresh("<!-- table: lrh -->\n<!-- end of table -->")


@given(headers(), PAYLOADS)
def test_trailer_declaration_reads_what_build_packet_wrote(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, Icrc())

    declared = TRAILER_LAYOUT.parse(packet[-5:])

    assert (declared.icrc, declared.tail, declared.lt) == (parse_packet(packet).icrc, packet[-1] & 7, 1)
    assert TRAILER_LAYOUT.build(declared) == packet[-5:]
