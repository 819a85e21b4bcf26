"""The recorded sessions of the management agent, against the agent of a lab that runs."""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

from e2e.conftest import Program

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


def test_agent_behind_the_socket_of_a_lab_passes_recorded_sessions(opavnic: Program, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions.jsonl"
    with gzip.open(VECTORS, "rt") as recorded:
        sessions.write_text("".join(itertools.islice(recorded, 50)))
    file = tmp_path / "target.yaml"
    file.write_text(LAB)
    opavnic.ok("up", file, "-d")
    socket = tmp_path / "run" / "target" / "mad.sock"
    assert opavnic.ok("conformance", "vema", "--target", socket, sessions).startswith("PASS 50/50 ")
    agents = opavnic.data("status", "--counters")["counters"]
    assert agents["h1 agent"]["sets"] > 100
    assert agents["h2 agent"]["sets"] == 0


def await_true(condition: Callable[[], bool]) -> None:
    """Look until something is so; each look is a program of its own."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came true"


def test_lab_whose_agent_was_tried_is_as_it_was(opavnic: Program, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions.jsonl"
    with gzip.open(VECTORS, "rt") as recorded:
        sessions.write_text("".join(itertools.islice(recorded, 20)))
    file = tmp_path / "target.yaml"
    file.write_text(LAB.replace("em: external", "em: {}").replace("name: target", "name: tried"))
    assert opavnic("up", file, "-d").returncode == 0

    def vnics() -> list[tuple[str, str]]:
        hosts = opavnic.data("status")["hosts"]
        return [(vnic["interface"], vnic["state"]) for host in hosts for vnic in host["vnics"]]

    def interfaces() -> list[str]:
        shown = opavnic("exec", "h1", "--", "ip", "-j", "link").stdout
        return sorted(link["ifname"] for link in json.loads(shown))

    before = vnics(), interfaces()
    socket = tmp_path / "run" / "tried" / "mad.sock"
    opavnic.ok("conformance", "vema", "--target", socket, "--lid", "2", sessions)
    await_true(lambda: (vnics(), interfaces()) == before)  # the kernel says in its own time that a link is up
    assert opavnic.data("status")["balance"] == {}
    await_true(lambda: opavnic("em", "verify").returncode == 0)  # it hears later of groups that a host joins
