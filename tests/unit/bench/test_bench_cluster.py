"""`opavnic bench scale` and `opavnic bench transport` on sizes that take a second."""

from __future__ import annotations

import pytest

from opavnic_bench.cluster.scale import bench_scale
from opavnic_bench.cluster.transport import bench_transport


def test_fat_tree_converges_and_its_figures_say_so() -> None:
    result = bench_scale([20, 40])
    small, large = result["runs"]
    assert (small["ports"], large["ports"]) == (20, 40)
    assert small["mads"] >= 20 * 3
    assert 0 < small["virtual_s"] < 1
    (growth,) = result["growth"]
    assert growth["mads"] < 1.2, "MADs grow with the ports, not with their square"
    assert large["restart_sets"] == large["failover_sets"] == 0
    assert 0 < large["change_sets"] < 30, "a change of one member concerns its virtual switch"


@pytest.mark.slow
@pytest.mark.alone
def test_trains_arrive_by_the_transport_and_by_the_bare_wheel() -> None:
    result = bench_transport(0.05, sizes=[128], batches=[4])
    assert not result["skipped"]
    assert [(row["way"], row["shm"], row["batch"]) for row in result["runs"]] == [
        ("transport", False, 4),
        ("wheel", False, 4),
        ("transport", True, 4),
        ("wheel", True, 4),
    ]
    assert all(row["packets_per_second"] > 0 and row["rtt_us_p50"] > 0 for row in result["runs"])
