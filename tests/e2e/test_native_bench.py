"""`opavnic bench datapath` for real, one short round of what needs no peer installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from native_module import needs_native
from opavnic.lab.ownership.identity import namespace_at
from opavnic.lab.ownership.namespaces import NETNS_DIR, create_namespace, remove_namespace
from opavnic_bench.base.sites import PREFIX, bench_namespaces, remove_namespaces
from opavnic_bench.base.turns import PeerError
from processes import child
from program import run_program


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_bench_measures_in_namespaces_of_its_own_and_leaves_none(tmp_path: Path) -> None:
    drawing = tmp_path / "figures.svg"
    command = [sys.executable, "-m", "opavnic.cli.main", "bench", "datapath", "--json", "--rounds", "1"]
    command += ["--only", "tap_forwarder", "--only", "python", "--plot", str(drawing)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {row["variant"] for row in report["results"]} == {"tap_forwarder", "python"}
    assert all(row["tcp_gbps"] > 0 and row["rtt_us_p50"] > 0 for row in report["results"])
    assert drawing.read_text().startswith("<svg")
    assert not list(NETNS_DIR.glob(f"{PREFIX}*-tap-*"))  # other benchmarks may run beside


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--only", "vde-switch"], 2, "vde_switch"),
        (["--plot", "/nowhere/plot.svg"], 1, "plot.svg cannot be written: No such file or directory"),
        (["--vports", "2,many"], 2, "2,64,512"),
    ],
)
def test_bench_that_cannot_be_is_refused_before_it_measures(words: list[str], code: int, said: str) -> None:
    done = run_program(["bench", "datapath", *words], os.environ, timeout=60)
    assert (done.returncode, said in done.stderr) == (code, True)


def test_bench_leaves_a_namespace_of_another_alone_although_it_is_named_like_its_own() -> None:
    path = NETNS_DIR / f"{PREFIX}{os.getpid()}-somebody"
    identity = create_namespace(path, lambda _: None)
    try:
        with child(["ip", "netns", "exec", path.name, "sleep", "1000"]) as program:
            with pytest.raises(PeerError), bench_namespaces("made-first", "somebody"):
                pytest.fail("the name is taken")
            assert path.name not in remove_namespaces()
            assert program.poll() is None
            assert namespace_at(path) == identity
    finally:
        assert remove_namespace(path, identity)
    assert not list(NETNS_DIR.glob(f"{PREFIX}*-made-first"))


MAKING = """
import sys
from opavnic_bench.base.sites import bench_namespaces
with bench_namespaces("hub") as (made,):
    print(made, flush=True)
    sys.stdin.read()
"""


def test_bench_removes_what_a_killed_one_left_and_nothing_of_one_that_runs() -> None:
    with child([sys.executable, "-c", MAKING], stdin=-1, stdout=-1) as other:
        left = other.stdout.readline().strip()
        with bench_namespaces("hub") as (own,):  # as of the other: two may run side by side
            assert not {own, left} & set(remove_namespaces())
            other.kill()
            other.wait()
            with bench_namespaces("another"):
                assert not (NETNS_DIR / left).exists()
                assert (NETNS_DIR / own).exists()


@needs_native
def test_bench_with_many_vports_carries_every_frame_and_leaves_no_namespace() -> None:
    command = ["bench", "datapath", "--vports", "2,20", "--json"]
    done = run_program(command, os.environ, timeout=100)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["vports"] for row in rows] == [2, 20]
    assert all(row["packets"] > 100_000 and row["ns_per_packet"] > 0 for row in rows)
    assert not list(NETNS_DIR.glob(f"{PREFIX}*-vports"))
