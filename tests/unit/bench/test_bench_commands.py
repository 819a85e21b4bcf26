"""What a person sees of a benchmark that fails or is asked wrongly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ejfat.base.errors import EjfatError
from hfi_sim.base.errors import FabricError
from opavnic.cli.main import main
from opavnic_bench.base.turns import BenchError
from opavnic_bench.ejfat import bench as ejfat
from opavnic_bench.elements import em


@pytest.mark.parametrize("kind", [BenchError, FabricError])
def test_measurement_that_fails_ends_with_its_reason_in_one_line(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise kind("10 vports: not converged within 600 s")

    monkeypatch.setattr(em, "bench_em", fails)
    assert main(["bench", "em", "--vports", "10", "--json"]) == 1
    shown = capsys.readouterr()
    said = "10 vports: not converged within 600 s"
    assert (shown.out, json.loads(shown.err)) == ("", {"error": said, "hint": None, "exit_code": 1})
    assert main(["bench", "em", "--vports", "10"]) == 1
    assert capsys.readouterr().err == f"opavnic: {said}\n"


def test_load_balancer_that_fails_does_so_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise EjfatError("the control plane is not reachable")

    monkeypatch.setattr(ejfat, "bench_ejfat", fails)
    assert main(["bench", "ejfat", "--no-taps"]) == 1
    assert capsys.readouterr().err == "opavnic: the control plane is not reachable\n"


def test_number_of_vports_that_does_not_fill_its_virtual_switches_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "em", "--vports", "15"]) == 2
    assert capsys.readouterr().err == "opavnic: --vports 15: a multiple of 10, from 10 to 40950\n"


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["mad", "--seconds", "9ms"], "'9ms' is not a time of 10ms or more"),
        (["fabric", "--seconds", "soon"], "'soon' is not a time of 10ms or more"),
        (["ejfat", "--seconds", "inf"], "'inf' is not a time of 10ms or more"),
        (["lnet", "--seconds", "0"], "'0' is not a time from 1ns to 10s"),
        (["lnet", "--seconds", "11s"], "'11s' is not a time from 1ns to 10s"),
        (["datapath", "--seconds", "2m"], "'2m' is not a time from 1s to 1m"),
        (
            ["datapath", "--seconds", "1500ms"],
            "'1500ms' is not a whole number of seconds such as 1s, 10s or 1m",
        ),
    ],
)
def test_wrong_time_is_one_line_with_what_would_be_right(
    arguments: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(f"opavnic: Invalid value for '--seconds': {wrong} (")


@pytest.mark.parametrize("hosts", ["1", "64,", "many", "64,100000"])
def test_number_of_hosts_that_no_lab_has_is_refused(hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "up", "--hosts", hosts]) == 2
    assert capsys.readouterr().err == (
        f'opavnic: --hosts "{hosts}" is not a list of numbers from 2 to 4000, such as 64,256,1000\n'
    )
