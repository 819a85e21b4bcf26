"""A coordinator that is killed: the managers of another machine go on, and give the fabric back."""

from __future__ import annotations

import json
import subprocess

import pytest

from opavnic_bench.base.sites import until
from opavnic_bench.base.turns import PeerError
from opavnic_bench.cluster.machines import Cluster, cluster, machines

PATIENCE_S = 60.0
"""Seconds for what comes true by itself; ends as it does. A busy machine is slow to notice, and to answer."""
BLUE = {"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h1", "h2", "h3"]}
LAB = {
    "name": "standby",
    "fabric": {"topology": {"kind": "clos", "leaves": 3, "spines": 2, "hosts_per_leaf": 1, "uplinks": 2}},
    "hosts": 3,
    "vesws": [{**BLUE, "subnet": "10.9.2.0/24"}],
    "cluster": {"em_standby": ["m2"], "place": {"leaf1": "m2", "leaf2": "m3", "spine1": "m2"}},
}


def inside(up: Cluster, host: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = ["ip", "netns", "exec", up.namespace(host), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def reaches(up: Cluster, host: str, other: str) -> bool:
    return inside(up, host, "ping", "-c1", "-W1", f"10.9.2.{other[1:]}").returncode == 0


def mtu(up: Cluster, host: str) -> int:
    found: int = json.loads(inside(up, host, "ip", "-j", "link", "show", "blue").stdout)[0]["mtu"]
    return found


def standing(up: Cluster, machine: str) -> tuple[str, str]:
    """Return the role of a machine's Ethernet Manager, and where it takes the master to be."""
    said = up.ask(machine, "status")["parts"]["Ethernet Manager"]
    return said["role"], said["master"]


def manager(up: Cluster, machine: str) -> str:
    """Return the machine on which the managers are, as another one knows it."""
    found: str = up.ask(machine, "status")["cluster"]["manager"]
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_coordinator_is_killed_and_the_standby_manages_the_fabric_until_it_is_back() -> None:
    with machines(3) as found, cluster(found, LAB) as up:
        # a standby knows of its master by a heartbeat, and the coordinator waits for none before it says that all runs
        until(lambda: standing(up, "m2") == ("standby", "m1"), "m2 is no standby", limit_s=PATIENCE_S)
        assert standing(up, "m1") == ("master", "m1")
        assert up.ask("m2", "em", "show", "vesws")["manager"]["role"] == "standby"
        config = found.directory / "em.yaml"
        config.write_text(json.dumps({"vesws": [{**BLUE, "mtu": 1400}]}))
        with pytest.raises(PeerError, match="the Ethernet Manager on m2 is a standby: apply it on m1"):
            up.opavnic("m2", "em", "apply", str(config))

        up.kill("m1")
        until(lambda: standing(up, "m2") == ("master", "m2"), "m2 is not the master", limit_s=PATIENCE_S)
        for name in ("m2", "m3"):
            until(
                lambda name=name: manager(up, name) == "m2", f"{name} has another manager", limit_s=PATIENCE_S
            )  # type: ignore[misc]
        up.opavnic("m2", "em", "apply", str(config))
        assert [mtu(up, host) for host in ("h2", "h3")] == [1400, 1400]
        until(lambda: reaches(up, "h2", "h3"), "no way around m1", limit_s=PATIENCE_S)

        up.start("m1")
        until(
            lambda: "is running; end it" in up.said("m1").rpartition("machines are there")[2],
            "m1",
            limit_s=90,
        )
        until(lambda: standing(up, "m2") == ("standby", "m1"), "m2 is still master", limit_s=PATIENCE_S)
        assert standing(up, "m1") == ("master", "m1")
        until(
            lambda: reaches(up, "h1", "h2") and reaches(up, "h1", "h3"), "h1 is not back", limit_s=PATIENCE_S
        )
        assert [mtu(up, host) for host in ("h1", "h2", "h3")] == [1400] * 3, (
            "what was applied meanwhile stays"
        )
        # an agent whose addresses have just changed says so in its own time
        until(
            lambda: "every agent matches the configuration" in up.opavnic("m1", "em", "verify", check=False),
            "the agents do not match the configuration",
            limit_s=PATIENCE_S,
        )
        until(lambda: not up.unaccounted(), "frames are unaccounted for", pause_s=0.3, limit_s=PATIENCE_S)
