"""The real Omni-Path fabric manager runs the fabric of a lab; the lab's Ethernet Manager works beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opavnic.devices.entry import why_no_fuse
from permission import require
from processes import child

Program = Callable[..., "subprocess.CompletedProcess[str]"]
OPAFMD = "/usr/lib/opa-fm/bin/opafmd"
SETTINGS = "/etc/opa-fm/opafm.xml"
PATIENCE_S = 90.0
LAB = """
name: {name}
fabric: {{id: 0x301, link: {{credits: {{vls: 8, buffer: 16K, shared: 64K}}}}}}
hosts: {{h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}
  - {{id: 3, name: red, pkey: 0x8003, mtu: 9000, subnet: 10.9.3.0/24, members: [h1, h2]}}
subnet_manager: external
"""


@pytest.fixture(autouse=True)
def _with_fabric_manager() -> None:
    require(("ip", "ping", "opafabricinfo", OPAFMD), as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)


class Lab:
    """A lab in the background whose fabric waits for a fabric manager."""

    def __init__(self, opavnic: Program, directory: Path) -> None:
        self.opavnic = opavnic
        self._directory = directory
        self.name = f"fm{os.getpid()}"
        self.file = directory / "lab.yaml"
        self.file.write_text(LAB.format(name=self.name))
        self.settings = directory / "opafm.xml"
        self.run("fm", "config", self.file, "-w", self.settings)
        self.run("up", self.file, "-d")

    def run(self, *arguments: str | Path) -> str:
        done = self.opavnic(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.run("status", "--json")))

    def manager(self) -> dict[str, Any]:
        return dict(self.status()["parts"]["fabric manager"])

    def is_up(self) -> bool:
        states = [vnic["state"] for host in self.status()["hosts"] for vnic in host["vnics"]]
        return states == ["up"] * 4

    def pings(self, address: str, *options: str) -> bool:
        command = ("exec", "h1", "--", "ping", "-c1", "-W1", *options, address)
        return self.opavnic(*command).returncode == 0

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Look until something is so: fabric managers take their time."""
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end:
                pytest.fail(f"{what} not within {PATIENCE_S:g} s: {json.dumps(self.status()['parts'])}")

    def is_verified(self) -> bool:
        return self.opavnic("em", "verify").returncode == 0

    @contextlib.contextmanager
    def fabric_manager(self, host: str) -> Iterator[None]:
        """Run one on a host; at last it is killed with all that it has started."""
        mounted = f"mount --bind {self.settings} {SETTINGS} && exec {OPAFMD} -D"
        command = [
            sys.executable,
            "-m",
            "opavnic.cli.main",
            "exec",
            "--umad",
            host,
            "--",
            "sh",
            "-c",
            mounted,
        ]
        environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self._directory / "run")}
        quiet = subprocess.DEVNULL
        with child(
            command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
        ) as process:
            try:
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def lab(opavnic: Program, tmp_path: Path) -> Lab:
    return Lab(opavnic, tmp_path)


def test_nothing_passes_until_a_fabric_manager_is_there(lab: Lab) -> None:
    assert str(lab.manager()["state"]).startswith("awaited: ")
    assert not lab.is_up()
    assert {host["lid"] for host in lab.status()["hosts"]} == {0}


@pytest.mark.slow
def test_fabric_manager_brings_up_virtual_switches_and_another_takes_over(lab: Lab) -> None:
    """Two partitions with a service level each, the cable of a host, and the master killed with -9."""
    with contextlib.ExitStack() as second:
        with lab.fabric_manager("h1"):
            lab.wait("VNICs up", lab.is_up)
            assert lab.manager()["host"] == "h1"
            lab.wait("blue", lambda: lab.pings("10.9.2.2"))
            lab.wait("red", lambda: lab.pings("10.9.3.2", "-s", "8000"))
            lab.wait("verified", lab.is_verified)
            vesws = json.loads(lab.run("em", "show", "vesws", "--json"))
            assert len({vesw["multicast_lid"] for vesw in vesws["vesws"]}) == 2

            lab.run("fault", "add", "link-down on h2")
            lab.wait("h2 away", lambda: not lab.is_verified())
            lab.run("fault", "clear")
            lab.wait("h2 back", lambda: lab.pings("10.9.2.2") and lab.is_verified())

            second.enter_context(lab.fabric_manager("h2"))
            lab.wait("h1 still the master", lambda: lab.manager()["host"] == "h1")
            standby = ("exec", "h2", "--", "opafabricinfo")
            lab.wait("a standby", lambda: "Standby" in lab.opavnic(*standby).stdout)
        lab.wait("h2 the master", lambda: lab.manager()["host"] == "h2")
        lab.wait("verified", lab.is_verified)
        lab.wait("blue", lambda: lab.pings("10.9.2.2"))
        lab.wait("red", lambda: lab.pings("10.9.3.2", "-s", "8000"))
