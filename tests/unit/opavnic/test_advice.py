"""Each drop and each event has a row that says what it is and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hfi_sim.base.counters import Drop
from opavnic.cli.main import main
from opavnic.observe.timeline import _PORT, _VPORT
from opavnic.state.advice import EVENTS, advice

ROOT = Path(__file__).parents[3]


def test_each_drop_and_each_event_has_its_row_in_the_page() -> None:
    sources = [file.read_text() for file in (ROOT / "vema" / "em").rglob("*.py")]
    kinds = {kind for text in sources for kind in re.findall(r'\bevent\(\s*"([a-z-]+)"', text)}
    assert kinds
    assert kinds | {*_PORT, *_VPORT} == set(EVENTS)
    page = (ROOT / "docs/reference/troubleshooting.md").read_text()
    for name in (*map(str, Drop), *EVENTS):
        assert f"\n| `{name}` | " in page
        assert advice()[name].what
        assert advice()[name].do


def test_commands_that_rows_name_are_there() -> None:
    from opavnic.cli.program.tree import pages

    known = {page.words for page in pages()}
    for name, row in advice().items():
        for said in re.findall(r"`(opavnic(?: [a-z]+)+)[^`]*`", f"{row.harmless} {row.do}"):
            assert said in known or said.rpartition(" ")[0] in known - {"opavnic"}, f"{name}: {said}"


def test_explain_says_what_a_name_means_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "vnic_no_vesw"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("vnic_no_vesw: No VNIC on this port belongs to the virtual Ethernet switch")
    assert "\nHarmless: while a lab starts" in said
    assert main(["explain", "vnic_no_vsw"]) == 2
    assert "nearest: vnic_no_vesw)" in capsys.readouterr().err
