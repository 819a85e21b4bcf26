"""What the bench makes of its samples; the measuring itself is tests/e2e/test_native_bench.py."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from opavnic_bench.base.sites import HostPair
from opavnic_bench.base.traffic import BusyServerError, iperf_result
from opavnic_bench.base.turns import PeerError, Run
from opavnic_bench.datapath.bench import BenchResult
from opavnic_bench.datapath.measure import DatapathSample
from opavnic_bench.datapath.peers import Variant, variants
from opavnic_bench.plots.plot import draw, panels

SAMPLE = DatapathSample(12.0, 10.0, 200.0, 15.0, 40.0, 1.5, 20.0)


def variant(name: str, icrc: str | None = None, mtu: int = 1500) -> Variant:
    return Variant(name, mtu, icrc, lambda _mtu: nullcontext(HostPair("a", "b", "10.0.0.1")), lambda: "")


def result() -> BenchResult:
    peer = replace(SAMPLE, tcp_gbps=2.0, peak_mib=None)
    run = Run(
        {
            variant("native", "default"): [
                SAMPLE,
                replace(SAMPLE, tcp_gbps=8.0),
                replace(SAMPLE, tcp_gbps=10.0),
            ],
            variant("tap_forwarder"): [peer],
            variant("vde_switch"): [],
            variant("veth", mtu=10000): [peer],
        },
        rounds=3,
    )
    return BenchResult(run)


def test_rows_are_medians_and_leave_out_what_was_not_measured() -> None:
    rows = result().rows()
    assert [row["variant"] for row in rows] == ["native", "tap_forwarder", "veth"]
    assert rows[0]["tcp_gbps"] == 10.0
    assert rows[1]["peak_mib"] is None
    assert set(rows[0]) == {
        "variant", "mtu", "icrc", "tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50", "rtt_us_p99",
        "cpu_s_per_gb", "peak_mib",
    }  # fmt: skip


def test_ratios_compare_native_with_variants_of_its_mtu() -> None:
    assert [(ratio["native_to"], ratio["tcp_gbps"]) for ratio in result().ratios()] == [
        ("tap_forwarder", 5.0)
    ]


def test_installation_beside_is_compared_variant_by_variant_and_above_one_is_better() -> None:
    theirs = replace(SAMPLE, tcp_gbps=6.0, udp64_kpps=400.0, rtt_us_p50=30.0)
    both = BenchResult(
        Run(
            {
                variant("native", "default"): [SAMPLE],
                variant("beside-native", "default"): [theirs],
                variant("native", "always"): [SAMPLE],
                variant("tap_forwarder"): [SAMPLE],
            },
            rounds=1,
        )
    )
    assert both.as_json()["ratio_to_beside"] == [
        {"variant": "native", "mtu": 1500, "icrc": "default"}
        | {"tcp_gbps": 2.0, "tcp4_gbps": 1.0, "udp64_kpps": 0.5, "rtt_us_p50": 2.0}
    ]
    assert [ratio["native_to"] for ratio in both.ratios()] == ["native", "tap_forwarder"]
    assert "ratio_to_beside" not in result().as_json()


def test_each_datapath_of_ours_is_followed_by_that_of_the_installation_beside() -> None:
    names = [(one.name, one.mtu, one.icrc) for one in variants(["/elsewhere/opavnic"])]
    ours = [(name, mtu, icrc) for name, mtu, icrc in names if icrc and not name.startswith("beside-")]
    assert len(ours) == 6
    for name, mtu, icrc in ours:
        assert names[names.index((name, mtu, icrc)) + 1] == (f"beside-{name}", mtu, icrc)
    assert [name for name in names if not name[0].startswith("beside-")] == [
        (one.name, one.mtu, one.icrc) for one in variants()
    ]


def test_iperf_report_that_says_busy_may_be_tried_again() -> None:
    for error in (
        "unable to connect to server: Connection refused",
        "unable to receive control message: Connection reset by peer",
        "the server is busy running a test. try again later",
    ):
        with pytest.raises(BusyServerError, match=re.escape(error)):
            iperf_result(json.dumps({"error": error}))
    for output in (json.dumps({"error": "unable to send: No route to host"}), "", "{}", "usage: iperf3"):
        with pytest.raises(PeerError) as caught:
            iperf_result(output)
        assert not isinstance(caught.value, BusyServerError)
    assert iperf_result('{"end": {"sum": 1}}') == {"sum": 1}


def test_peer_that_cannot_be_measured_here_is_left_out_with_its_reason() -> None:
    large = {variant.name: variant.missing() for variant in variants() if variant.mtu == 10000}
    assert "1514 bytes" in large["vde_switch"]
    assert "1500 bytes" in large["ovs_userspace"]


def test_plot_is_svg_with_a_bar_per_row_and_measure() -> None:
    rows = result().rows()
    document = ElementTree.fromstring(draw(panels("datapath", {"results": rows})))  # noqa: S314 - our own
    bars = [rect for rect in document.iter("{http://www.w3.org/2000/svg}rect") if rect.get("x")]
    assert len(bars) == 4 * len(rows)


def test_plot_of_nothing_is_still_svg() -> None:
    assert ElementTree.fromstring(draw(panels("datapath", {}))).tag.endswith("svg")  # noqa: S314 - our own
