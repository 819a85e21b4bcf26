"""Linux's own hfi1 on a virtual HFI. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hfi_sim.fabric.topology import single_switch
from opavnic.cli.program.conformance import app
from opavnic.conformance.hfi1_kernel import hfi1
from opavnic.conformance.management import run_management
from opavnic.conformance.sysfs import run_sysfs
from opavnic.kernel.cache import MODULES, find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic.kernel.process import KernelProcess
from opavnic.kernel.virtual import VirtualKernel
from opavnic.scenario import Scenario, run_virtual
from permission import require_kernel

VECTORS = Path(__file__).parents[3] / "vectors"
SMPS = Path(__file__).parents[3] / "hfi_smps.py"
NEIGHBOUR = struct.pack(
    "!B3xQBBBB5I", 0x25, 0x0011750102000001, 7, 1, 0x50, 0, 0x10, 0x311003, 0x20008, 0x24F100, 0
)
"""What a switch says on a cable: its GUID, port 7, type 1, link up, its capabilities (opa_virtual_hfi/wire.c)."""
AWAIT = """import pathlib, sys, time
state = pathlib.Path("/sys/class/infiniband/hfi1_0/ports/1/state")
end = time.monotonic() + 10
while state.read_text() != sys.argv[1] + "\\n" and time.monotonic() < end: time.sleep(0.01)
print(state.read_text() + state.with_name("phys_state").read_text(), end="")
"""
AWAIT_INIT = (sys.executable, "-ISc", AWAIT, "2: INIT")
AWAIT_DOWN = (sys.executable, "-ISc", AWAIT, "1: DOWN")


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    require_kernel(driver=HFI1)


def test_hfi1_probes_and_its_link_comes_up() -> None:
    with KernelProcess(find_kernel(driver=HFI1), "k1", driver=HFI1) as process:
        process.send(NEIGHBOUR)
        process.await_ready()

        def said(*command: str) -> str:
            done = process.run(command, timeout_s=30.0, take=lambda _frame: None)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        assert said(*AWAIT_INIT) == "2: INIT\n5: LinkUp\n"
        devices = said("ls", "/dev/infiniband", "/dev/hfi1_0", "/sys/class/net")
        assert {"umad0", "issm0", "uverbs0", "/dev/hfi1_0", "ib0"} <= set(devices.split())
        log = said("dmesg")
    assert "hfi1_0: Implementation: RTL VCS simulation" in log
    assert "hfi1_0: 8051 firmware version 1.27.0" in log
    assert "Peer Link Width: tx rate 0x2, widths 0x8" in log
    assert "hfi1_0: Neighbor Guid 11750102000001, Type 1, Port Num 7" in log
    assert "Fabric active lanes (width): tx 0xf (4), rx 0xf (4)" in log
    assert "infiniband hfi1_0: VNIC client initialized" in log
    assert "opa_virtual_hfi: function level reset" in log
    assert "is not modelled" not in log, "the driver asks for nothing that the model has no row for"
    assert "no memory for DMA" not in log
    assert not re.search(r"halts|WARNING: .*(hfi1|rdmavt)|BUG|Oops", log)


def _joined() -> tuple[KernelProcess, KernelProcess]:
    """Start two kernels whose HFIs are the ends of one cable."""
    kernel, ends = find_kernel(driver=HFI1), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    k1, k2 = (
        KernelProcess(kernel, f"k{number}", driver=HFI1, cable=end, guids=[0x0011750101000000 + number])
        for number, end in enumerate(ends, start=1)
    )
    return k1, k2


def _said(process: KernelProcess, *command: str) -> str:
    done = process.run(command, timeout_s=120.0, take=lambda _frame: None)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout.decode()


def _check_log(process: KernelProcess) -> str:
    """Return what the kernel has logged, which is nothing that is wrong."""
    log = _said(process, "dmesg")
    assert "is not modelled" not in log
    assert not re.search(r"halts|no memory for DMA|WARNING: (?!.*virt-pci)|BUG|Oops", log)
    return log


def test_the_smas_of_two_kernels_become_active_and_answer_all_smps() -> None:
    k1, k2 = _joined()
    with k1, k2:
        for process in (k1, k2):
            process.await_ready()
        for process in (k1, k2):
            assert _said(process, *AWAIT_INIT) == "2: INIT\n5: LinkUp\n"
        program = [sys.executable, str(SMPS)]
        assert _said(k1, *program, "activate") == "0: state 4, lid 1\n1: state 4, lid 2\n"
        for process, lid in ((k1, "0x1"), (k2, "0x2")):
            port = "/sys/class/infiniband/hfi1_0/ports/1"
            assert _said(process, "cat", f"{port}/state", f"{port}/lid") == f"4: ACTIVE\n{lid}\n"
        assert _said(k1, *program, "flood", "10000") == "10000/10000\n"
        assert _said(k1, *program, "pma", "2", "1000") == "1000/1000\n", "performance management, by LID"
        for process in (k1, k2):
            _check_log(process)


OPAFMD = "/usr/lib/opa-fm/bin/opafmd"
AWAIT_ACTIVE = (sys.executable, "-ISc", AWAIT.replace("+ 10", "+ 60"), "4: ACTIVE")


def test_opafmd_manages_two_kernels_whose_ipoib_and_verbs_reach_each_other() -> None:
    programs = (OPAFMD, "opareport", "ping", "ip", "ibv_ud_pingpong", "ibv_rc_pingpong")
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    k1, k2 = _joined()
    with k1, k2:
        for number, process in enumerate((k1, k2), start=1):
            process.await_ready()
            assert _said(process, *AWAIT_INIT) == "2: INIT\n5: LinkUp\n"
            address = f"ip addr add 10.1.1.{number}/24 dev ib0; ip link set ib0 up"
            _said(process, "sh", "-c", address)
        _said(k1, OPAFMD, "-D")
        for process in (k1, k2):
            assert _said(process, *AWAIT_ACTIVE) == "4: ACTIVE\n5: LinkUp\n"
        report = _said(k1, "opareport", "-o", "nodes")
        assert "2 Connected FIs in Fabric" in report
        assert "NodeGUID: 0x0011750101000002 Type: FI PortNum:   1" in report
        assert " 0% packet loss" in _said(k1, "ping", "-q", "-c", "3", "-w", "30", "10.1.1.2")
        for program in ("ibv_ud_pingpong", "ibv_rc_pingpong"):
            words = (program, "-e", "-d", "hfi1_0", "-n", "200")
            with ThreadPoolExecutor() as threads:
                server = threads.submit(_said, k2, *words)
                _said(k1, "sh", "-c", f"until {' '.join(words)} 10.1.1.2; do sleep 0.1; done")
                assert "200 iters in" in server.result()
        for process in (k1, k2):
            _check_log(process)


def test_links_go_down_and_up_and_the_driver_is_unloaded_and_loaded() -> None:
    k1, k2 = _joined()
    with k2:
        with k1:
            for process in (k1, k2):
                process.await_ready()
            program = [sys.executable, str(SMPS)]

            def activate() -> None:
                for process in (k1, k2):
                    assert _said(process, *AWAIT_INIT) == "2: INIT\n5: LinkUp\n"
                assert _said(k1, *program, "activate") == "0: state 4, lid 1\n1: state 4, lid 2\n"

            for _ in range(3):
                activate()
                _said(k1, *program, "bounce")
            activate()
            _said(k1, "rmmod", "ib_ipoib", "hfi1")
            assert _said(k2, *AWAIT_DOWN).startswith("1: DOWN\n")
            _said(k1, "insmod", str(find_kernel(driver=HFI1).directory / MODULES / "hfi1.ko"), "krcvqs=1")
            activate()
            _check_log(k1)
        assert _said(k2, *AWAIT_DOWN) == "1: DOWN\n2: Polling\n"
        log = _check_log(k2)
    assert log.count("Link down reason: Neighbor link down message 39, FM bounce") == 3
    assert log.count("Link down reason: Neighbor link down message 35, Reboot") == 1
    assert log.count("Link down reason: Unexpected link down") == 1, "the cable is pulled with the kernel"


@pytest.mark.parametrize(
    ("of", "names"), [("sma", ("methods", "begins", "aggregates")), ("pma", ("pm_clears",))]
)
def test_hfi1_answers_what_was_recorded(of: str, names: tuple[str, ...], tmp_path: Path) -> None:
    with gzip.open(VECTORS / f"hfi1-{of}-1.jsonl.gz", "rt") as lines:
        chosen = [line for line in lines if json.loads(line)["session"] in names]
    path = tmp_path / "chosen.jsonl"
    path.write_text("".join(chosen))
    result = run_management(path, of, hfi1)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.ok
    assert len(chosen) == len(names)


def test_files_of_hfi1_say_what_was_recorded_but_for_counts_that_depend_on_when() -> None:
    result = run_sysfs(VECTORS / "hfi1-sysfs-1.jsonl.gz", kernel=True)
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert result.ok
    differ = sum(row["by design"] for row in result.rows.values())
    assert differ < result.total / 20, "hfi1 is compared with itself"


def test_opa_vnic_on_hfi1_encapsulates_as_recorded() -> None:
    done = CliRunner().invoke(app, ["encap", "--hfi1", str(VECTORS / "encap-1.jsonl.gz")])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("PASS 1812/1812 ")


async def _log(seed: int) -> list[str]:
    """Return what a kernel has printed, and at which time its link was up."""
    async with Scenario(single_switch(2), seed=seed) as lab:
        kernel = VirtualKernel(
            find_kernel(driver=HFI1), "k1", lab.clock, seed=seed, take=lambda _frame: None, driver=HFI1
        )
        try:
            kernel.send(NEIGHBOUR)
            await kernel.await_ready()
            done = await kernel.run(*AWAIT_INIT)
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
