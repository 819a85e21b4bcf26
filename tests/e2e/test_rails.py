"""Two rails in a running lab: real programs on the VNICs of both HFIs of a host."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from e2e.conftest import Program

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
        links = opavnic.data("status")["links"]
        return next(int(link["packets_forth"]) for link in links if link["name"].startswith(f"{hfi}:1->"))

    return sent


def test_host_goes_on_over_its_other_rail_when_one_is_cut(
    opavnic: Program, packets: Callable[[str], int]
) -> None:
    opavnic.up(LAB.format(name=f"rails{os.getpid()}"))
    status = opavnic.data("status")
    vnics = [(vnic["interface"], vnic["port"], vnic["ip"]) for vnic in status["hosts"][0]["vnics"]]
    assert vnics == [("blue", "h1:1", "10.9.2.1/24"), ("blue-2", "h1.2:1", "10.9.2.3/24")]
    opavnic.on("h1", *PREFER_LIVE_RAILS)
    for interface, hfi in (("blue", "h1"), ("blue-2", "h1.2")):
        before = packets(hfi)
        opavnic.on("h1", "ping", "-c20", "-i0.01", "-w20", "-I", interface, "10.9.2.2")
        assert packets(hfi) >= before + 20
    opavnic.ok("em", "verify")
    opavnic.ok("fault", "add", "link-down", "on", "h1")
    before = packets("h1.2")
    opavnic.on("h1", "ping", "-c20", "-i0.01", "-w20", "10.9.2.2")
    assert packets("h1.2") >= before + 20
    saved = opavnic.ok("save")
    assert "members: [h1, h1.2, h2]" in saved
    down = opavnic.data("down")
    assert len(down["netdevs"]) == 3, down
