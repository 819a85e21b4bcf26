"""Recorded conversations with hfi1's agents: ours answers as hfi1 has; a wrong answer is found, and where.

The whole files are held by a slow test; how they came to be says tests/record_hfi1.py. Linux's own hfi1 is held to them
by tests/unit/opavnic/kernel/test_hfi1.py.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from opavnic.base.errors import VectorFileError
from opavnic.cli.program.conformance import app
from opavnic.conformance.management import run_management, simulated

VECTORS: Final = Path(__file__).parents[1] / "vectors"
SOME: Final = 60
"""Steps of each session in the quick test."""


def vector_file(of: str) -> Path:
    return VECTORS / f"hfi1-{of}-1.jsonl.gz"


def some_of(of: str, path: Path, change: Callable[[list[Any]], None] = lambda _sessions: None) -> Path:
    """Write the first steps of each session to a file."""
    with gzip.open(vector_file(of), "rt") as lines:
        sessions = [json.loads(line) for line in lines]
    for session in sessions:
        del session["steps"][SOME:]
    change(sessions)
    path.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    return path


@pytest.mark.parametrize("of", ["sma", "pma"])
def test_our_agents_answer_as_hfi1_has(of: str, tmp_path: Path) -> None:
    result = run_management(some_of(of, tmp_path / "some.jsonl"), of, simulated)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.ok


@pytest.mark.slow
@pytest.mark.parametrize(("of", "least"), [("sma", 18_000), ("pma", 1_200)])
def test_our_agents_answer_all_as_hfi1_has(of: str, least: int) -> None:
    result = run_management(vector_file(of), of, simulated)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.total >= least
    assert sum(row["equal"] for row in result.rows.values()) > 2 * result.total / 3


def test_an_answer_that_differs_is_named_by_session_attribute_and_field(tmp_path: Path) -> None:
    def damage(sessions: list[Any]) -> None:
        asked = [step for step in sessions[2]["steps"] if isinstance(step, dict)]
        step = next(step for step in asked if step["mad"][32:36] == "0011")  # Get(NodeInfo)
        answer = bytearray.fromhex(step["answer"])
        answer[176 + 3] = 9  # its number of ports
        step["answer"] = answer.hex()

    path = some_of("sma", tmp_path / "damaged.jsonl", damage)
    done = CliRunner().invoke(app, ["sma", str(path)])
    assert done.exit_code == 1
    assert "num_ports\n  expected 9\n  got      1\n" in done.output
    assert "keys, Get(NodeInfo) 0x0, " in done.output
    assert "  Get(NodeInfo): " in done.output
    told = json.loads(CliRunner().invoke(app, ["sma", "--json", str(path)]).output)
    assert told[0]["rows"]["Get(NodeInfo)"]["differs"] == 1


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("unplug", 'a step is a request, "arm" or "link", not "unplug"'),
        ({"mad": "80", "answer": "xy"}, "non-hexadecimal"),
        ({"mad": "80"}, "no field 'answer'"),
    ],
)
def test_a_step_that_cannot_be_read_is_refused_with_its_line(step: object, why: str, tmp_path: Path) -> None:
    path = some_of("pma", tmp_path / "bad.jsonl", lambda sessions: sessions[1]["steps"].append(step))
    with pytest.raises(VectorFileError, match=f":2: .*{why}"):
        run_management(path, "pma", simulated)
