"""Two rails in a running lab: real programs on the VNICs of both HFIs of a host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from program import ok

Program = Callable[..., "subprocess.CompletedProcess[str]"]
LAB = """
name: {name}
hosts: {{h1: {{hfis: 2}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h1.2, h2]}}
"""
PREFER_LIVE_RAILS = ("sysctl", "-qw", "net.ipv4.conf.all.ignore_routes_with_linkdown=1")


@pytest.fixture
def packets(opavnic: Program) -> Callable[[str], int]:
    def sent(hfi: str) -> int:
        links = json.loads(ok(opavnic("status", "--json")))["links"]
        return next(int(link["packets_forth"]) for link in links if link["name"].startswith(f"{hfi}:1->"))

    return sent


def test_host_goes_on_over_its_other_rail_when_one_is_cut(
    opavnic: Program, tmp_path: Path, packets: Callable[[str], int]
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.format(name=f"rails{os.getpid()}"))
    ok(opavnic("up", file, "-d"))
    status = json.loads(ok(opavnic("status", "--json")))
    vnics = [(vnic["interface"], vnic["port"], vnic["ip"]) for vnic in status["hosts"][0]["vnics"]]
    assert vnics == [("blue", "h1:1", "10.9.2.1/24"), ("blue-2", "h1.2:1", "10.9.2.3/24")]
    ok(opavnic("exec", "h1", "--", *PREFER_LIVE_RAILS))
    for interface, hfi in (("blue", "h1"), ("blue-2", "h1.2")):
        before = packets(hfi)
        ok(opavnic("exec", "h1", "--", "ping", "-c20", "-i0.01", "-w20", "-I", interface, "10.9.2.2"))
        assert packets(hfi) >= before + 20
    ok(opavnic("em", "verify"))
    ok(opavnic("fault", "add", "link-down", "on", "h1"))
    before = packets("h1.2")
    ok(opavnic("exec", "h1", "--", "ping", "-c20", "-i0.01", "-w20", "10.9.2.2"))
    assert packets("h1.2") >= before + 20
    saved = ok(opavnic("save"))
    assert "members: [h1, h1.2, h2]" in saved
    down = json.loads(ok(opavnic("down", "--json")))
    assert len(down["netdevs"]) == 3, down
