"""Faults of a running lab, by the program: what they break is mended again, for real programs over real TAPs."""

from __future__ import annotations

import os
import time

import pytest

from e2e.conftest import Program

LAB = """
name: {name}
hosts: {{h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}}
datapath: {datapath}
"""
PATIENCE_S = 60.0


def wait_for_state(opavnic: Program, host: int, state: str) -> None:
    """Ask until the VNIC of a host is in a state; how long that takes is not the point."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = opavnic.data("status")["hosts"][host]["vnics"][0]["state"]
        if found == state:
            return
        assert time.monotonic() < until, f"still {found}, not {state}"


@pytest.mark.parametrize("datapath", ["python", "auto"])
def test_host_whose_driver_crashes_comes_back_with_its_vnic(opavnic: Program, datapath: str) -> None:
    opavnic.up(LAB.format(name=f"crash{os.getpid()}-{datapath}", datapath=datapath))
    opavnic.on("h1", "ping", "-c1", "-w20", "10.9.2.2")
    opavnic.ok("fault", "add", "crash", "on", "h2")
    wait_for_state(opavnic, 1, "not created by the EM")
    assert "does not exist" in opavnic("exec", "h2", "--", "ip", "link", "show", "blue").stderr
    opavnic.ok("fault", "clear")
    wait_for_state(opavnic, 1, "up")
    opavnic.on("h1", "ping", "-c1", "-w20", "10.9.2.2")
    status = opavnic.data("status")
    assert status["balance"] == {}
    down = opavnic.data("down")
    assert len(down["netdevs"]) == 2, down
