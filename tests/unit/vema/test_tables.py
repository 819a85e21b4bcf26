"""The page about the EM attributes says what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from vema.attributes.fields import offset_table
from vema.attributes.tables import TABLES, refresh

PAGE = Path(__file__).parents[3] / "docs" / "ema-attributes.md"
ACCESS = {"RW", "RO", "kept", "zero"}


def test_page_equals_the_declarations() -> None:
    page = PAGE.read_text()
    assert refresh(page) == page, "run: .venv/bin/python tools/ema_tables.py docs/ema-attributes.md"


def test_page_holds_every_table_once() -> None:
    page = PAGE.read_text()
    for name, declaration in TABLES.items():
        assert page.count(f"<!-- table: {name} -->") == 1
        assert offset_table(declaration) in page


@pytest.mark.parametrize("name", TABLES)
def test_every_field_says_who_may_write_it_and_what_it_means(name: str) -> None:
    for row in offset_table(TABLES[name]).splitlines()[2:]:
        _, _, _, _, access, meaning, _ = (cell.strip() for cell in row.split("|"))
        assert access in ACCESS
        assert meaning


def test_unknown_table_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="no table 'x'; there are class-port-info"):
        refresh("<!-- table: x -->\n<!-- end of table -->")
