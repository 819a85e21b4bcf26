"""Linux's own hfi1 on a virtual HFI. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import re
import sys

import pytest

from hfi_sim.fabric.topology import single_switch
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic.kernel.process import KernelProcess
from opavnic.kernel.virtual import VirtualKernel
from opavnic.scenario import Scenario, run_virtual

AWAIT_INIT = """import pathlib, time
state = pathlib.Path("/sys/class/infiniband/hfi1_0/ports/1/state")
end = time.monotonic() + 10
while state.read_text() != "2: INIT\\n" and time.monotonic() < end: time.sleep(0.01)
print(state.read_text() + state.with_name("phys_state").read_text(), end="")
"""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    try:
        find_kernel(driver=HFI1)
    except KernelError as error:
        pytest.skip(str(error))


def test_hfi1_probes_and_its_link_comes_up() -> None:
    with KernelProcess(find_kernel(driver=HFI1), "k1", driver=HFI1) as process:
        process.await_ready()

        def said(*command: str) -> str:
            done = process.run(command, timeout_s=30.0, take=lambda _frame: None)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        assert said(sys.executable, "-ISc", AWAIT_INIT) == "2: INIT\n5: LinkUp\n"
        devices = said("ls", "/dev/infiniband", "/dev/hfi1_0", "/sys/class/net")
        assert {"umad0", "issm0", "uverbs0", "/dev/hfi1_0", "ib0"} <= set(devices.split())
        log = said("dmesg")
    assert "hfi1_0: Implementation: Functional simulator" in log
    assert "hfi1_0: Neighbor Guid 11750101000002, Type 1, Port Num 1" in log
    assert "Fabric active lanes (width): tx 0xf (4), rx 0xf (4)" in log
    assert "infiniband hfi1_0: VNIC client initialized" in log
    assert "opa_virtual_hfi: function level reset" in log
    assert "is not modelled" not in log, "the driver asks for nothing that the model has no row for"
    assert "no memory for DMA" not in log
    assert not re.search(r"halts|WARNING: .*(hfi1|rdmavt)|BUG|Oops", log)


async def _log(seed: int) -> list[str]:
    """Return what a kernel has printed, and at which time its link was up."""
    async with Scenario(single_switch(2), seed=seed) as lab:
        kernel = VirtualKernel(
            find_kernel(driver=HFI1), "k1", lab.clock, seed=seed, take=lambda _frame: None, driver=HFI1
        )
        try:
            await kernel.await_ready()
            done = await kernel.run(sys.executable, "-ISc", AWAIT_INIT)
            assert done.stdout == b"2: INIT\n5: LinkUp\n", done.stderr
            log = (await kernel.run("dmesg")).stdout.decode()
            return [*log.splitlines(), f"{lab.clock.time():.9f}"]
        finally:
            kernel.close()


def test_on_virtual_time_the_log_is_the_same_each_time() -> None:
    first = run_virtual(_log(1))
    assert run_virtual(_log(1)) == first
    assert run_virtual(_log(2)) != first
    assert len(first) > 100
