"""The Ethernet Managers of examples/own-em run a virtual switch by the umad device of a host."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import Program
from opavnic.devices.kernel.entry import why_no_fuse
from permission import require

EXAMPLE = Path(__file__).parents[2] / "examples/own-em"
LIDS = ("3", "4")


@pytest.fixture(params=["em.c", "em.py"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command that runs one of them."""
    if reason := why_no_fuse():
        pytest.skip(reason)
    if request.param == "em.py":
        return [sys.executable, str(EXAMPLE / "em.py")]
    require(("cc",), as_root=True, files=("/usr/include/infiniband/umad.h",))
    compiler = shutil.which("cc") or "cc"
    program = tmp_path / "em"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-o", str(program), str(EXAMPLE / "em.c"), "-libumad"]
    subprocess.run(command, check=True)
    return [str(program)]


def test_manager_of_ones_own_brings_up_a_virtual_switch_with_broadcast(
    opavnic: Program, manager: list[str]
) -> None:
    opavnic.ok("up", EXAMPLE / "lab.yaml", "-d")
    command = ("exec", "--umad", "h1", "--", *manager, *LIDS)
    with opavnic.started(*command, stdout=-1, stderr=-2) as process:
        wanted = {f"LID {lid} is on virtual switch 2" for lid in LIDS} | {
            f"trap of LID {lid}" for lid in LIDS
        }
        said = []
        while wanted:  # a trap says that the link of a VNIC has come up
            line = process.stdout.readline()
            assert line, said
            said.append(line)
            wanted = {start for start in wanted if not line.startswith(start)}
        opavnic.on("h2", "ping", "-c", "1", "-w", "30", "10.9.2.3")  # found by a broadcast
