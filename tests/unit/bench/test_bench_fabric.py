"""`opavnic bench fabric`: figures that are there and make sense."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from native_module import BUILT
from opavnic.cli.main import main
from opavnic.cli.program.bench import app
from opavnic_bench.elements.fabric import Beside, Line, bench_fabric

QUICK = ["fabric", "--seconds", "0.01", "--hosts", "16"]
OLD_ROWS = [
    {"hops": hops, "time": time, "packets_per_second": 1}
    for hops in (1, 3, 5)
    for time in ("at-once", "virtual")
]
"""As printed by a version with one engine."""


def program(tmp_path: Path, hops: Any, version: str = "opavnic 0.1.0") -> Path:
    """Return an `opavnic` that has measured these lines."""
    path = tmp_path / "opavnic"
    printed = json.dumps({"hops": hops})
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' || echo '{printed}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_json_has_hops_routing_and_memory() -> None:
    outcome = CliRunner().invoke(app, [*QUICK, "--json"])
    assert outcome.exit_code == 0
    document = json.loads(outcome.stdout)
    engines = ("python", "native") if BUILT else ("python",)
    assert [(row["hops"], row["time"], row["engine"], row["endpoints"]) for row in document["hops"]] == [
        (hops, time, engine, "python")
        for hops in (1, 3, 5)
        for time in ("at-once", "virtual")
        for engine in engines
    ] + [(hops, "virtual", "native", "native") for hops in (1, 3, 5) if BUILT]
    assert all(row["packets_per_second"] > 0 for row in document["hops"])
    assert [(row["hosts"], row["engine"]) for row in document["routing"]] == [
        (16, "min-hop"),
        (16, "fat-tree"),
    ]
    assert all(row["bytes_per_host"] > 1000 for row in document["routing"])
    assert "beside" not in document


def test_lines_are_compared_with_the_python_engine_of_the_installation_beside(tmp_path: Path) -> None:
    beside = str(program(tmp_path, OLD_ROWS))
    outcome = CliRunner().invoke(app, [*QUICK, "--json", "--rounds", "2", "--beside", beside])
    assert outcome.exit_code == 0
    document = json.loads(outcome.stdout)
    assert document["rounds"] == 2
    assert [(row["hops"], row["engine"], row["packets_per_second"]) for row in document["beside"]] == [
        (hops, "python", 1) for hops in (1, 1, 3, 3, 5, 5)
    ]
    speeds = [row["packets_per_second"] for row in document["hops"]]
    ratios = [row["ratio"] for row in document["ratio_to_beside"]]
    assert ratios == pytest.approx(speeds, abs=1), "speeds are rounded, ratios are made before"
    outcome = CliRunner().invoke(app, [*QUICK, "--beside", beside])
    assert outcome.exit_code == 0
    assert "relative to the installation beside" in outcome.stdout


def test_trees_are_not_routed_for_a_comparison_unless_asked_for(tmp_path: Path) -> None:
    beside, drawn = str(program(tmp_path, OLD_ROWS)), tmp_path / "fabric.svg"
    words = ["fabric", "--seconds", "0.01", "--beside", beside]
    outcome = CliRunner().invoke(app, [*words, "--json", "--plot", str(drawn)])
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["routing"] == []
    assert drawn.stat().st_size > 0
    assert "bytes/host" not in CliRunner().invoke(app, words).stdout
    outcome = CliRunner().invoke(app, [*words, "--json", "--hosts", "16"])
    assert [row["hosts"] for row in json.loads(outcome.stdout)["routing"]] == [16, 16]


def test_installation_beside_that_prints_no_figures_is_left_out_with_its_reason(tmp_path: Path) -> None:
    beside = (str(program(tmp_path, [{"hops": 1}])),)
    result = bench_fabric(0.01, [], beside=beside)
    assert result["skipped"] == {
        str(Beside(beside)): f"{Beside(beside)}: no figures of hops in what it printed"
    }
    assert (result["beside"], result["ratio_to_beside"]) == ([], [])


@pytest.mark.parametrize("name", ["fabric", "datapath"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/nowhere/opavnic", "/nowhere/opavnic is not a program"),
        ("/", "/ is not a program"),
        ("/bin/false", "/bin/false --version"),
        ("/bin/echo", "--version says"),
        (__file__, f"{__file__} is not a program"),
    ],
)
def test_what_is_no_installation_is_refused_in_one_line(
    name: str, path: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", name, "--beside", path]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("opavnic: --beside: ")
    assert reason in shown.err


@pytest.mark.skipif(not BUILT, reason="it is measured in the native module")
@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e300])
def test_time_that_cannot_be_measured_for_is_refused(seconds: float) -> None:
    from opavnic import _native

    with pytest.raises(ValueError, match="seconds"):
        _native.measure_line(1, seconds)
    with pytest.raises(ValueError, match="a switch"):
        _native.measure_line(0, 0.01)


def test_line_is_named_by_what_tells_it_from_others() -> None:
    assert str(Line(3, "virtual", "native")) == "3 switches, virtual, native engine, python ends"
