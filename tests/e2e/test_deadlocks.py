"""A lab that deadlocks under the traffic of real programs is told so, and a head-of-queue lifetime opens it again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from program import ok

HOSTS = 6
LAB = """
name: {name}
fabric:
  topology: {{kind: torus, dims: "6"}}
  routing: min-hop
  deadlock: allow
  link: {{rate: 2M, credits: {{buffer: 16K{more}}}}}
hosts: 6
vesws:
  - {{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}}
"""
FLOOD = """
import os, socket, sys, time
own, stop, until = int(sys.argv[1]), sys.argv[2], time.monotonic() + 300
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setblocking(False)
while time.monotonic() < until and not os.path.exists(stop):
    for ahead in (2, 3, 4):
        try:
            sender.sendto(bytes(1400), (f"10.9.2.{(own - 1 + ahead) % 6 + 1}", 9))
        except OSError:
            time.sleep(0.001)
"""
"""Sends to the hosts that are two switches away and more, as fast as its interface takes it, until a file is there."""
PATIENCE_S = 120.0
LOOK_S = 0.2
"""How often the lab is asked: each time costs it some of its processor."""

pytestmark = pytest.mark.slow


def data(opavnic: Program, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = opavnic.data(*words)
    return found


def wait_until(opavnic: Program, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask for the state of the lab until something holds; how long that takes is not the point."""
    until = time.monotonic() + PATIENCE_S
    while not holds(state := data(opavnic, "status")):
        assert time.monotonic() < until, state
        time.sleep(LOOK_S)
    return state


def wait_for_answers(opavnic: Program) -> None:
    """Ask until a host far away answers: what waits in queues goes first, and look-ups of addresses give up by then."""
    until = time.monotonic() + PATIENCE_S
    while opavnic("exec", "h1", "--", "ping", "-c1", "-w20", "10.9.2.4").returncode:
        assert time.monotonic() < until


@contextmanager
def flood(opavnic: Program, stop: Path) -> Iterator[None]:
    """Let every host send to the hosts that are far away."""
    with ThreadPoolExecutor(HOSTS) as threads:
        words = [
            ("exec", f"h{own}", "--", sys.executable, "-c", FLOOD, str(own), stop)
            for own in range(1, HOSTS + 1)
        ]
        sending = [threads.submit(opavnic, *told, timeout=400) for told in words]
        try:
            yield
        finally:
            stop.touch()
    for sent in sending:
        ok(sent.result())


def hoq_drops(state: dict[str, Any]) -> bool:
    """Whether switches have dropped what was the first of its lane for too long."""
    return any("link_hoq" in drops for drops in state["drops"].values())


@pytest.mark.parametrize("datapath", ["auto", "python"])
def test_a_ring_deadlocks_under_real_traffic_and_a_lifetime_opens_it(
    opavnic: Program, tmp_path: Path, datapath: str
) -> None:
    def lab(more: str = "") -> Path:
        file = tmp_path / "lab.yaml"
        file.write_text(LAB.format(name=f"ring{os.getpid()}", more=more) + f"datapath: {datapath}\n")
        return file

    opavnic.ok("up", lab(), "-d")
    with flood(opavnic, tmp_path / "stop"):
        state = wait_until(opavnic, lambda state: bool(state["deadlock"]))
    waits = [tuple(pair) for pair in state["deadlock"]]
    ring = {lane for lane, _ in waits if lane.startswith("sw")}
    assert len(ring) == HOSTS, "once around"
    text = opavnic.ok("status")
    assert "deadlock: sw" in text
    assert "waits for" in text

    lanes = data(opavnic, "topo")
    assert {tuple(pair) for pair in lanes["deadlock"]} >= set(waits)
    assert len(lanes["cycle"]) == HOSTS
    opavnic.ok("topo", "--svg", tmp_path / "ring.svg")
    drawn = (tmp_path / "ring.svg").read_text()
    assert all(f"{lane} waits for".replace(">", "&gt;") in drawn for lane in ring)
    assert opavnic("exec", "h1", "--", "ping", "-c1", "-w2", "10.9.2.4").returncode == 1, "nothing moves"

    opavnic.ok("apply", lab(", hoq_life: 30ms"))
    wait_until(opavnic, lambda state: not state["deadlock"])
    wait_for_answers(opavnic)
    with flood(opavnic, tmp_path / "again"):
        wait_until(opavnic, hoq_drops)
    state = wait_until(opavnic, lambda state: not state["deadlock"])
    assert state["balance"] == {}
    wait_for_answers(opavnic)
