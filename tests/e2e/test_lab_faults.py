"""Faults of a running lab, by the program: what they break is mended again, for real programs over real TAPs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from program import ok

Program = Callable[..., "subprocess.CompletedProcess[str]"]
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
        found = json.loads(ok(opavnic("status", "--json")))["hosts"][host]["vnics"][0]["state"]
        if found == state:
            return
        assert time.monotonic() < until, f"still {found}, not {state}"


@pytest.mark.parametrize("datapath", ["python", "auto"])
def test_host_whose_driver_crashes_comes_back_with_its_vnic(
    opavnic: Program, tmp_path: Path, datapath: str
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.format(name=f"crash{os.getpid()}-{datapath}", datapath=datapath))
    ok(opavnic("up", file, "-d"))
    ok(opavnic("exec", "h1", "--", "ping", "-c1", "-w20", "10.9.2.2"))
    ok(opavnic("fault", "add", "crash", "on", "h2"))
    wait_for_state(opavnic, 1, "not created by the EM")
    assert "does not exist" in opavnic("exec", "h2", "--", "ip", "link", "show", "blue").stderr
    ok(opavnic("fault", "clear"))
    wait_for_state(opavnic, 1, "up")
    ok(opavnic("exec", "h1", "--", "ping", "-c1", "-w20", "10.9.2.2"))
    status = json.loads(ok(opavnic("status", "--json")))
    assert status["balance"] == {}
    down = json.loads(ok(opavnic("down", "--json")))
    assert len(down["netdevs"]) == 2, down
