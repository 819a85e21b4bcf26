"""The pages: every block of shell and Python on them is run, those of a page in one go, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.page_script import run_script
from permission import require
from tools.doc_blocks import ROOT, blocks, pages, script

TOOLS = {
    "pma.md": ["opainfo"],
    "omni-path.md": ["opafabricinfo"],
    "umad.md": ["ibstat"],
}
"""Programs that pages need beside those of every lab."""
QUICK = {"README.md", "first-scenario.md"}
"""Pages that `make test` runs, beside the tutorial of the first lab; the others, with labs of their own, are slow."""
OWN_TESTS = {
    "first-lab.md",
    "capture.md",
    "congestion.md",
    "fail.md",
    *(page.name for page in (ROOT / "docs/tutorials/course").glob("*.md")),
}
"""tests/e2e/test_first_lab.py and test_course.py look at what their commands print."""


def shown(page: Path) -> list[object]:
    marks = [] if page.name in QUICK else [pytest.mark.slow]
    return [pytest.param(page, id=page.name, marks=marks)]


WITH_BLOCKS = [
    param
    for page in pages()
    if page.name not in OWN_TESTS
    and any(not (block.not_run or block.is_scenario) for block in blocks(page.read_text(encoding="utf-8")))
    for param in shown(page)
]


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    require(TOOLS.get(page.name, []))
    found = [
        block
        for block in blocks(page.read_text(encoding="utf-8"))
        if not (block.not_run or block.is_scenario)
    ]
    printed = run_script(script(found), tmp_path)
    assert len(printed) == len(found)
