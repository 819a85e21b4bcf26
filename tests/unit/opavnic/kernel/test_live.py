"""Linux's own opa_vnic, asked what our agent is asked. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opavnic.cli.program.conformance import app
from opavnic.conformance.mad_probes import mad_probes
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.drivers import DRIVERS
from opavnic.kernel.process import KernelProcess
from permission import require_kernel
from processes import child

VECTORS = Path(__file__).parents[3] / "vectors" / "vema-1.jsonl.gz"


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    require_kernel()


def test_recorded_sessions_and_probes_hold_for_the_living_driver() -> None:
    done = CliRunner().invoke(app, ["vema", "--kernel", str(VECTORS)])
    assert done.exit_code == 0, done.output
    sessions, probes, *reasons = done.stdout.splitlines()
    assert sessions.startswith("PASS 300/300 ")
    assert probes.startswith(f"PASS {len(mad_probes())}/{len(mad_probes())} ")
    assert all("differ by design" in line for line in reasons)


def test_recorded_encapsulations_hold_for_the_living_driver() -> None:
    done = CliRunner().invoke(app, ["encap", "--kernel", str(VECTORS.with_name("encap-1.jsonl.gz"))])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("PASS 1812/1812 ")


LOAD = """import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in sys.argv[1:]:
    with open(path, "rb") as module:
        if libc.syscall(313, module.fileno(), b"", 0):  # finit_module
            sys.exit(f"{path}: {os.strerror(ctypes.get_errno())}")
print(open("/proc/modules").read())
"""


def test_the_other_drivers_load_into_a_kernel_and_find_no_device() -> None:
    kernel = find_kernel()
    modules = [kernel.directory / "modules" / f"{driver.name}.ko" for driver in DRIVERS if driver.is_module]
    with KernelProcess(kernel, "k1") as process:
        process.await_ready()
        command = [sys.executable, "-ISc", LOAD, *map(str, modules)]
        done = process.run(command, timeout_s=30.0, take=lambda _frame: None)
    assert done.returncode == 0, done.stderr.decode()
    loaded = {line.split()[0] for line in done.stdout.decode().splitlines() if line}
    assert loaded == {"opa_sim_agent", "opa_sim_hfi", "rdmavt", "hfi1", "ib_uverbs", "ib_ipoib"}


def _alive(group: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(path.parent.name)
    return found


def test_no_process_and_no_file_stays_of_a_program_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from opavnic.kernel.process import *\nfrom opavnic.kernel.cache import find_kernel\n"
        "process = KernelProcess(find_kernel())\nprocess.await_ready()\nprint(process.pid, flush=True)\ninput()\n"
    )
    with child(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert len(_alive(pid)) > 1
        program.kill()
        program.stdout.read()  # until the watcher, which has it too, has ended
    assert _alive(pid) == []
    assert list(tmp_path.iterdir()) == []


def test_no_process_stays_and_an_ended_kernel_is_said() -> None:
    with KernelProcess(find_kernel()) as process:
        process.await_ready()
        assert len(_alive(process.pid)) > 1, "it runs its first program in a process of its own"
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(KernelError, match="the kernel has ended with -9"):
            list(iter(lambda: process.receive(0.0), None))  # first what it has sent before
    assert _alive(process.pid) == []
