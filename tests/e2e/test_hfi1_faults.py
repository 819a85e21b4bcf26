"""Faults of links, resets and crashes, by the hundred, on hosts with Linux's own hfi1. Needs a kernel.

The quick form is part of `make test-kernel`; `make test-long` draws a thousand.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.conftest import Program
from e2e.test_kernel_host import PATIENCE_S, KernelLab
from opavnic.kernel.cache import MODULES, find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import LabDir
from opavnic_bench.base.sites import until
from permission import require_kernel
from program import COMMAND

HOSTS: Final = ("k1", "k2", "k3", "k4")
LAB: Final = """name: {lab}
hosts: {{k1: {{kernel: hfi1}}, k2: {{kernel: hfi1}}, k3: {{kernel: hfi1}}, k4: {{kernel: hfi1}}}}
vesws: []
"""
PORT: Final = "/sys/class/infiniband/hfi1_0/ports/1"
ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"
_HANGS_S: Final = 60.0


@pytest.fixture(autouse=True)
def _built() -> None:
    require_kernel(driver=HFI1)


class Shell:
    """A shell in the kernel of a host, as long as that runs."""

    def __init__(self, directory: LabDir, host: str) -> None:
        command = [*COMMAND, "exec", "--lab", directory.name, host, "--", "sh"]
        environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(directory.path.parent)}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )

    def run(self, line: str) -> str:
        """Run a line, and return what it prints; OSError: the kernel has ended."""
        print(f"{line}; echo '=' $?", file=self._process.stdin, flush=True)
        said: list[str] = []
        for word in self._process.stdout:
            if word.startswith("= "):
                assert word == "= 0\n", f"{line}: {word}{''.join(said)}"
                return "".join(said)
            said.append(word)
        raise BrokenPipeError(f"{line}: the kernel has ended: {''.join(said)}")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Victim:
    """A host to which things happen."""

    def __init__(self, directory: LabDir, number: int, seed: int) -> None:
        self.host = f"k{number}"
        self.done: Counter[str] = Counter()
        self._directory = directory
        self._number = number
        self._control = LabClient(directory.control_socket, _HANGS_S)
        self._random = random.Random(f"{seed}/{number}")
        self._modules = find_kernel(driver=HFI1).directory / MODULES
        self._shell: Shell | None = None

    def _fault(self, text: str) -> int:
        return int(self._control.post("/faults", {"fault": text})["number"])

    def _clear(self, number: int) -> None:
        self._control.post("/faults/remove", {"number": number})

    def run(self, line: str) -> str:
        """Run a line in the kernel of now."""
        while True:
            if self._shell is None:
                self._shell = Shell(self._directory, self.host)
            try:
                return self._shell.run(line)
            except BrokenPipeError:
                self.forget_shell()

    def forget_shell(self) -> None:
        """Begin a new one with the next line."""
        if self._shell is not None:
            self._shell.close()
        self._shell = None

    def wait(self, state: str) -> None:
        """Wait until the driver says that its port is in a state."""
        self.run(f'until [ "$(cat {PORT}/state)" = "{state}" ]; do sleep 0.05; done 2>/dev/null')

    def bring_up(self) -> None:
        """Wait for ACTIVE, and give IPoIB an address."""
        self.wait(ACTIVE)
        self.run(f"ip addr replace 10.1.1.{self._number}/24 dev ib0; ip link set ib0 up")

    def reaches(self, other: int) -> None:
        """Wait until it hears another host by IPoIB."""
        self.run(f"until ping -q -c1 -W1 10.1.1.{other} >/dev/null; do :; done")

    # --- what happens ----------------------------------------------------------------------------------------

    def cable_is_pulled(self) -> None:
        """Its link goes down, the driver sees it, it comes back."""
        number = self._fault(f"link-down on {self.host}")
        self.wait(DOWN)
        self._clear(number)

    def cable_flaps(self) -> None:
        """The cable is pulled and put back at once, again in the middle of training."""
        for _ in range(self._random.randint(1, 3)):
            self._clear(self._fault(f"link-down on {self.host}"))
            time.sleep(self._random.uniform(0, 0.6))  # any moment of training

    def driver_is_loaded_anew(self) -> None:
        """Unloaded and loaded."""
        self.run("rmmod ib_ipoib hfi1")
        self._load()

    def _load(self) -> None:
        self.run(f"insmod {self._modules}/hfi1.ko eager_buffer_size=262144 krcvqs=1")
        self.run(f"insmod {self._modules}/ib_ipoib.ko")
        self.bring_up()

    def function_is_reset(self) -> None:
        """FLR, between two drivers: hfi1 has no handlers for one below it, and would wait for its packets forever."""
        self.run("rmmod ib_ipoib hfi1")
        self.run("for file in /sys/bus/pci/devices/*/reset; do echo 1 > $file; done")
        self._load()

    def hfi_is_removed(self) -> None:
        """The HFI goes, and comes back."""
        self._restarts(f"hfi-removal on {self.host}")

    def kernel_crashes(self) -> None:
        """The kernel ends and boots; sometimes it is killed first."""
        if self._random.random() < 0.5:
            pid = self._kernel()["pid"]
            os.kill(pid, signal.SIGKILL)
            until(lambda: self._kernel()["pid"] is None, "it lives", limit_s=PATIENCE_S)
        self._restarts(f"crash on {self.host}")

    def _restarts(self, fault: str) -> None:
        number = self._fault(fault)
        self._clear(number)
        self.forget_shell()
        until(lambda: self._kernel()["pid"] is not None, "it does not boot", limit_s=PATIENCE_S)
        self.bring_up()

    def _kernel(self) -> Any:
        return self._control.get("/status")["parts"]["kernels"][self.host]

    def suffer(self, count: int) -> None:
        """Draw so many faults; each is over when the port is ACTIVE again."""
        happens: dict[Callable[[], None], int] = {
            self.cable_is_pulled: 12,
            self.cable_flaps: 6,
            self.driver_is_loaded_anew: 3,
            self.function_is_reset: 2,
            self.hfi_is_removed: 1,
            self.kernel_crashes: 1,
        }
        self.bring_up()
        order = [one for one in happens for _ in range(happens[one] * count // sum(happens.values()) + 1)]
        self._random.shuffle(order)
        for one in order[:count]:
            one()
            self.wait(ACTIVE)
            self.done[one.__name__] += 1


def _suffer(directory: LabDir, count: int, seed: int) -> Counter[str]:
    """Let so many faults happen to the hosts of a lab, all at once; return which."""
    victims = [Victim(directory, number, seed) for number, _ in enumerate(HOSTS, 1)]
    with ThreadPoolExecutor(len(victims)) as threads:
        for future in [threads.submit(victim.suffer, count // len(victims)) for victim in victims]:
            future.result()
    for victim in victims:
        for other in {1, 2, 3, 4} - {victims.index(victim) + 1}:
            victim.reaches(other)
    for victim in victims:
        victim.forget_shell()
    return sum((victim.done for victim in victims), Counter())


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(60, id="quick"),
        pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(0)], id="long"),
    ],
)
def test_no_fault_of_a_link_and_no_reset_hangs_a_kernel_or_makes_it_warn(
    count: int, opavnic: Program, tmp_path: Path
) -> None:
    if missing := [program for program in ("ping", "ip", "rmmod", "insmod") if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    lab = KernelLab(opavnic, LAB)
    seed = int(os.environ.get("HFI1_SEED", "1"))
    done = _suffer(LabDir(tmp_path / "run" / lab.name), count, seed)
    kernels = lab.status()["parts"]["kernels"]
    print(f"seed {seed}, {done.total()} faults: {dict(done)}; {kernels}")
    assert done.total() == count
    said = {host: kernels[host]["first_warning"] for host in HOSTS}
    assert said == dict.fromkeys(HOSTS, ""), "of the whole console of each kernel, all boots included"
    assert all(kernels[host]["malformed"] == 0 for host in HOSTS)
    lab.ok("check")
    assert lab.status()["balance"] == {}

    lab.inside("k1", "sh", "-c", "echo 'WARNING: CPU: 0 PID: 1 at nowhere' > /dev/kmsg")
    until(lambda: lab.kernel()["warnings"] > 0, "no warning is noticed", limit_s=PATIENCE_S)
    assert "at nowhere" in lab.kernel()["first_warning"]
    lab.ok("down", lab.name)
