"""`opavnic bench links` for real, one short round of some cases, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.ownership.runtime import ROOT_VARIABLE
from opavnic_bench.base.running_lab import OWN, RunningLab, end_labs, environment, running_lab
from opavnic_bench.base.sites import PREFIX, run
from opavnic_bench.base.turns import PeerError
from opavnic_bench.web.memory_lab import memory_lab

CASES = ("loss-match", "multipath")
LAB = {"name": "bench-left", "hosts": {"h1": {}}}


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep labs apart from those of other benchmarks on this machine."""
    with tempfile.TemporaryDirectory(prefix="opavnic-") as directory:
        monkeypatch.setenv(ROOT_VARIABLE, f"{directory}/labs")
        yield


def labs() -> list[str]:
    """Return the labs of benchmarks that are there."""
    return [lab["lab"] for lab in json.loads(run(*OWN, "ps", "--json", env=environment()))]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_cases_are_measured_in_labs_and_show_that_they_bite() -> None:
    command = [*OWN, "bench", "links", "--json", "--rounds", "1"]
    for case in CASES:
        command += ["--only", case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["proven"] else 1), done.stderr
    assert report["skipped"] == {}
    rows = {row["case"]: row for row in report["runs"]}
    assert tuple(rows) == ("plain", *CASES)
    assert all(row["tcp_gbps"] > 0 and row["rtt_us_p50"] > 0 and row["engine"] for row in rows.values())
    loss, paths = (rows[case]["proof"] for case in CASES)
    assert loss["seen"] == loss["packets"] > 100  # hits are a matter of chance
    assert paths["ok"]
    assert set(paths["via"]) == {"spine0", "spine1"}
    assert labs() == []
    assert not list(NETNS_DIR.glob(f"{PREFIX}*"))


def test_lab_of_a_benchmark_is_apart_from_those_of_the_user_and_ends_although_its_benchmark_was_killed() -> (
    None
):
    with running_lab(LAB) as lab:
        assert labs() == ["bench-left"]
        assert "bench-left" not in run(*OWN, "ps", "--json")
        assert lab.ask("status")["lab"] == "bench-left"
        assert end_labs() == ["bench-left"]
        assert labs() == []
        with pytest.raises(PeerError, match="bench-left"):
            lab.ask("status")


def test_lab_that_does_not_start_is_left_out_with_its_reason() -> None:
    with pytest.raises(PeerError, match="unknown key"), running_lab({**LAB, "hots": {}}):
        pytest.fail("there is no such section")


def test_lab_in_memory_leaves_nothing() -> None:
    with memory_lab(LAB) as lab:
        assert lab.ask("status")["lab"] == "bench-left"
    assert labs() == []


def test_program_that_prints_no_json_is_no_answer() -> None:
    lab = RunningLab("x", (sys.executable, "-c", "print('hello')"))
    with pytest.raises(PeerError, match="printed no JSON"):
        lab.ask("status")
