"""Labs that change while they run: hosts, virtual switches and links come and go, and what stays loses nothing."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Program
from opavnic.lab.ownership.namespaces import NETNS_DIR
from processes import child

LAB = """
name: living
fabric:
  topology: {kind: clos, leaves: 2, spines: 2, hosts_per_leaf: 3}
hosts: {h1: {}, h2: {}, h3: {}, h4: {}}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2, h3, h4]}
  - {id: 3, name: red, pkey: 0x8003, subnet: [10.9.3.0/24, "fd00:3::/64"], members: [h1, h3]}
"""
_OF_THE_RUN = {"pid", "uptime_s", "file", "mads"}
"""What differs between two runs of one lab file."""
_KEPT = {"vesw_id", "mtu", "seed", "fabric_id", "carrier", "lid", "vport_num"}
"""Numbers that a lab file says, or what follows from it."""


def settled(status: Any) -> Any:
    """Return a status without counts."""
    if isinstance(status, dict):
        return {
            key: settled(value)
            for key, value in status.items()
            if key not in _OF_THE_RUN | {"counters", "drops", "parts", "engine"}
            and (key in _KEPT or not isinstance(value, int | float))
        }
    if isinstance(status, list):
        return sorted(map(settled, status), key=lambda item: json.dumps(item, sort_keys=True))
    return status


@pytest.mark.parametrize("coming", [2, pytest.param(20, marks=pytest.mark.long)])
def test_what_stays_loses_nothing_while_a_lab_changes(opavnic: Program, tmp_path: Path, coming: int) -> None:
    file, saved = tmp_path / "lab.yaml", tmp_path / "saved.yaml"
    file.write_text(LAB)
    opavnic.ok("up", file, "-d")
    train = ["ip", "netns", "exec", "opavnic-living-h1", "ping", "-i", "0.001", "10.9.2.2"]
    with (tmp_path / "train").open("w+") as heard, child(train, stdout=heard) as pings:
        for number in range(coming):
            opavnic.ok("host", "add", f"n{number}", "--vesw", "blue", "--vesw", "red")
            opavnic.on(f"n{number}", "ping", "-c1", "-W20", "h3.red")
            if number % 2:
                opavnic.ok("host", "remove", f"n{number - 1}")
                opavnic.ok("link", "remove", "leaf1:3", "spine1:2")
                opavnic.ok("link", "add", "leaf1:3", "spine1:2", "{rate: 25G}")
        opavnic.ok("vesw", "leave", "red", "h1")
        opavnic.ok("vesw", "join", "red", "h4")
        opavnic.ok("vesw", "add", "{name: green, subnet: 10.9.4.0/24, pkey: 0x8004, members: [h1, h4]}")
        opavnic.on("h4", "ping", "-c1", "-W20", "h1.green")
        pings.send_signal(signal.SIGINT)
        pings.wait()
        heard.seek(0)
        answered = list(map(int, re.findall(r"icmp_seq=(\d+)", heard.read())))
    assert answered
    assert sorted(answered) == list(
        range(1, max(answered) + 1)
    )  # what is on its way at the end counts for nothing
    before = opavnic.data("status")
    assert before["balance"] == {}
    opavnic.ok("save", saved)
    assert opavnic.ok("apply", saved, "--dry-run") == ""
    opavnic.ok("down")
    assert list(NETNS_DIR.glob("opavnic-living-*")) == []
    opavnic.ok("up", saved, "-d")
    after = opavnic.data("status")
    assert settled(after) == settled(before)
    _follows_a_file(opavnic, saved, tmp_path / "changed.yaml")


def _follows_a_file(opavnic: Program, saved: Path, changed: Path) -> None:
    """A whole file: a host less, a member less, another route; shown first, then done, then nothing is left to do."""
    data = yaml.safe_load(saved.read_text())
    del data["hosts"]["h2"]
    links = data["fabric"]["topology"]["links"]
    data["fabric"]["topology"]["links"] = [
        link for link in links if "h2:1" not in (link["ends"] if isinstance(link, dict) else link)
    ]
    for vesw in data["vesws"]:
        vesw["members"] = [member for member in vesw["members"] if member != "h2"]
    data["hosts"]["h3"] = {**data["hosts"]["h3"], "routes": ["10.7.0.0/16 via 10.9.2.1"]}
    changed.write_text(yaml.safe_dump(data, sort_keys=False))
    steps = ["host remove h2", "host h3: routes", "vesw leave blue h2"]
    assert opavnic.ok("apply", changed, "--dry-run").splitlines() == steps
    assert "h2" in opavnic.ok("status", "--all")
    assert opavnic.ok("apply", changed).splitlines() == steps
    assert "10.7.0.0/16 via 10.9.2.1" in opavnic.on("h3", "ip", "route")
    assert opavnic.ok("apply", changed, "--dry-run") == ""
    changed.write_text(changed.read_text() + "seed: 7\n")
    refused = opavnic("apply", changed)
    assert refused.returncode == 2
    assert "cannot change while the lab runs: seed" in refused.stderr
    unknown = opavnic("vesw", "join", "blu", "h1")
    assert unknown.returncode == 2
    assert 'unknown virtual switch "blu" (nearest: "blue"; known: blue, red, green)' in unknown.stderr
