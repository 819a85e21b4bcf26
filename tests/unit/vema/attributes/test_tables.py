"""The declarations of the attributes say what the tables of docs/reference/ema-attributes.md need."""

from __future__ import annotations

import pytest

from tools.generate.docs import PAGES, AttributeTable, attribute_table
from vema.base.types import KEPT, READ_ONLY, READ_WRITE, ZERO

TABLES = PAGES["docs/reference/ema-attributes.md"]


@pytest.mark.parametrize("name", TABLES)
def test_every_field_says_who_may_write_it_and_what_it_means(name: str) -> None:
    table = TABLES[name]
    assert isinstance(table, AttributeTable)
    for row in attribute_table(table.header).splitlines()[2:]:
        _, _, _, _, access, meaning, _ = (cell.strip() for cell in row.split("|"))
        assert access in (READ_WRITE, READ_ONLY, KEPT, ZERO)
        assert meaning


@pytest.mark.parametrize("name", TABLES)
def test_reserved_bytes_are_named_by_their_offset(name: str) -> None:
    table = TABLES[name]
    assert isinstance(table, AttributeTable)
    reserved = [place for place in table.header.places if place.name.startswith("reserved_")]
    assert [place.name for place in reserved] == [f"reserved_{place.offset}" for place in reserved]
