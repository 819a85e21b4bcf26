"""The same seed gives the same run, to the last bit; another seed gives another one."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from program import ok, run_pytest

HERE = Path(__file__).parent
SOME = [
    "test_capture.py",
    "test_em_restart.py::test_standby_takes_over_and_gives_back",
    "test_mad_simulator.py",
    "test_resolution.py",
    "test_smoke.py",
]
MORE = [
    "test_addresses.py",
    "test_changes.py",
    "test_em_failover.py::test_master_dies_in_a_change_under_load_the_other_ends_it_and_no_frame_is_lost[at-once]",
    "test_failures.py",
    "test_flooding.py",
]
QUIETLY = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")


def run_suite(trace: Path, hash_seed: str, *options: str) -> dict[str, str]:
    """Run the suite in a process of its own; return the fingerprint of each test."""
    ok(
        subprocess.run(
            [sys.executable, "-m", "pytest", *QUIETLY, f"--fabric-trace={trace}", *options],
            cwd=HERE.parents[1],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
    )
    return fingerprints(trace)


def fingerprints(trace: Path) -> dict[str, str]:
    lines = [line.split(" ", 2) for line in trace.read_text(encoding="utf-8").splitlines()]
    return {name: f"{fingerprint} over {packets} packets" for fingerprint, packets, name in lines}


@pytest.mark.parametrize(
    "names", [pytest.param(SOME, id="some"), pytest.param(SOME + MORE, id="all", marks=pytest.mark.long)]
)
def test_suite_twice_gives_identical_traces(
    names: list[str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    files = [str(HERE / name) for name in names] + [_same_engine(pytestconfig)]
    with ThreadPoolExecutor() as side_by_side:
        runs = [
            side_by_side.submit(run_suite, tmp_path / hash_seed, hash_seed, *files)
            for hash_seed in ("1", "2")
        ]
    first, second = (run.result() for run in runs)
    assert len(first) > 15
    assert first == second


def test_other_seed_gives_another_trace_where_there_is_chance(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    lossy = str(HERE / "test_capture.py")
    # from a process that has imported the plugin
    forked = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    options = (*QUIETLY, *forked, lossy, _same_engine(pytestconfig))
    for seed in ("1", "2"):
        trace = f"--fabric-trace={tmp_path / seed}"
        result = run_pytest(HERE.parents[1], *options, f"--fabric-seed={seed}", trace)
        assert result.ret == 0, result.stdout.str()[-3000:]
    first, other = (fingerprints(tmp_path / seed) for seed in ("1", "2"))
    assert first.keys() == other.keys()
    assert first != other


def _same_engine(config: pytest.Config) -> str:
    return f"--fabric-engine={config.getoption('--fabric-engine')}"
