"""The Ethernet Manager as a program on the umad device of a host."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from opavnic.devices.kernel.entry import why_no_fuse

LAB = """name: {name}
hosts: {{h1: {{}}, h2: {{}}, h3: {{may_manage: true}}, h4: {{may_manage: true}}}}
em: external
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}]
"""
EM: dict[str, Any] = {
    "mac": "learn",
    "vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h1", "h2"]}],
}
PATIENCE_S = 60.0
LOOK_S = 0.2
"""How often a manager is looked at."""


class Site:
    """A lab without a manager of its own, and managers on its hosts."""

    def __init__(self, opavnic: Program) -> None:
        if reason := why_no_fuse():
            pytest.skip(reason)
        self.opavnic, self.path = opavnic, opavnic.directory
        opavnic.up(LAB.format(name=f"emp{os.getpid()}"))

    def file(self, **changes: Any) -> Path:
        path = self.path / f"em{len(list(self.path.glob('em*.yaml')))}.yaml"
        path.write_text(json.dumps({**EM, **changes}))
        return path

    @contextmanager
    def manager(self, host: str, config: Path, *words: str) -> Iterator[Manager]:
        socket = self.path / f"{host}.sock"
        start = (sys.executable, "-c", "from opavnic.cli.start import start; start()")
        command = ("exec", "--umad", host, "--", *start, "em", "run", config, "--control", socket, *words)
        with self.opavnic.started(*command, stdout=-3, stderr=-1) as process:
            manager = Manager(self, process, socket)
            try:
                yield manager
            finally:
                if process.poll() is None:
                    process.terminate()
                manager.log = process.stderr.read()


class Manager:
    """One that runs."""

    def __init__(self, site: Site, process: subprocess.Popen[str], socket: Path) -> None:
        self.site, self.process, self.socket = site, process, socket
        self.log = ""

    def command(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.site.opavnic("em", *words, "--em", self.socket)

    def state(self) -> dict[str, Any]:
        done = self.command("status", "--json")
        return dict(json.loads(done.stdout)) if done.stdout.startswith("{") else {}

    def until(self, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while not ((state := self.state()) and met(state)):
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < end, state
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
        return state

    def converged(self) -> dict[str, Any]:
        return self.until(lambda state: state["converged"] and state["vports"] > 0)


@pytest.fixture
def site(opavnic: Program) -> Site:
    return Site(opavnic)


def test_manager_on_a_umad_device_brings_up_vnics_and_answers_commands(site: Site) -> None:
    config, database = site.file(), site.path / "em.db"
    with site.manager("h3", config, "--database", str(database)) as manager:
        state = manager.converged()
        assert state["role"] == "master"
        assert state["program"]["port"] == "hfi1_0:1"
        site.opavnic.on("h1", "ping", "-c1", "-w30", "10.9.2.2")
        assert "every agent matches" in manager.command("verify").stdout
        wider = site.file(vesws=[{**EM["vesws"][0], "mtu": 9000}])
        assert "eth_mtu: 1500 -> 9000" in manager.command("preview", wider).stdout
        assert "2 Sets sent" in manager.command("apply", wider).stdout
        manager.until(lambda state: state["converged"] and not state["trouble"])
        manager.process.send_signal(signal.SIGHUP)
        manager.until(lambda state: state["sets"] > 0)
        assert "vport-configured" in manager.command("events").stdout
        assert manager.command("apply", site.file(vesws=[{"id": 0, "name": "x"}])).returncode == 2
        manager.process.send_signal(signal.SIGTERM)
        assert manager.process.wait(30) == 0
    assert "the fabric stays as it is" in manager.log
    for memory in ([], ["--database", str(database)]):
        with site.manager("h3", config, *memory) as manager:
            manager.converged()
            manager.until(lambda state: not state["trouble"])
            manager.process.kill()
            manager.process.wait(30)
        with site.manager("h3", config, *memory) as manager:
            assert manager.converged()["sets"] == 0


def test_second_manager_is_refused_on_one_port_and_takes_over_on_another(
    site: Site,
) -> None:
    def election(priority: int) -> Path:
        return site.file(election={"priority": priority, "heartbeat": "200ms", "dead_after": "2s"})

    with site.manager("h3", election(5)) as first:
        first.converged()
        with site.manager("h3", site.file(), "--control", str(site.path / "other.sock")) as other:
            assert other.process.wait(30) == 1
        assert "another program on this port has it" in other.log
        with site.manager("h4", election(3)) as second:
            second.until(lambda state: state["ports"] > 0)
            assert second.state()["role"] == "standby"
            first.process.kill()
            state = second.until(lambda state: state["role"] == "master" and state["converged"])
            assert state["sets"] == 4, "one for each agent: where its traps go"
            assert "vport-configured" not in second.command("events").stdout
            assert "every agent matches" in second.command("verify").stdout


def test_bad_start_is_one_line(site: Site) -> None:
    wrong = site.path / "wrong.yaml"
    wrong.write_text("vesws: [{id: 2, name: blue, member: all}]")
    for config, words, said in (
        (wrong, (), "member"),
        (site.file(), ("--port", "hfi1_7:1"), "no such port"),
        (site.file(), ("--metrics", "nowhere"), "ADDRESS:PORT is needed"),
        (site.file(), ("--database", "/proc/version"), "/proc/version"),
    ):
        with site.manager("h3", config, *words) as manager:
            assert manager.process.wait(30) != 0
        assert said in manager.log
        assert "Traceback" not in manager.log
