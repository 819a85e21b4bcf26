"""Recorded files of sysfs of hfi1: ours say what they said, in each state; one that says something else is found."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from opavnic.base.errors import VectorFileError
from opavnic.cli.program.conformance import app
from opavnic.conformance.sysfs import STATES, run_sysfs

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "hfi1-sysfs-1.jsonl.gz"


def test_files_of_an_hfi_say_what_those_of_hfi1_have_said() -> None:
    result = run_sysfs(VECTORS, kernel=False)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.ok
    rows = result.rows
    for name in ("ports/1", "ports/1/gids", "ports/1/gid_attrs/types", "ports/1/sl2sc", "ports/1/vl2mtu"):
        assert set(rows[f"infiniband/hfi1_0/{name}"]) == {"equal"}, name
    assert sum(row["equal"] for row in rows.values()) > 550


def test_a_file_that_says_something_else_is_named_with_its_state(tmp_path: Path) -> None:
    with gzip.open(VECTORS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    assert [case["state"] for case in cases] == list(STATES)
    cases[1]["files"]["infiniband/hfi1_0/ports/1/rate"] = "200 Gb/sec (4X HDR)\n"
    del cases[2]["files"]["infiniband/hfi1_0/ports/1/lid"]
    path = tmp_path / "other.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    done = CliRunner().invoke(app, ["sysfs", str(path)])
    assert done.exit_code == 1
    assert "ACTIVE, infiniband/hfi1_0/ports/1/rate\n  expected '200 Gb/sec (4X HDR)\\n'" in done.output
    assert "DOWN, infiniband/hfi1_0/ports/1/lid\n  expected None\n  got      '0xc001\\n'" in done.output
    assert "  infiniband/hfi1_0/ports/1: 25 equal, 2 differs" in done.output


def test_a_state_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"state": "UP", "files": {}}\n')
    with pytest.raises(VectorFileError, match=r":1: .*state UP is not one of INIT, ACTIVE, DOWN"):
        run_sysfs(path, kernel=False)
