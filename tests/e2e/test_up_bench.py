"""`opavnic bench up`: a lab and the kernel's floor, and nothing of either is left."""

from __future__ import annotations

import os

from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic_bench.base.sites import PREFIX
from opavnic_bench.labs.up import bench_up


def test_start_of_a_lab_is_measured_by_phase_beside_the_floor() -> None:
    (run,) = bench_up([3], commands=False)["runs"]
    assert [*run["phases"]] == ["start", "hosts", "vnics", "report"]
    assert all(spent["seconds"] > 0 for spent in run["phases"].values())
    assert run["ready_s"] > run["floor_s"] > 0
    assert run["peak_mib"] > 10
    assert not list(NETNS_DIR.glob(f"{PREFIX}{os.getpid()}-*"))  # other benchmarks may run beside
