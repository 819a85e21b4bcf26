"""The tutorial of the first lab: every command on the page is run, in order, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

from e2e.page_script import run_script
from tools.doc_blocks import ROOT, blocks, script

PAGE = ROOT / "docs" / "tutorials" / "first-lab.md"


def test_every_command_of_the_first_lab_works(tmp_path: Path) -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 9
    printed = run_script(script(found), tmp_path)
    assert "3 received" in printed[2]
    assert len(printed[3].splitlines()) == 4
    assert "vport-configured" in printed[4]
    rows = [line.split() for line in printed[5].splitlines() if " red " in line]
    assert [(row[0], row[3], row[5], row[6]) for row in rows if row[0] in ("h1", "h3")] == [
        ("h1", "10.9.3.1/24", "9000", "up"),
        ("h3", "10.9.3.3/24", "9000", "up"),
    ]
    assert "8980 bytes from h3.red (10.9.3.3)" in printed[5]
    assert "every host reaches all members of its virtual switches, and no others" in printed[5]
    assert "h2 cannot be reached" in printed[7]
    assert "link-down" in printed[7]
