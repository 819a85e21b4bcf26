"""`opavnic top` beside a lab whose hosts are real: what ping has sent is what it shows."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from processes import child

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
PINGS = 20
LAB = f"t{os.getpid()}-top"


@pytest.fixture(scope="module")
def opavnic(opavnic_of_module: Program) -> Program:
    """The program beside a lab of two hosts on one virtual switch, which tests only look at and send over."""
    opavnic_of_module.up(EXAMPLE.read_text().replace("name: two-hosts", f"name: {LAB}"))
    return opavnic_of_module


def packets(data: dict[str, Any], host: str, way: str) -> int:
    vnic = next(vnic for vnic in data["vnics"] if vnic["host"] == host)
    return round(vnic[f"{way}_packets_per_s"] * data["seconds"])


def test_what_ping_sends_is_what_top_shows(opavnic: Program) -> None:
    with opavnic.started("top", "--json", "-i", "0.2", stdout=-1, stderr=-1) as top:
        json.loads(top.stdout.readline())  # it looks
        done = opavnic("exec", "h1", "--", "ping", "-q", "-i0.01", "-W20", f"-c{PINGS}", "10.9.2.2")
        assert f"{PINGS} received" in done.stdout
        seen = dict.fromkeys((("h1", "tx"), ("h1", "rx"), ("h2", "tx"), ("h2", "rx")), 0)
        while min(seen.values()) < PINGS:
            data = json.loads(top.stdout.readline())
            assert data["lab"] == LAB
            assert [vnic["state"] for vnic in data["vnics"]] == ["up", "up"]
            for host, way in seen:
                seen[host, way] += packets(data, host, way)
        top.send_signal(signal.SIGINT)
        assert top.wait(30) == 0
        assert top.stderr.read() == ""


def test_one_interval_is_one_line_while_a_ping_goes_on(opavnic: Program) -> None:
    command = ["ip", "netns", "exec", f"opavnic-{LAB}-h1", "ping", "-i0.01", "10.9.2.2"]
    with child(command, stdout=-1) as ping:
        assert any("bytes from 10.9.2.2" in line for line in ping.stdout)
        done = opavnic("top", "-c", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert packets(data, "h1", "tx") > 0
    assert packets(data, "h2", "rx") > 0
    links = {link["name"]: link for link in data["links"]}
    assert links["h1:1->sw0:2"]["bits_forth_per_s"] > 0
