"""`opavnic bench datapath --kernels` for real. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import os
import shutil

import pytest

from opavnic.kernel.drivers import HFI1
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic_bench.base.sites import PREFIX
from opavnic_bench.datapath.kernels import PAIRS, bench_kernels
from permission import require_kernel


@pytest.mark.slow
@pytest.mark.alone
def test_hosts_of_each_kind_are_measured_in_one_lab_of_which_nothing_is_left() -> None:
    require_kernel(driver=HFI1)
    if missing := [name for name in ("iperf3", "ibv_rc_pingpong") if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    result = bench_kernels(rounds=1, seconds=1)
    assert result["skipped"] == {}
    assert [run["hosts"] for run in result["runs"]] == [pair.name for pair in PAIRS]
    assert all(run["tcp_mbps"] > 0 and run["rtt_us"] > 0 for run in result["runs"])
    assert [run["rc_us"] is not None for run in result["runs"]] == [pair.has_verbs for pair in PAIRS]
    assert not list(NETNS_DIR.glob(f"{PREFIX}{os.getpid()}-*"))  # other benchmarks may run beside
