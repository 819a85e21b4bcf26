"""`opavnic metrics`, asked of a lab in memory that is served by this process."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_states import host_state, lab_state, link_state, vnic_state
from prometheus_client.parser import text_string_to_metric_families

from ejfat.base.drops import LbDrop
from hfi_sim.netdev.memory import MemoryNetdev
from lab_in_memory import answering, pings, stand_in
from opavnic.cli.main import main
from opavnic.lab.ownership.runtime import LabDir
from opavnic.lab.run.lab import Lab
from opavnic.observe.metrics import FAMILIES, lane_places

LAB = """
name: x
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""
EXAMPLES = Path(__file__).parents[5] / "examples" / "prometheus"
START = "from opavnic.cli.start import start; start()"
PROMTOOL = shutil.which("promtool")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


pytestmark = pytest.mark.usefixtures("own_runtime")


@pytest.fixture
def scrape(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `opavnic metrics` and return its exit code, the text and the samples of it."""

    async def run(*arguments: str) -> tuple[int, str, Samples]:
        code = await asyncio.to_thread(main, ["metrics", *arguments])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, captured.out, samples(captured.out)

    return run


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted({"lab": "x", **labels}.items()))


async def ping(lab: Lab, count: int, answered: int, timeout_s: float = 5.0) -> None:
    assert await pings(lab, "h1", "h2", count, timeout_s=timeout_s) == answered


async def test_counters_grow_with_what_passes(directory: LabDir, scrape: Callable[..., Any]) -> None:
    async with answering(directory, LAB) as lab:
        await ping(lab, 1, 1)  # from now on the hosts know each other's addresses
        _, _, before = await scrape()
        await ping(lab, 5, 5)
        code, _, after = await scrape("--lab", "x")
        assert code == 0
        vnic = {"host": "h1", "vesw": "blue", "interface": "blue"}
        for name in ("opavnic_vnic_transmit_packets_total", "opavnic_vnic_receive_packets_total"):
            assert after[key(name, **vnic)] - before[key(name, **vnic)] == 5
        assert after[key("opavnic_vnic_up", **vnic)] == 1
        link = next(row for row in after if row[0] == "opavnic_link_packets_total" and "h1" in str(row))
        assert after[link] - before[link] == 5
        assert after[key("opavnic_lab_answers")] == 1


async def test_fault_shows_in_drops_and_hits_and_a_cut_link_is_down(
    directory: LabDir, scrape: Callable[..., Any]
) -> None:
    async with answering(directory, LAB) as lab:
        lab.world.faults.add("loss on h1->sw0 100%")
        await ping(lab, 3, 0, timeout_s=0.1)
        lab.world.faults.clear()
        lab.world.faults.add("link-down on h2--sw0")
        _, _, found = await scrape()
        assert found[key("opavnic_dropped_packets_total", element="h1:1->sw0:2", reason="link_fault")] > 0
        assert [value for (name, _), value in found.items() if name == "opavnic_link_up"].count(0) == 1
        assert found[key("opavnic_faults")] == 1


CONGESTED = """
name: x
fabric:
  topology: {kind: single-switch}
  link: {rate: 1M, latency: 0, queue: 64K, credits: {buffer: 16K, fecn: 4K}}
hosts: {h1: {}, h2: {}, h3: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
"""


async def test_congested_link_has_marks_and_the_one_before_it_waits(
    directory: LabDir, scrape: Callable[..., Any]
) -> None:
    async with answering(directory, CONGESTED) as lab:
        to = lab.interface("h3", "blue").netdev.host_address
        for _ in range(80):
            for host in ("h1", "h2"):
                netdev = lab.interface(host, "blue").netdev
                assert isinstance(netdev, MemoryNetdev)
                netdev.transmit(to + bytes(6) + b"\x88\xb5" + bytes(1400))
        links = {
            host: lab.world.fabric.hfis[host].ports[1].link.directions[0].name for host in ("h1", "h2", "h3")
        }
        wait, fecn = "opavnic_link_wait_seconds_total", "opavnic_link_fecn_packets_total"
        sends = key(wait, link=links["h1"], direction="forth", vl="0")
        full = {"link": links["h3"], "direction": "back", "vl": "0"}
        while not (found := (await scrape())[2])[sends]:
            pass
        assert found[sends] < 10
        assert found[key(fecn, **full)] > 0
        assert found[key(fecn, link=links["h1"], direction="forth", vl="0")] == 0


def test_lanes_of_a_large_fabric_are_asked_by_switch() -> None:
    hosts = [link_state(f"h{number}:1->leaf{number % 2}:{number}") for number in range(1, 9)]
    between = [link_state(f"leaf{number}:10->spine:{number + 1}") for number in (0, 1)]
    assert lane_places([], 512) == []
    assert lane_places([*hosts, *between], 20) == ["*"]
    assert lane_places([*hosts, *between], 19) == ["leaf1", "leaf0"]


async def test_addresses_that_move_and_are_held_are_metrics_and_in_the_status(
    directory: LabDir, scrape: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async with answering(directory, f"{LAB}em: {{mac: learn}}\n") as lab:
        mac = bytes.fromhex("00005e000107")

        async def speaks(host: str) -> None:
            netdev = lab.interface(host, "blue").netdev
            assert isinstance(netdev, MemoryNetdev)
            assert lab.manager is not None
            core = lab.manager.em.core
            assert core is not None
            netdev.transmit(b"\xff" * 6 + mac + b"\x88\xb5" + bytes(46))
            (vesw,) = core.vesws.values()
            guid = int(lab.world.fabric.hfis[host].ports[1].guid)
            while (mac, guid) not in {(known, owner) for _, known, _, owner in vesw.entries()}:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)

        await speaks("h1")
        for host in ("h2", "h1", "h2"):
            await speaks(host)
        _, _, found = await scrape()
        assert found[key("opavnic_vesw_mac_moves_total", vesw="blue")] == 3
        assert found[key("opavnic_vesw_mac_holds_total", vesw="blue")] == 0
        assert found[key("opavnic_vesw_held_macs", vesw="blue")] == 0
        for host in ("h1", "h2"):
            await speaks(host)
        netdev = lab.interface("h1", "blue").netdev
        assert isinstance(netdev, MemoryNetdev)
        netdev.transmit(b"\xff" * 6 + mac + b"\x88\xb5" + bytes(46))
        while not (await scrape())[2][key("opavnic_vesw_held_macs", vesw="blue")]:
            pass
        _, _, found = await scrape()
        assert found[key("opavnic_vesw_mac_moves_total", vesw="blue")] == 5
        assert found[key("opavnic_vesw_mac_holds_total", vesw="blue")] == 1
        await asyncio.to_thread(main, ["status"])
        assert "blue: 00:00:5e:00:01:07 moves too often between members" in capsys.readouterr().out


async def test_what_a_load_balancer_drops_and_does_not_believe_is_a_metric(
    directory: LabDir, scrape: Callable[..., Any]
) -> None:
    """Forged ticks of an allowed sender and a frame of nobody's, in the lab's own load balancer."""
    apps = "apps: [{kind: ejfat-lb, host: h2, options: {port: 0}}]\n"
    async with answering(directory, LAB + apps) as lab:
        counters = lab.parts.apps["h2"].app.pipeline.counters  # type: ignore[attr-defined]
        balancer = {"host": "h2", "app": "ejfat-lb"}
        counters.drop(LbDrop.SRC_BLOCKED)
        counters.lbs[0].furthest = 1000
        for tick in (999, 1001, 1 << 63):
            counters.lbs[0].see(tick)
        _, _, found = await scrape()
        dropped = key("opavnic_app_dropped_packets_total", **balancer, reason="src_filter:miss")
        assert found[dropped] == counters.drops[LbDrop.SRC_BLOCKED]
        assert (
            found[key("opavnic_app_refused_tick_packets_total", **balancer, reason="tick:too_far_ahead")] == 2
        )


async def test_text_of_a_lab_cannot_break_the_format(directory: LabDir, scrape: Callable[..., Any]) -> None:
    name = 'a"} 7\nopavnic_hosts{lab="forged'
    state = lab_state(em=name, hosts=[host_state("h1", vnic_state(vesw=name, interface=name))])
    async with stand_in(directory, state.as_json()):
        _, _, found = await scrape()
    assert found[key("opavnic_hosts")] == 1
    assert not [labels for _, labels in found if ("lab", "forged") in labels]


async def test_lab_that_does_not_answer_or_says_too_little_is_told_as_such(
    directory: LabDir, scrape: Callable[..., Any]
) -> None:
    code, _, found = await scrape()
    assert (code, found) == (0, {key("opavnic_lab_answers"): 0})
    async with stand_in(directory, {"lab": "x"}):
        assert (await scrape())[2] == {key("opavnic_lab_answers"): 0}


def test_without_a_lab_there_are_no_samples_and_an_unknown_lab_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["metrics"]) == 0
    assert samples(capsys.readouterr().out) == {}
    assert main(["metrics", "--lab", "y"]) == 1
    assert 'lab "y" is not running' in capsys.readouterr().err


async def test_server_answers_scrapes_until_a_signal(directory: LabDir) -> None:
    async with answering(directory, LAB):
        server = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", START, "metrics", "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        try:
            line = await asyncio.to_thread(server.stderr.readline)
            address = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
            assert address, line
            text = await asyncio.to_thread(_get, address[0])
            assert samples(text)[key("opavnic_hosts")] == 2
        finally:
            server.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.wait, 30) == 0
        assert server.stderr.read() == ""
        server.stderr.close()


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - of this test
        return str(answer.read().decode())


async def test_promtool_finds_nothing_to_say(directory: LabDir, scrape: Callable[..., Any]) -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool here: Debian's package prometheus has it")
    async with answering(directory, LAB) as lab:
        lab.world.faults.add("loss on h1 20%")
        _, text, _ = await scrape()
    check = subprocess.run(  # noqa: ASYNC221
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_promtool_accepts_configuration_and_rules_of_the_example() -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool here: Debian's package prometheus has it")
    for what, file in (("rules", "alerts.yaml"), ("config", "prometheus.yml")):
        check = subprocess.run([PROMTOOL, "check", what, EXAMPLES / file], capture_output=True, check=False)
        assert check.returncode == 0, check.stderr


def test_dashboard_and_alerts_use_metrics_that_there_are() -> None:
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    watched = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    used = {name for text in [*shown, *watched] for name in re.findall(r"opavnic_\w+", text)}
    assert used
    assert used <= {family.full_name for family in FAMILIES}


def test_names_follow_the_conventions() -> None:
    for family in FAMILIES:
        assert re.fullmatch(r"opavnic_[a-z_]+", family.name)
        assert not family.name.endswith("_total")
        assert family.help.endswith(".")
        counted = ("_packets", "_bytes", "_mads", "_missed", "_moves", "_holds", "_seconds")
        assert not family.counter or family.name.endswith(counted)
