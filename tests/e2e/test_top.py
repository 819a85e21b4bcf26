"""`opavnic top` beside a lab whose hosts are real: what ping has sent is what it shows."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from processes import child

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
PINGS = 20


@pytest.fixture
def lab(opavnic: Program, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The name of a lab in the background: two hosts on one virtual switch."""
    name = f"t{os.getpid()}-top{abs(hash(request.node.name)) % 1000}"
    opavnic.up(EXAMPLE.read_text().replace("name: two-hosts", f"name: {name}"))
    return name


@contextlib.contextmanager
def watched(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `opavnic top --json` for as long as the context lasts."""
    with child(
        [sys.executable, "-c", "from opavnic.cli.start import start; start()", "top", "--json", *arguments],
        env={**os.environ, "OPAVNIC_RUNTIME_DIR": str(tmp_path / "run")},
        stdout=-1,
        stderr=-1,
    ) as process:
        yield process


def packets(data: dict[str, Any], host: str, way: str) -> int:
    vnic = next(vnic for vnic in data["vnics"] if vnic["host"] == host)
    return round(vnic[f"{way}_packets_per_s"] * data["seconds"])


def test_what_ping_sends_is_what_top_shows(lab: str, opavnic: Program, tmp_path: Path) -> None:
    with watched(tmp_path, "-i", "0.2") as top:
        json.loads(top.stdout.readline())  # it looks
        done = opavnic("exec", "h1", "--", "ping", "-q", "-i0.01", "-W20", f"-c{PINGS}", "10.9.2.2")
        assert f"{PINGS} received" in done.stdout
        seen = dict.fromkeys((("h1", "tx"), ("h1", "rx"), ("h2", "tx"), ("h2", "rx")), 0)
        while min(seen.values()) < PINGS:
            data = json.loads(top.stdout.readline())
            assert data["lab"] == lab
            assert [vnic["state"] for vnic in data["vnics"]] == ["up", "up"]
            for host, way in seen:
                seen[host, way] += packets(data, host, way)
        top.send_signal(signal.SIGINT)
        assert top.wait(30) == 0
        assert top.stderr.read() == ""


def test_one_interval_is_one_line_while_a_ping_goes_on(lab: str, opavnic: Program) -> None:
    command = ["ip", "netns", "exec", f"opavnic-{lab}-h1", "ping", "-i0.01", "10.9.2.2"]
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


def test_frames_that_the_kernel_drops_are_named_by_its_netdev(lab: str, opavnic: Program) -> None:
    before = opavnic.data("status")
    flood = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); "
        "[s.sendto(b'x', ('10.9.2.255', 9)) for _ in range(5000)]"
    )
    os.kill(before["pid"], signal.SIGSTOP)  # nobody reads the TAP: its queue runs full
    try:
        done = opavnic("exec", "h1", "--", sys.executable, "-c", flood)
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    assert (done.returncode, done.stderr) == (0, "")
    drops = opavnic.data("status")["drops"]
    dropped_before = before["drops"].get("h1/blue netdev", {}).get("tx_dropped", 0)
    assert drops["h1/blue netdev"]["tx_dropped"] > dropped_before
