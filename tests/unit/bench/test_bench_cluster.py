"""`opavnic bench scale` on sizes that take a second."""

from __future__ import annotations

from opavnic_bench.cluster.scale import bench_scale


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
