"""A virtual machine of QEMU as a host of a lab, by the command that the example gives."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO

import pytest

from e2e.conftest import Program
from e2e.example_commands import commands
from e2e.guest_machine import boot_options, kernel_image
from processes import child

ROOT = Path(__file__).parents[2]
EXAMPLE, PAGE = ROOT / "examples" / "guests.yaml", ROOT / "docs" / "how-to" / "guests.md"
PROGRAM = "qemu-system-x86_64"
LAB = """name: {lab}
hosts: {{h1: {{}}, vm: {{tap: {tap}}}}}
vesws: [{{id: 5, name: blue, pkey: 0x8005, subnet: 10.9.5.0/24, members: [h1, vm]}}]
"""


class Console:
    """The console of the machine."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._in: IO[str] = process.stdin
        self._out: IO[str] = process.stdout

    def until(self, text: str) -> str:
        """Return all lines up to one that has a text."""
        seen: list[str] = []
        for line in self._out:
            seen.append(line)
            if text in line:
                return "".join(seen)
        raise AssertionError(f"the machine ended without {text!r}: {''.join(seen)}")

    def run(self, command: str) -> str:
        """Run a program in the machine; return what it printed."""
        self._in.write(command + "\n")
        self._in.flush()
        told = self.until("exit status")
        assert "exit status 0" in told, told
        return told


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with an empty disk under the name that the example gives."""
    kernel_image()
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm" / "disk.qcow2").write_bytes(bytes(1 << 20))
    return tmp_path / "vm"


@pytest.mark.slow
def test_virtual_machine_is_a_host_and_stays_when_the_lab_goes(opavnic: Program, directory: Path) -> None:
    tap = f"vm{os.getpid()}"
    opavnic.up(LAB.format(lab=f"v{os.getpid()}", tap=tap))
    (example,) = commands(EXAMPLE, PROGRAM)
    words = [word.replace("ifname=vm0", f"ifname={tap}") for word in example if word != "-nographic"]
    assert any(tap in word for word in words)
    command = [*words, *boot_options(directory, "10.9.5.2/24")]
    with child(command, cwd=directory, stdin=-1, stdout=-1, stderr=subprocess.STDOUT) as process:
        console = Console(process)
        console.until("the machine is up")
        console.run("ping -c3 -W10 10.9.5.1")
        mac = console.run("cat /sys/class/net/eth0/address").split()[-4]
        assert mac == "52:54:00:12:34:56", "the address of QEMU, whose local bit is set"
        assert "1 received" in opavnic.on("h1", "ping", "-c1", "-W10", "vm")
        large = console.run("ping -c1 -W10 -s 1400 10.9.5.1")
        assert "1 packets received" in large
        learnt = opavnic.data("status")["parts"]["uplinks"]["vm"]
        assert learnt["addresses"] == 1, learnt
        opavnic.ok("down")
        assert process.poll() is None, "a lab ended a virtual machine"
        assert "eth0" in console.run("ip link show eth0")


def test_page_and_example_give_qemu_the_same_options() -> None:
    (page,) = commands(PAGE, PROGRAM)
    (example,) = commands(EXAMPLE, PROGRAM)
    assert [word for word in example if word != "-nographic"] == page
