"""A coordinator that is killed and started again with the same command: the machines go on with the same lab."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable

import pytest

from opavnic_bench.base.sites import until
from opavnic_bench.base.turns import PeerError
from opavnic_bench.cluster.machines import BenchCluster, cluster, machines

PATIENCE_S = 60.0
"""Seconds for what comes true by itself; ends as it does. A busy machine is slow to notice, and to answer."""
BLUE = {"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h1", "h2", "h3"]}
LAB = {
    "name": "restart",
    "fabric": {"topology": {"kind": "clos", "leaves": 3, "spines": 2, "hosts_per_leaf": 1, "uplinks": 2}},
    "hosts": 3,
    "vesws": [{**BLUE, "subnet": "10.9.2.0/24"}],
    "cluster": {"place": {"leaf1": "m2", "leaf2": "m3", "spine1": "m2"}},
}
HOSTS = ("h1", "h2", "h3")


def inside(up: BenchCluster, host: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = ["ip", "netns", "exec", up.namespace(host), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def reaches(up: BenchCluster, host: str, other: str) -> bool:
    return inside(up, host, "ping", "-c1", "-W1", f"10.9.2.{other[1:]}").returncode == 0


def lids(up: BenchCluster) -> dict[str, int]:
    return {host["name"]: host["lid"] for host in up.status("m1")["hosts"]}


def namespaces(up: BenchCluster) -> set[str]:
    found = json.loads(subprocess.run(["ip", "-j", "netns"], capture_output=True, check=True).stdout or "[]")
    return {row["name"] for row in found} & set(map(up.namespace, HOSTS))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_coordinator_is_killed_and_started_again_and_the_lab_is_whole_until_it_ends_without_a_trace() -> None:
    with machines(3) as found, cluster(found, LAB) as up:
        before = lids(up)
        up.opavnic("m1", "fault", "add", "loss", "on", "h2", "5%")
        up.kill("m1")
        until(lambda: up.status("m2")["cluster"]["there"] == ["m2", "m3"], "m1 is there", limit_s=60.0)
        assert namespaces(up) >= set(map(up.namespace, ("h2", "h3"))), "hosts of the others stay"

        up.start("m1")
        until(
            lambda: "is running; end it" in up.said("m1").rpartition("machines are there")[2],
            "m1 is not ready",
            limit_s=90.0,
        )
        for host, other in (("h1", "h2"), ("h1", "h3"), ("h2", "h3")):
            until(lambda: reaches(up, host, other), f"{host} does not reach {other}", limit_s=PATIENCE_S)  # noqa: B023
        assert lids(up) == before
        assert up.ask("m1", "fault", "show")["faults"] == [], "faults are those of the process that runs"
        until(
            lambda: "every agent matches the configuration" in up.opavnic("m1", "em", "verify", check=False),
            "the agents do not match the configuration",
            pause_s=0.5,
            limit_s=PATIENCE_S,
        )
        until(lambda: not up.unaccounted(), "frames are unaccounted for", pause_s=0.3, limit_s=PATIENCE_S)
        assert namespaces(up) == set(map(up.namespace, HOSTS))
        up.processes["m1"].terminate()
        assert [up.processes[name].wait(60) for name in found.names] == [0, 0, 0], "it ends the others"
        assert namespaces(up) == set()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_members_that_met_by_a_coordinator_started_again_find_each_other_after_a_partition() -> None:
    with machines(3) as found, cluster(found, LAB) as up:

        def are_open(*names: str) -> set[bool]:
            """Return whether the links between two machines are open."""
            links = up.status(names[0])["cluster"]["links"]
            return {link["is_open"] for link in links if link["peer"] == names[1]}

        def is_whole() -> bool:
            seen = [up.status(name)["cluster"]["there"] for name in found.names]
            return seen == [found.names] * 3 and reaches(up, "h2", "h3") and reaches(up, "h3", "h1")

        for name in ("m1", "m3"):
            up.kill(name)
            up.start(name)
            until(lambda: _is(is_whole), f"{name} is not back", pause_s=0.3, limit_s=90.0)
        found.part("m2", "m3", apart=True)
        for pair in (("m2", "m3"), ("m3", "m2")):
            until(lambda: are_open(*pair) == {False}, f"{pair} are together", limit_s=60.0)  # noqa: B023
        until(lambda: reaches(up, "h2", "h3"), "no way around the cut", limit_s=PATIENCE_S)
        found.part("m2", "m3", apart=False)
        until(lambda: are_open("m2", "m3") == {True}, "m2 and m3 stay apart", pause_s=0.3, limit_s=90.0)
        until(lambda: _is(is_whole), "m2 and m3 are not whole", pause_s=0.3, limit_s=90.0)
        until(lambda: not up.unaccounted(), "frames are unaccounted for", pause_s=0.3, limit_s=60.0)


def _is(condition: Callable[[], bool]) -> bool:
    """Return whether it is true; a machine that does not answer yet makes it false."""
    with contextlib.suppress(PeerError):
        return condition()
    return False
