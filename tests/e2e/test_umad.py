"""Programs against libibumad, and Debian's tools for InfiniBand, on the hosts of a real lab."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from e2e.nobody import OPEN_TUN, nobody
from e2e.places import killed
from opavnic.devices.kernel.entry import why_no_fuse
from opavnic.devices.kernel.mounts import SOURCE
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import load_lab
from opavnic.lab.ownership.runtime import Journal
from opavnic.lab.run.lab import Lab as PythonLab
from permission import require
from program import ok, started
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState

AGAINST_LIBIBUMAD = Path(__file__).parent / "libibumad.py"
TRAP_LID_OFFSET = "60"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
LAB = """
name: {name}
fabric: {{id: 0x301, topology: {{kind: single-switch}}}}
hosts: {{h1: {{}}, h2: {{}}, h3: {{netns: host}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, members: [h1, h2]}}
  - {{id: 3, name: admin{pid}, pkey: 0xffff, members: [h1, h3]}}   # full members of the management partition
em: {em}
"""


@pytest.fixture(autouse=True)
def _with_tools() -> None:
    require(("ip", "ibstat", "ibv_devices", "ibv_devinfo"), as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)


class Lab:
    """A lab in the background."""

    def __init__(self, opavnic: Program, directory: Path, *, em: str = "builtin") -> None:
        self.opavnic = opavnic
        self.name = f"u{os.getpid()}"
        file = directory / "lab.yaml"
        file.write_text(LAB.format(name=self.name, pid=os.getpid() % 100_000, em=em))
        opavnic.ok("up", file, "-d")
        self.runtime = directory / "run"
        self.journal = Journal.from_json((self.runtime / self.name / "state.json").read_text())
        self.status = opavnic.data("status")

    def exec(self, host: str, *command: str) -> str:
        """Run a program on a host with devices; return what it prints."""
        return ok(self.opavnic("exec", "--umad", host, "--", *command))

    def umad(self, host: str, *words: object) -> list[dict[str, Any]]:
        """Run the program against libibumad; return what it says."""
        return said(self.exec(host, sys.executable, str(AGAINST_LIBIBUMAD), *map(str, words)))

    @contextlib.contextmanager
    def started(self, host: str, *words: object) -> Iterator[subprocess.Popen[str]]:
        """Run it in the background until it has said that it is ready."""
        command = ["exec", "--umad", host, "--", sys.executable, str(AGAINST_LIBIBUMAD), *map(str, words)]
        environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self.runtime)}
        with started(command, stdout=-1, stderr=-2, env=environment) as process:
            assert "ready" in process.stdout.readline()
            yield process

    def lid(self, host: str) -> int:
        """Return the LID of a host, as its sysfs has it."""
        return int(self.exec(host, "cat", "/sys/class/infiniband/hfi1_0/ports/1/lid"), 16)


def said(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def mounts_of_ours() -> list[str]:
    """Return what of ours is mounted where the machine sees it."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split(" - ")[1].split()[1] == SOURCE]


@pytest.fixture
def lab(opavnic: Program, tmp_path: Path) -> Lab:
    return Lab(opavnic, tmp_path)


def test_tools_of_debian_show_the_hfi(lab: Lab) -> None:
    shown = lab.exec("h1", "ibstat")
    assert "CA 'hfi1_0'" in shown
    assert "State: Active" in shown
    assert f"Base lid: {lab.lid('h1')}\n" in shown
    assert "hfi1_0" in lab.exec("h2", "ibv_devices")
    opened = lab.opavnic("exec", "--umad", "h2", "--", "ibv_devinfo")
    assert opened.stderr == "Failed to query device props\n", "it has opened the device: seccomp has answered"
    assert "blue" in lab.exec("h1", "ls", "/sys/class/net"), "the other classes are still there"
    assert "null" in lab.exec("h1", "ls", "/dev")
    assert lab.lid("h1") != lab.lid("h3"), "the machine itself has devices, too, where it is a host"
    assert lab.opavnic("exec", "--no-umad", "h1", "--", "ls", "/sys/class/infiniband/hfi1_0").returncode
    assert mounts_of_ours() == []


def test_program_asks_the_management_agent_of_another_host(lab: Lab) -> None:
    (answer,) = lab.umad("h1", "get", lab.lid("h2"))
    mad = bytes.fromhex(answer["mad"])
    assert (answer["status"], answer["length"], answer["lid"]) == (0, 2048, lab.lid("h2"))
    assert mad[:4] == bytes((0x80, 0x34, 0x80, 0x81))
    assert mad[4:6] == bytes(2), "the agent has answered with success"
    assert mad[12:16] == bytes((0, 0, 0, 7)), "the half of the transaction id that is the program's"
    (none,) = lab.umad("h1", "answer-none", 0x4444)
    assert none["status"] == errno.ETIMEDOUT
    status = json.loads(lab.opavnic("status", "--json").stdout)
    assert status["balance"] == {}


def test_trap_reaches_the_program_that_has_registered_for_it(opavnic: Program, tmp_path: Path) -> None:
    lab = Lab(opavnic, tmp_path, em="external")  # an EM of the lab would take the traps of its agents back
    with lab.started("h1", "traps", lab.lid("h2"), TRAP_LID_OFFSET) as process:
        lid = lab.lid("h2")
        vnic = replace(
            VeswPortInfo.power_on(),
            vesw_id=2,
            encap_slid=lid,
            base_mac=Lmac(0x301, 2, lid).build(),
            config_state=ConfigState.FORWARDING,
        )
        (answer,) = lab.umad("h1", "set", lid, 0x11, 1, vnic.build().hex())  # a second program beside it
        assert bytes.fromhex(answer["mad"])[3:6] == bytes((0x81, 0, 0))
        trap = json.loads(process.stdout.readline())  # its link has come up
    assert trap["lid"] == lid
    assert bytes.fromhex(trap["mad"])[1:4] == bytes((0x34, 0x80, 5))


def test_program_that_is_killed_frees_its_agents(lab: Lab) -> None:
    with lab.started("h1", "hold") as process:
        other = lab.opavnic("exec", "h1", "--", sys.executable, str(AGAINST_LIBIBUMAD), "hold")
        assert "Invalid argument" in other.stderr, "one agent for one method"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with lab.started("h1", "hold"):
        pass


def test_read_that_is_too_small_gets_the_first_segment(lab: Lab) -> None:
    for size in (5000, (3 << 20) + 5):  # the longer one comes in several requests of the kernel
        (found,) = lab.umad("h3", "small-buffer", size)
        assert found == {
            "first": -errno.ENOSPC, "errno": "ENOSPC", "length": size + 56, "start": True, "data": True,
        }  # fmt: skip


@pytest.mark.parametrize("end", ["down", "kill"])
def test_end_of_the_lab_ends_reads_and_leaves_nothing(lab: Lab, end: str) -> None:
    with lab.started("h3", "hold") as process:  # on the machine itself: the lab does not end its programs
        if end == "down":
            lab.opavnic("down")
        else:
            killed(lab.runtime / lab.name / "state.json")
        out, _ = process.communicate(timeout=60)
        assert json.loads(out)["agent"] < 0, "an error, not a MAD"
    lab.opavnic("prune")
    assert mounts_of_ours() == []
    assert not list(lab.runtime.iterdir())


def test_programs_of_programs_have_the_devices_of_their_host(lab: Lab) -> None:
    inner = f"{sys.executable} -m opavnic.cli.main exec --umad h2 -- ibstat"
    environment = f"OPAVNIC_RUNTIME_DIR={lab.runtime}"
    shown = lab.exec(
        "h1",
        "sh",
        "-c",
        f"env -i $(command -v ibstat); ibstat & wait; cd {Path.cwd()}; {environment} {inner}",
    )
    lids = [int(line.split()[2]) for line in shown.splitlines() if "Base lid" in line]
    assert lids == [lab.lid("h1"), lab.lid("h1"), lab.lid("h2")]
    nobody = lab.opavnic("exec", "h1", "--", *NOBODY, "sh", "-c", "ibv_devices; cat /dev/infiniband/umad0")
    assert "hfi1_0" in nobody.stdout
    assert "Permission denied" in nobody.stderr, "umad0 is root's, as on a machine with Omni-Path"


def test_lab_that_is_stopped_does_not_hold_up_programs(lab: Lab) -> None:
    os.kill(lab.journal.pid, signal.SIGSTOP)
    try:
        assert lab.opavnic("exec", "h1", "--", "true").returncode == 0
        refused = lab.opavnic("exec", "--umad", "h1", "--", "true")
    finally:
        os.kill(lab.journal.pid, signal.SIGCONT)
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("no umad devices on host h1: the process of the lab is stopped")
    assert "State: Active" in lab.exec("h1", "ibstat")


@pytest.mark.parametrize("mode", ["666", "600"])
def test_devices_need_no_privilege_but_an_open_fuse(tmp_path: Path, mode: str) -> None:
    with nobody(f"umad-{os.getpid()}", tmp_path, OPEN_TUN | {"fuse": mode}) as user:
        ok(user("up", Path(__file__).parents[2] / "examples/two-hosts.yaml", "-d"))
        seen = "ibstat; ibv_devinfo; ls /sys/class/net; smpquery nodeinfo -D 0"
        done = user("exec", "--umad", "h1", "--", "sh", "-c", seen)
        status = json.loads(user("status", "--json").stdout)
        if mode == "666":
            assert "State: Active" in done.stdout
            assert "blue" in done.stdout
            assert "NumPorts" in done.stdout, "an SMP"
            assert done.stderr == "Failed to query device props\n"
            if python := shutil.which("python3", path="/usr/bin"):  # this one may be closed to other users
                long = (python, "-c", AGAINST_LIBIBUMAD.read_text(), "small-buffer", str(2 << 20))
                (found,) = said(user("exec", "--umad", "h1", "--", *long).stdout)
                assert (found["errno"], found["data"]) == ("ENOSPC", True), "the lab may look at its programs"
            if shutil.which("opafabricinfo"):
                fabric = user("exec", "--umad", "h1", "--", "opafabricinfo")
                assert "Number of HFIs: 3" in fabric.stdout, fabric.stdout + fabric.stderr
            return
        why = "/dev/fuse is closed to this user (crw-------): as root run `chmod 0666 /dev/fuse`"
        assert (done.returncode, done.stderr) == (1, f"opavnic: no umad devices on host h1: {why}\n")
        assert status["parts"] == {"HFI devices": {"unavailable": why}}
        assert user("exec", "h1", "--", "true").returncode == 0, "programs run all the same"


async def test_programs_of_a_lab_in_python_have_the_devices_if_they_are_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.format(name=f"p{os.getpid()}", pid=os.getpid() % 100_000, em="builtin"))
    async with PythonLab(load_lab(file)) as lab:
        shown = await lab.run("h1", ["ibstat"], devices=True)
        assert "State: Active" in shown.stdout, shown.stderr
        without = await lab.run("h1", ["ls", "/sys/class/infiniband/hfi1_0"])
        assert without.returncode
        process = lab.popen("h2", [sys.executable, str(AGAINST_LIBIBUMAD), "hold"], devices=True, stdout=-1)
        assert "ready" in await asyncio.to_thread(process.stdout.readline)
        process.kill()
        process.communicate()
        with pytest.raises(LabError, match="no such program"):
            lab.popen("h1", ["no-such-program"], devices=True)


def test_program_that_treats_its_device_badly_gets_errors_and_harms_nobody(lab: Lab) -> None:
    (found,) = said(
        lab.exec("h1", sys.executable, str(Path(__file__).parent / "umad_abuse.py"), str(lab.lid("h2")))
    )
    assert found == {
        "too_small": ["EINVAL", "EINVAL", 0x81],
        "many_agents": [True, "ENOMEM", "ENOTTY"],
        "nowhere": errno.ETIMEDOUT,
        "forked": 0x81,
        "replaced": "81",
        "closed_while_waiting": 0x81,
        "interrupted": "EINTR",
        "at_once": ["EAGAIN", []],
        "flood": "ENOMEM",
    }
    (answer,) = lab.umad("h1", "get", lab.lid("h2"))
    assert bytes.fromhex(answer["mad"])[3] == 0x81, "the next program is served"
    assert json.loads(lab.opavnic("status", "--json").stdout)["balance"] == {}
