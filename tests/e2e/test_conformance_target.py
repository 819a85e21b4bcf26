"""The recorded sessions of the management agent, against the agent of a lab that runs."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

from e2e.conftest import Program
from opavnic_bench.base.sites import until

PATIENCE_S = 60.0
VECTORS = Path(__file__).parents[1] / "vectors" / "vema-1.jsonl.gz"
LAB = """
name: target
hosts: {h1: , h2: }
vesws:
  - {id: 2, name: blue, members: [h1, h2]}
em: external
driver_quirks: true
"""


def some(count: int, directory: Path) -> Path:
    """Write the first of the recorded sessions to a file."""
    sessions = directory / "sessions.jsonl"
    with gzip.open(VECTORS, "rt") as recorded:
        sessions.write_text("".join(itertools.islice(recorded, count)))
    return sessions


def test_agent_behind_the_socket_of_a_lab_passes_recorded_sessions(opavnic: Program, tmp_path: Path) -> None:
    opavnic.up(LAB)
    target = ("--target", opavnic.root / "target" / "mad.sock")
    assert opavnic.ok("conformance", "vema", *target, some(50, tmp_path)).startswith("PASS 50/50 ")
    agents = opavnic.data("status", "--counters")["counters"]
    assert agents["h1 agent"]["sets"] > 100
    assert agents["h2 agent"]["sets"] == 0


def test_lab_whose_agent_was_tried_is_as_it_was(opavnic: Program, tmp_path: Path) -> None:
    opavnic.up(LAB.replace("em: external", "em: {}"))

    def seen() -> tuple[list[tuple[str, str]], list[str]]:
        hosts = opavnic.data("status")["hosts"]
        links = json.loads(opavnic.on("h1", "ip", "-j", "link"))
        vnics = [(vnic["interface"], vnic["state"]) for host in hosts for vnic in host["vnics"]]
        return vnics, sorted(link["ifname"] for link in links)

    before = seen()
    target = ("--target", opavnic.root / "target" / "mad.sock", "--lid", "2")
    opavnic.ok("conformance", "vema", *target, some(20, tmp_path))
    # the kernel says in its own time that a link is up, and which groups a host joins
    until(lambda: seen() == before, "it is not as it was", limit_s=PATIENCE_S)
    assert opavnic.data("status")["balance"] == {}
    until(lambda: opavnic("em", "verify").returncode == 0, "agents differ", limit_s=PATIENCE_S)
