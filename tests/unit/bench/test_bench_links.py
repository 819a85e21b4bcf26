"""What the bench of links makes of its samples; the measuring itself is tests/e2e/test_links_bench.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.fabric.notices import TracedPacket
from opavnic.cli.main import main
from opavnic.lab.file.parts import lab_model
from opavnic.lab.file.topology import lab_topology
from opavnic.observe.trace_file import write_trace
from opavnic_bench.base.turns import PeerError, Run
from opavnic_bench.links import bench
from opavnic_bench.links.bench import LinksResult
from opavnic_bench.links.cases import CLIENT, LinkCase, LinkParameters, Veth, subjects
from opavnic_bench.links.measure import count_packets, engine_of
from opavnic_bench.links.proof import Evidence, LinkSample, prove
from opavnic_bench.links.theory import (
    FULL_FRAME,
    binomial_interval,
    packet_bytes,
    round_trip_us,
    tcp_limit_gbps,
)
from opavnic_bench.plots.plot import draw, panels

NAMES = (
    "plain", "rate-1G", "rate-10G", "latency-200us", "jitter", "credits", "loss-match", "capture", "multipath",
    "fat-tree", "veth-tbf-1G", "veth-tbf-10G",
)  # fmt: skip
PLAIN = LinkSample(6.0, 20.0, 22.0, 15.0, "native")
SUBJECTS = {subject.name: subject for subject in subjects()}
CASES = [subject for subject in SUBJECTS.values() if isinstance(subject, LinkCase)]


# --- what is due -------------------------------------------------------------------------------------------


def test_packets_are_as_long_as_those_of_the_fabric() -> None:
    assert packet_bytes(FULL_FRAME) == 1544
    assert tcp_limit_gbps(1e9, 1544) == pytest.approx(0.938, abs=0.001)


def test_round_trip_has_latency_wire_time_and_half_the_jitter_of_every_link_both_ways() -> None:
    slow = LinkParameters(rate_bps=1e9, latency_s=10e-6, jitter_s=4e-6)
    assert round_trip_us([slow, slow]) == pytest.approx(4 * (10 + 128 * 8 / 1e3 + 2))


@given(st.integers(0, 40), st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100))
def test_binomial_interval_is_the_smallest_that_chance_leaves_this_rarely(
    trials: int, chance: Fraction
) -> None:
    def probability(hits: int) -> Fraction:
        return comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)

    low, high = binomial_interval(trials, float(chance))
    below = [sum(map(probability, range(hits)), Fraction()) for hits in range(trials + 2)]
    tail = 0.005 + 1e-12
    assert below[low] <= tail
    assert 1 - below[high + 1] <= tail
    assert low == trials or below[low + 1] > tail - 2e-12
    assert high == 0 or 1 - below[high] > tail - 2e-12


def test_binomial_interval_of_many_packets() -> None:
    low, high = binomial_interval(5_000_000, 1e-4)
    assert (low, high) == (443, 559)  # 500 +- 2.58 x 22.4, skewed a little


# --- the cases ---------------------------------------------------------------------------------------------


def test_cases_are_those_that_are_documented() -> None:
    assert tuple(SUBJECTS) == NAMES
    assert [subject.name for subject in subjects(["jitter"])] == ["plain", "jitter"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lab_of_a_case_has_the_way_that_its_figures_are_about(case: LinkCase) -> None:
    model: Any = lab_model().model_validate(case.lab())
    topology = lab_topology(model.fabric, model.hosts)
    graph: nx.Graph[str] = nx.Graph()
    for cable in topology.cables:
        link = cable.link.up
        assert cable.link.down == link
        wire = LinkParameters(link.rate_bps, link.latency_ns / 1e9, link.jitter_ns / 1e9)
        graph.add_edge(cable.a[0], cable.b[0], wire=wire)
    paths = list(nx.all_shortest_paths(graph, CLIENT, case.server))
    for path in paths:
        assert tuple(graph.edges[ends]["wire"] for ends in nx.utils.pairwise(path)) == case.way
    if case.via:
        assert {name for path in paths for name in path} >= set(case.via)
        assert len(paths) == len(case.via)


# --- the proofs --------------------------------------------------------------------------------------------


def proof(name: str, *evidence: Evidence, plain: tuple[LinkSample, ...] = (PLAIN,), **figures: Any) -> Any:
    samples = [replace(PLAIN, evidence=one, **figures) for one in evidence or (Evidence(),)]
    return prove(SUBJECTS[name], samples, plain)


def test_plain_case_claims_nothing() -> None:
    assert proof("plain") is None


@pytest.mark.parametrize("name", ["rate-1G", "rate-10G", "veth-tbf-1G", "veth-tbf-10G"])
def test_rate_holds_if_tcp_is_no_faster(name: str) -> None:
    gigabits = 1 if name.endswith("-1G") else 10
    assert proof(name, tcp_gbps=0.95 * gigabits)["ok"]
    assert not proof(name, tcp_gbps=1.05 * gigabits)["ok"]


def test_latency_holds_if_no_ping_is_early() -> None:
    assert proof("latency-200us", rtt_us_min=801.0)["ok"]
    assert proof("latency-200us", rtt_us_min=799.0) == {"ok": False, "rtt_us_min": 799.0, "due_us": 800.0}


def test_jitter_holds_if_the_mean_is_that_of_theory() -> None:
    due = round_trip_us([LinkParameters(jitter_s=200e-6)] * 2) + PLAIN.rtt_us_mean
    assert proof("jitter", rtt_us_mean=1.09 * due)["ok"]
    assert not proof("jitter", rtt_us_mean=1.11 * due)["ok"]
    assert not proof("jitter", rtt_us_mean=0.89 * due)["ok"]
    assert not proof("jitter", plain=())["ok"]


def test_credits_hold_if_they_stopped_somebody_and_nothing_was_lost() -> None:
    assert proof("credits", Evidence(), Evidence(stops=3))["ok"]
    assert not proof("credits", Evidence())["ok"]
    assert not proof("credits", Evidence(stops=3), Evidence(link_drops=1))["ok"]


def test_loss_holds_if_the_fault_saw_the_packets_of_the_flow_and_hit_as_chance_does() -> None:
    assert proof("loss-match", Evidence(packets_tx=100_000, seen=100_000, hits=10)) == {
        "ok": True,
        "packets": 100_000,
        "seen": 100_000,
        "hits": 10,
        "hits_expected": [3, 19],
    }
    assert not proof("loss-match", Evidence(packets_tx=100_001, seen=100_000, hits=10))["ok"]
    assert not proof("loss-match", Evidence(packets_tx=100_000, seen=100_000, hits=2))["ok"]
    assert not proof("loss-match", Evidence(packets_tx=100_000, seen=100_000, hits=20))["ok"]
    assert not proof("loss-match", Evidence())["ok"]
    # one round more, the other less: in sum right, but not what happened
    assert not proof("loss-match", Evidence(packets_tx=9, seen=10), Evidence(packets_tx=11, seen=10))["ok"]


def test_capture_holds_if_nearly_every_packet_is_in_the_file() -> None:
    shown = proof("capture", Evidence(packets_tx=600, packets_rx=400, kept=990, missed=10))
    assert shown == {"ok": True, "packets": 1000, "kept": 990, "missed": 10, "kept_share": 0.99}
    assert not proof("capture", Evidence(packets_tx=600, packets_rx=400, kept=989, missed=11))["ok"]
    assert not proof("capture", Evidence())["ok"]


def test_paths_hold_if_more_than_one_carried_flows() -> None:
    assert proof("multipath", Evidence(via={"spine0": 900, "spine1": 100}))["ok"]
    # a single packet of management is no flow
    assert not proof("multipath", Evidence(via={"spine0": 999, "spine1": 1}))["ok"]
    assert not proof("fat-tree", Evidence(via=dict.fromkeys(("core0", "core1", "core2", "core3"), 0)))["ok"]
    halves = [Evidence(via={"core0": 100, "core1": 0}), Evidence(via={"core0": 0, "core1": 100})]
    assert proof("fat-tree", *halves)["via"] == {"core0": 100, "core1": 100}


# --- the report --------------------------------------------------------------------------------------------


def result(plain: Sequence[LinkSample] = (), **samples: list[LinkSample]) -> LinksResult:
    found = {SUBJECTS[name.replace("_", "-")]: rounds for name, rounds in samples.items()}
    return LinksResult(Run(found, rounds=1), plain)


def test_rows_compare_with_what_is_possible_and_with_the_plain_case() -> None:
    slow = replace(PLAIN, tcp_gbps=0.8, rtt_us_p50=30.0)
    far = replace(PLAIN, tcp_gbps=4.5, rtt_us_p50=900.0, rtt_us_min=850.0)
    plain, rate, latency = result(plain=[PLAIN], rate_1G=[slow], latency_200us=[far]).rows()
    assert (plain["possible_gbps"], plain["share"], plain["rtt_expected_us"]) == (6.0, 1.0, 20.0)
    assert (rate["possible_gbps"], rate["share"]) == (0.938, 0.85)
    assert rate["rtt_expected_us"] == pytest.approx(20 + 4 * 128 * 8 * (1 - 0.01) / 1e3, abs=0.1)
    assert (latency["possible_gbps"], latency["share"]) == (6.0, 0.75)
    assert latency["rtt_expected_us"] == pytest.approx(819.0, abs=1.0)
    assert latency["rtt_over_us_per_direction"] == pytest.approx(20.0, abs=0.5)
    assert latency["engine"] == "native"


def test_share_is_of_what_the_plain_case_carried_right_before_and_after() -> None:
    """The machine is half as fast in the second round, and a third as fast in the last."""
    plain = [
        replace(PLAIN, tcp_gbps=gbps, rtt_us_p50=rtt) for gbps, rtt in ((6, 20), (6, 20), (3, 40), (2, 60))
    ]
    measured = [
        replace(PLAIN, tcp_gbps=gbps, place=place, rtt_us_p50=1000.0)
        for gbps, place in ((5.4, 0), (3.6, 1), (2.0, 2))
    ]
    row = result(plain=plain, latency_200us=measured).rows()[1]
    assert row["share"] == 0.8  # of 0.9, 0.8 and 0.8
    assert (row["tcp_gbps"], row["possible_gbps"]) == (3.6, 4.5)  # the median of 6, 6, 6, 3, 3, 2
    assert row["rtt_expected_us"] == pytest.approx(798.8 + 30, abs=0.1)
    (first,) = measured[:1]
    assert result(plain=plain, latency_200us=[first]).rows()[1]["share"] == 0.9


def test_figures_are_medians_and_an_engine_that_changed_is_seen() -> None:
    rounds = [replace(PLAIN, tcp_gbps=gbps, engine=engine) for gbps, engine in ((1, "native"), (5, "python"))]
    (row,) = result(plain=[*rounds, PLAIN]).rows()
    assert (row["tcp_gbps"], row["engine"]) == (5, "native+python")


def test_veth_is_compared_with_its_own_rate() -> None:
    row = result(plain=[PLAIN], veth_tbf_10G=[replace(PLAIN, tcp_gbps=9.0)]).rows()[1]
    assert row["possible_gbps"] == pytest.approx(9.564, abs=0.001)
    assert row["rtt_expected_us"] is None


def test_run_is_proven_only_if_each_case_of_ours_was_measured_and_shown() -> None:
    stopped = replace(PLAIN, evidence=Evidence(stops=1))
    assert result(plain=[PLAIN], credits=[stopped], veth_tbf_1G=[]).proven
    assert not result(plain=[PLAIN], credits=[PLAIN]).proven
    assert not result(plain=[PLAIN], credits=[]).proven
    assert not result(plain=[], credits=[stopped]).proven


def test_plot_is_svg_with_a_bar_per_row_and_measure() -> None:
    rows = result(plain=[PLAIN], jitter=[PLAIN]).rows()
    document = ElementTree.fromstring(draw(panels("links", {"runs": rows})))  # noqa: S314 - our own
    bars = [rect for rect in document.iter("{http://www.w3.org/2000/svg}rect") if rect.get("x")]
    assert len(bars) == 3 * len(rows)


# --- the lab's word ----------------------------------------------------------------------------------------


def test_engine_is_that_of_the_links() -> None:
    native = {"engine": "native", "vnics": 2, "links": 3}
    python = {"engine": "python", "vnics": 1, "links": 0}
    assert engine_of({"engine": {"workers": [native, python]}}) == "native"
    assert engine_of({"engine": {"workers": [native, {**python, "links": 1}]}}) == "native+python"


def test_packets_of_a_capture_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "link.pcapng"
    write_trace(file, [TracedPacket(0.0, "h1:1->sw0:1", bytes(24), None)] * 3)
    assert count_packets(file) == (3, 0)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(PeerError, match="the capture cannot be read"):
        count_packets(file)


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let the command run without the machine; what it asks for is kept."""
    asked: dict[str, Any] = {}

    def fake(rounds: int, seconds: int, *, only: Any, progress: Any) -> LinksResult:
        asked.update(rounds=rounds, seconds=seconds, only=only)
        return result(plain=[PLAIN], credits=[replace(PLAIN, evidence=Evidence(stops=int(not only)))])

    monkeypatch.setattr(bench, "bench_links", fake)
    monkeypatch.setattr("opavnic.lab.ownership.privileges.check_tun", lambda: None)
    monkeypatch.setattr("opavnic.lab.ownership.privileges.has_capabilities", lambda: True)
    return asked


def test_command_prints_json_and_draws(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "links.svg"
    words = ["bench", "links", "--json", "--rounds", "2", "--seconds", "5s", "--plot", str(plot)]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert measured == {"rounds": 2, "seconds": 5, "only": ()}
    assert document["proven"]
    assert set(document["runs"][1]) == {
        "case", "tcp_gbps", "possible_gbps", "share", "to_veth", "rtt_us_p50", "rtt_expected_us",
        "rtt_over_us_per_direction", "engine", "proof",
    }  # fmt: skip
    assert plot.read_text().startswith("<svg")


def test_command_fails_if_a_case_was_not_what_it_says(
    measured: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "links", "--only", "credits"]) == 1
    assert "NOT SHOWN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--only", "rate-2G"], "opavnic: no case rate-2G (known: capture, credits, "),
        (["--seconds", "0"], "opavnic: Invalid value for '--seconds': '0' is not a time from 1s to 1m"),
        (
            ["--rounds", "0"],
            "opavnic: Invalid value for '--rounds': Input should be greater than or equal to 1",
        ),
    ],
)
def test_wrong_question_is_one_line(
    words: list[str], wrong: str, measured: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "links", *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), measured) == ("", 1, {})
    assert shown.err.startswith(wrong)


def test_veths_are_beside_the_rates() -> None:
    rates = {wire.rate_bps for case in CASES if case.name.startswith("rate-") for wire in case.way}
    assert {subject.rate_bps for subject in SUBJECTS.values() if isinstance(subject, Veth)} == rates
