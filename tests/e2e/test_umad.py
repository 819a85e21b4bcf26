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
from program import ok
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
  - {{id: 3, name: {admin}, pkey: 0xffff, members: [h1, h3]}}   # full members of the management partition
em: {em}
"""


def _with_tools() -> None:
    require(("ip", "ibstat", "ibv_devices", "ibv_devinfo"), as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _tools_are_there() -> None:
    _with_tools()


class Lab:
    """A lab in the background."""

    def __init__(self, opavnic: Program, *, em: str = "builtin", kind: str = "") -> None:
        self.opavnic = opavnic
        self.name = f"u{os.getpid()}{kind}"
        opavnic.up(LAB.format(name=self.name, admin=f"admin{kind}{os.getpid() % 100_000}", em=em))
        self.journal = opavnic.root / self.name / "state.json"

    def exec(self, host: str, *command: str) -> str:
        """Run a program on a host with devices; return what it prints."""
        return self.opavnic.ok("exec", "--umad", host, "--", *command)

    def umad(self, host: str, *words: object) -> list[dict[str, Any]]:
        """Run the program against libibumad; return what it says."""
        return said(self.exec(host, sys.executable, str(AGAINST_LIBIBUMAD), *map(str, words)))

    @contextlib.contextmanager
    def started(self, host: str, *words: object) -> Iterator[subprocess.Popen[str]]:
        """Run it in the background until it has said that it is ready."""
        command = ["exec", "--umad", host, "--", sys.executable, str(AGAINST_LIBIBUMAD), *map(str, words)]
        with self.opavnic.started(*command, stdout=-1, stderr=-2) as process:
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
def lab(opavnic: Program) -> Lab:
    return Lab(opavnic)


@pytest.fixture(scope="module")
def shared(opavnic_of_module: Program) -> Lab:
    """The lab of tests after which it is as it was."""
    _with_tools()
    return Lab(opavnic_of_module, kind="s")


def test_tools_of_debian_show_the_hfi(shared: Lab) -> None:
    shown = shared.exec("h1", "ibstat")
    assert "CA 'hfi1_0'" in shown
    assert "State: Active" in shown
    assert f"Base lid: {shared.lid('h1')}\n" in shown
    assert "hfi1_0" in shared.exec("h2", "ibv_devices")
    opened = shared.opavnic("exec", "--umad", "h2", "--", "ibv_devinfo")
    assert opened.stderr == "Failed to query device props\n", "it has opened the device: seccomp has answered"
    assert "blue" in shared.exec("h1", "ls", "/sys/class/net"), "the other classes are still there"
    assert "null" in shared.exec("h1", "ls", "/dev")
    assert shared.lid("h1") != shared.lid("h3"), "the machine itself has devices, too, where it is a host"
    assert shared.opavnic("exec", "--no-umad", "h1", "--", "ls", "/sys/class/infiniband/hfi1_0").returncode
    assert mounts_of_ours() == []


def test_program_asks_the_management_agent_of_another_host(shared: Lab) -> None:
    (answer,) = shared.umad("h1", "get", shared.lid("h2"))
    mad = bytes.fromhex(answer["mad"])
    assert (answer["status"], answer["length"], answer["lid"]) == (0, 2048, shared.lid("h2"))
    assert mad[:4] == bytes((0x80, 0x34, 0x80, 0x81))
    assert mad[4:6] == bytes(2), "the agent has answered with success"
    assert mad[12:16] == bytes((0, 0, 0, 7)), "the half of the transaction id that is the program's"
    (none,) = shared.umad("h1", "answer-none", 0x4444)
    assert none["status"] == errno.ETIMEDOUT
    status = shared.opavnic.data("status")
    assert status["balance"] == {}


def test_trap_reaches_the_program_that_has_registered_for_it(opavnic: Program) -> None:
    lab = Lab(opavnic, em="external")  # an EM of the lab would take the traps of its agents back
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


def test_program_that_is_killed_frees_its_agents(shared: Lab) -> None:
    with shared.started("h1", "hold") as process:
        other = shared.opavnic("exec", "h1", "--", sys.executable, str(AGAINST_LIBIBUMAD), "hold")
        assert "Invalid argument" in other.stderr, "one agent for one method"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with shared.started("h1", "hold"):
        pass


def test_read_that_is_too_small_gets_the_first_segment(shared: Lab) -> None:
    for size in (5000, (3 << 20) + 5):  # the longer one comes in several requests of the kernel
        (found,) = shared.umad("h3", "small-buffer", size)
        assert found == {
            "first": -errno.ENOSPC, "errno": "ENOSPC", "length": size + 56, "start": True, "data": True,
        }  # fmt: skip


@pytest.mark.parametrize("end", ["down", "kill"])
def test_end_of_the_lab_ends_reads_and_leaves_nothing(lab: Lab, end: str) -> None:
    with lab.started("h3", "hold") as process:  # on the machine itself: the lab does not end its programs
        if end == "down":
            lab.opavnic("down")
        else:
            killed(lab.journal)
        out, _ = process.communicate(timeout=60)
        assert json.loads(out)["agent"] < 0, "an error, not a MAD"
    lab.opavnic("prune")
    assert mounts_of_ours() == []
    assert not list(lab.opavnic.root.iterdir())


def test_programs_of_programs_have_the_devices_of_their_host(shared: Lab) -> None:
    inner = f"{sys.executable} -m opavnic.cli.main exec --umad h2 -- ibstat"
    environment = f"OPAVNIC_RUNTIME_DIR={shared.opavnic.root}"
    shown = shared.exec(
        "h1",
        "sh",
        "-c",
        f"env -i $(command -v ibstat); ibstat & wait; cd {Path.cwd()}; {environment} {inner}",
    )
    lids = [int(line.split()[2]) for line in shown.splitlines() if "Base lid" in line]
    assert lids == [shared.lid("h1"), shared.lid("h1"), shared.lid("h2")]
    nobody = shared.opavnic("exec", "h1", "--", *NOBODY, "sh", "-c", "ibv_devices; cat /dev/infiniband/umad0")
    assert "hfi1_0" in nobody.stdout
    assert "Permission denied" in nobody.stderr, "umad0 is root's, as on a machine with Omni-Path"


def test_lab_that_is_stopped_does_not_hold_up_programs(shared: Lab) -> None:
    pid = Journal.from_json(shared.journal.read_text()).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert shared.opavnic("exec", "h1", "--", "true").returncode == 0
        refused = shared.opavnic("exec", "--umad", "h1", "--", "true")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("no umad devices on host h1: the process of the lab is stopped")
    assert "State: Active" in shared.exec("h1", "ibstat")


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
    file.write_text(LAB.format(name=f"p{os.getpid()}", admin=f"adminp{os.getpid() % 100_000}", em="builtin"))
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


def test_program_that_treats_its_device_badly_gets_errors_and_harms_nobody(shared: Lab) -> None:
    (found,) = said(
        shared.exec("h1", sys.executable, str(Path(__file__).parent / "umad_abuse.py"), str(shared.lid("h2")))
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
    (answer,) = shared.umad("h1", "get", shared.lid("h2"))
    assert bytes.fromhex(answer["mad"])[3] == 0x81, "the next program is served"
    assert shared.opavnic.data("status")["balance"] == {}
