"""`opavnic bench engine`: figures of several workers that are there and make sense."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from native_module import BUILT, needs_native
from opavnic.cli.main import main
from opavnic.cli.program.bench import app


@needs_native
def test_json_has_each_case_with_each_number_of_workers() -> None:
    arguments = ["engine", "--workers", "1,3", "--seconds", "20ms", "--rounds", "1", "--json"]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert [(row["case"], row["workers"]) for row in document["runs"]] == [
        (case, workers) for case in ("all-to-all", "bottleneck") for workers in (1, 3)
    ]
    for row in document["runs"]:
        assert row["packets_per_second"] > 0
        assert row["processor_ns"] > 0
        assert (row["handed_over"] > 0) == (row["workers"] > 1)
        assert row["ceiling"] > 0
        assert (row["ceiling"] != row["packets_per_second"]) == (row["workers"] > 1)
    assert [(row["case"], row["workers"], row["to"]) for row in document["ratios"]] == [
        ("all-to-all", 3, 1),
        ("bottleneck", 3, 1),
    ]
    assert all(row["ratio"] is not None and row["ceiling"] is not None for row in document["ratios"])


@pytest.mark.parametrize("workers", ["", "0", "1,x", "65", "-1"])
def test_wrong_number_of_workers_is_one_line(workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "engine", "--workers", workers]) == 2
    expected = f'opavnic: --workers "{workers}" is not a list of numbers from 1 to 64, such as 1,2\n'
    assert capsys.readouterr().err == expected


@pytest.mark.skipif(BUILT, reason="the native module is built")
def test_without_the_native_module_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "engine"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
