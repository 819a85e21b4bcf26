"""The real Omni-Path fabric manager on a host of a machine that is not the coordinator."""

from __future__ import annotations

import contextlib
import subprocess

import pytest

from e2e.managed_lab import fabric_manager, require_fabric_manager
from opavnic_bench.base.running_lab import OWN
from opavnic_bench.base.sites import until
from opavnic_bench.cluster.machines import BenchCluster, cluster, machines

LAB = {
    "name": "elsewhere",
    "fabric": {
        "id": 0x301,
        "topology": {"kind": "clos", "leaves": 3, "spines": 2, "hosts_per_leaf": 1, "uplinks": 2},
        "link": {"credits": {"vls": 8, "buffer": "16K", "shared": "64K"}},
    },
    "hosts": 3,
    "vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.2.0/24", "members": "all"}],
    "subnet_manager": "external",
}


@pytest.fixture(autouse=True)
def _with_fabric_manager() -> None:
    require_fabric_manager()


def fabric_manager_on(up: BenchCluster, machine: str, host: str) -> contextlib.AbstractContextManager[None]:
    settings = up.machines.directory / "opafm.xml"
    up.opavnic(machine, "fm", "config", str(up.file), "-w", str(settings))
    environment = up.machines.environment(machine)
    return fabric_manager(up.machines.command(machine, *OWN), host, settings, environment)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_fabric_manager_on_a_member_runs_the_fabric_of_all_machines() -> None:
    """Its SMPs cross the links between machines; the coordinator's model follows what it has set there."""
    with machines(3) as found, cluster(found, LAB, tls=False) as up:
        assert str(up.status("m1")["parts"]["fabric manager"]["state"]).startswith("awaited: ")
        with fabric_manager_on(up, "m3", "h3"):

            def states() -> set[str]:
                hosts = up.status("m1")["hosts"]
                return {vnic["state"] for host in hosts for vnic in host["vnics"]}

            until(lambda: states() == {"up"}, "VNICs are not up", pause_s=1.0, limit_s=180)
            ping = ["ip", "netns", "exec", up.namespace("h1"), "ping", "-c3", "-i0.2", "-w20", "10.9.2.2"]
            assert subprocess.run(ping, capture_output=True, check=False).returncode == 0
            until(
                lambda: up.status("m1")["parts"]["fabric manager"].get("host") == "h3",
                "the coordinator does not know where the fabric manager is",
                limit_s=60,
            )
            lids = {host["name"]: host["lid"] for host in up.status("m1")["hosts"]}
            assert 0 not in lids.values()
            assert len(set(lids.values())) == 3
            until(
                lambda: up.ask("m1", "topo", "--routes", "h2", "h3")["paths"][0][-1].startswith("h3"),
                "the coordinator does not know the tables of the other machines",
                limit_s=60,
            )
            said = up.opavnic("m1", "exec", "--umad", "h3", "--", "opafabricinfo")
            assert "SM: h3" in said
            assert "Number of HFIs: 4" in said
