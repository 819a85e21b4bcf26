"""A lab whose fabric waits for a fabric manager, and Intel's opafmd on its hosts, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from opavnic.devices.kernel.entry import why_no_fuse
from permission import require
from processes import child

OPAFMD = "/usr/lib/opa-fm/bin/opafmd"
SETTINGS = "/etc/opa-fm/opafm.xml"
PATIENCE_S = 90.0
LOOK_S = 0.2
"""How often it is looked at what has come of a fabric manager."""
LAB = """
name: {name}
fabric: {{id: 0x301, link: {{credits: {{vls: 8, buffer: 16K, shared: 64K}}}}}}
hosts: {{h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}
  - {{id: 3, name: red, pkey: 0x8003, mtu: 9000, subnet: 10.9.3.0/24, members: [h1, h2]}}
subnet_manager: external
"""


def require_fabric_manager() -> None:
    """Skip the test, or fail where all must run, if there is no opafmd, or hosts have no devices."""
    require(("ip", "ping", "opafabricinfo", OPAFMD), as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)


@contextlib.contextmanager
def fabric_manager(
    opavnic: Sequence[str], host: str, settings: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """Run one on a host; at last it is killed with all that it has started.

    Args:  opavnic: the command of the program. settings: they stand where Debian's are.
    """
    mounted = f"mount --bind {settings} {SETTINGS} && exec {OPAFMD} -D"
    command = [*opavnic, "exec", "--umad", host, "--", "sh", "-c", mounted]
    quiet = subprocess.DEVNULL
    with child(
        command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class ManagedLab:
    """A lab in the background whose fabric waits for a fabric manager."""

    def __init__(self, opavnic: Program, text: str = LAB) -> None:
        """Start it. Args: text: of the lab file; `{name}` stands for its name."""
        self.opavnic, self.run = opavnic, opavnic.ok
        self.name = f"fm{os.getpid()}"
        self.settings = opavnic.directory / "opafm.xml"
        file = opavnic.up(text.format(name=self.name))
        self.run("fm", "config", file, "-w", self.settings)

    def status(self) -> dict[str, Any]:
        return dict(self.opavnic.data("status"))

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
            time.sleep(LOOK_S)  # it is a program of others, and says nothing
            if time.monotonic() > end:
                pytest.fail(f"{what} not within {PATIENCE_S:g} s: {json.dumps(self.status()['parts'])}")

    def is_verified(self) -> bool:
        return self.opavnic("em", "verify").returncode == 0

    def fabric_manager(self, host: str) -> contextlib.AbstractContextManager[None]:
        """Run one on a host; at last it is killed with all that it has started."""
        command = [sys.executable, "-m", "opavnic.cli.main"]
        return fabric_manager(command, host, self.settings, self.opavnic.environment)
