"""A host that is a kernel of its own, with Linux's own hfi1. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from e2e.conftest import Program
from e2e.managed_lab import ManagedLab, require_fabric_manager
from e2e.test_kernel_host import PATIENCE_S, KernelLab
from hfi_sim.wire.captures import DLT_ERF, read_capture
from opavnic.kernel.cache import MODULES, find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic_bench.base.sites import until
from permission import require_kernel

LAB: Final = """name: {lab}
hosts: {{h1: {{}}, h2: {{}}, k1: {{kernel: hfi1, may_manage: true}}, k2: {{kernel: hfi1}}}}
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}]
"""
PORT: Final = "/sys/class/infiniband/hfi1_0/ports/1"
SMPS: Final = Path(__file__).parents[1] / "hfi_smps.py"


@pytest.fixture(autouse=True)
def _built() -> None:
    require_kernel(driver=HFI1)


def until_port(lab: KernelLab, what: str, host: str = "k1", rail: int = 0) -> None:
    """Let a shell in a host look until a port is in a state: nothing tells of it."""
    state = f"{PORT.replace('hfi1_0', f'hfi1_{rail}')}/state"
    look = f'until [ "$(cat {state})" = "{what}" ]; do sleep 0.1; done 2>/dev/null'
    done = lab.opavnic("exec", host, "--", "sh", "-c", look, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def _link(lab: KernelLab, host: str) -> str:
    """Return the state of a host's link."""
    return next(str(link["state"]) for link in lab.status()["links"] if link["name"].startswith(f"{host}:"))


def _wait(is_so: Callable[[], bool]) -> None:
    until(is_so, "it never came true", limit_s=PATIENCE_S)


def test_linux_own_hfi1_is_managed_by_our_subnet_manager_and_sees_the_fabric(opavnic: Program) -> None:
    lab = KernelLab(opavnic, LAB)
    lids = {}
    for host in ("k1", "k2"):
        until_port(lab, "4: ACTIVE", host)
        lids[host] = int(lab.inside(host, "cat", f"{PORT}/lid"), 0)
    assert all(0 < lid < 0xC000 for lid in lids.values()), "with these, hfi1 sends 9B packets"
    assert lab.inside("k2", "cat", f"{PORT}/pkeys/0", f"{PORT}/pkeys/1") == "0x8001\n0x7fff\n"
    if shutil.which("opareport"):
        report = lab.inside("k1", "opareport", "-o", "nodes")
        assert "5 Connected FIs in Fabric" in report, (
            "k1, k2, h1, h2, em: as our SA says to the kernel's user_mad"
        )
        assert "Neighbor:  Name: sw0" in report
    program = (sys.executable, str(SMPS), "pma", str(lids["k2"]), "300")
    assert lab.inside("k1", *program) == "300/300\n", "performance management of one hfi1, asked by another"
    assert lab.kernel()["malformed"] == lab.kernel()["refused"] == 0
    lab.ok("check")
    assert lab.status()["balance"] == {}
    lab.ok("down", lab.name)


def _bring_up_ipoib(lab: KernelLab) -> None:
    for number, host in enumerate(("k1", "k2"), 1):
        until_port(lab, "4: ACTIVE", host)
        lab.inside(host, "sh", "-c", f"ip addr add 10.1.1.{number}/24 dev ib0; ip link set ib0 up")


def test_ipoib_and_verbs_of_two_hfi1_cross_a_switch_as_9b_packets(opavnic: Program, tmp_path: Path) -> None:
    programs = ("ping", "ip", "ibv_ud_pingpong", "ibv_rc_pingpong")
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    lab = KernelLab(opavnic, LAB)
    _bring_up_ipoib(lab)
    file = tmp_path / "k1.pcapng"
    with ThreadPoolExecutor() as threads:
        capture = threads.submit(lab.opavnic, "capture", "on", "k1", "-c", "40", "-w", str(file))
        assert " 0% packet loss" in lab.inside("k1", "ping", "-q", "-c", "3", "-w", "30", "10.1.1.2")
        for program in ("ibv_ud_pingpong", "ibv_rc_pingpong"):
            words = (program, "-e", "-d", "hfi1_0", "-n", "100")
            server = threads.submit(lab.inside, "k2", *words)
            lab.inside("k1", "sh", "-c", f"until {' '.join(words)} 10.1.1.2; do sleep 0.1; done")
            assert "100 iters in" in server.result()
        while not capture.done():
            lab.inside("k1", "ping", "-q", "-c", "10", "-i", "0.05", "10.1.1.2")
        assert capture.result().returncode == 0
    forms = Counter(packet.link_type for packet in read_capture(file.read_bytes()))
    assert forms == {DLT_ERF: 40}, "9B packets, as Wireshark reads them"
    for host in ("k1", "k2"):
        assert "WARNING: " not in lab.inside(host, "dmesg").replace("WARNING: CPU: 0 PID: 1 at", "")
    assert lab.kernel()["malformed"] == lab.kernel()["refused"] == 0
    lab.ok("check")
    assert lab.status()["balance"] == {}
    lab.ok("down", lab.name)


EIGHT: Final = tuple(f"k{number}" for number in range(1, 9))
MARK_MIB: Final = 100


def _memory_mib(pid: int) -> float:
    """Return the memory of a kernel: of all processes of its group, what they share once."""
    found = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(path.name)) == pid:
                found += int((path / "smaps_rollup").read_text().split("Pss:")[1].split()[0])
    return found / 1024


@pytest.mark.slow
def test_eight_hosts_of_hfi1_are_active_and_reach_each_other_by_ipoib(opavnic: Program) -> None:
    if missing := [program for program in ("ping", "ip") if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    hosts = ", ".join(f"{host}: {{{{kernel: hfi1}}}}" for host in EIGHT)
    lab = KernelLab(opavnic, f"name: {{lab}}\nhosts: {{{{{hosts}}}}}\nvesws: []\n")
    for number, host in enumerate(EIGHT, 1):
        until_port(lab, "4: ACTIVE", host)
        lab.inside(host, "sh", "-c", f"ip addr add 10.1.1.{number}/24 dev ib0; ip link set ib0 up")
    others = "for n in 1 2 3 4 5 6 7 8; do until ping -q -c1 -W1 10.1.1.$n; do :; done; done"
    with ThreadPoolExecutor(len(EIGHT)) as threads:
        for said in threads.map(lambda host: lab.inside(host, "sh", "-c", others), EIGHT):
            assert said.count(" 0% packet loss") == len(EIGHT)
    kernels = lab.status()["parts"]["kernels"]
    memory = {host: round(_memory_mib(kernels[host]["pid"])) for host in EIGHT}
    print(f"MiB of each host: {memory}")
    assert max(memory.values()) < MARK_MIB
    assert {host: kernels[host]["first_warning"] for host in EIGHT} == dict.fromkeys(EIGHT, "")
    lab.ok("check")
    assert lab.status()["balance"] == {}
    lab.ok("down", lab.name)


TWO_RAILS: Final = """name: {lab}
hosts: {{h1: {{}}, h2: {{}}, k1: {{kernel: hfi1, hfis: 2}}, k2: {{kernel: hfi1, hfis: 2}}}}
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}]
"""


def test_two_hfis_of_one_kernel_are_both_active_and_reach_those_of_another(opavnic: Program) -> None:
    if missing := [program for program in ("ping", "ip") if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    lab = KernelLab(opavnic, TWO_RAILS)
    lids = set()
    for number, host in enumerate(("k1", "k2"), 1):
        for rail in (0, 1):
            until_port(lab, "4: ACTIVE", host, rail)
            lids.add(lab.inside(host, "cat", f"{PORT.replace('hfi1_0', f'hfi1_{rail}')}/lid"))
            address = f"ip addr add 10.1.{rail + 1}.{number}/24 dev ib{rail}; ip link set ib{rail} up"
            lab.inside(host, "sh", "-c", address)
    assert len(lids) == 4
    for rail in (1, 2):
        assert " 0% packet loss" in lab.inside("k1", "ping", "-q", "-c", "3", "-w", "30", f"10.1.{rail}.2")

    lab.ok("fault", "add", "link-down on k1.2")
    until_port(lab, "1: DOWN", rail=1)
    assert lab.inside("k1", "cat", f"{PORT}/state") == "4: ACTIVE\n", "the other rail stays"
    assert " 0% packet loss" in lab.inside("k1", "ping", "-q", "-c", "3", "-w", "30", "10.1.1.2")
    lab.ok("fault", "clear")
    assert " 0% packet loss" in lab.inside("k1", "ping", "-q", "-c", "3", "-w", "60", "10.1.2.2")
    assert lab.inside("k1", "dmesg").count("WARNING: ") == 1, "of user-mode Linux's own PCI, at boot"
    lab.ok("check")
    assert lab.status()["balance"] == {}
    lab.ok("down", lab.name)


EXTERNAL: Final = """name: {name}
hosts: {{h1: {{may_manage: true}}, h2: {{}}, k1: {{kernel: hfi1}}, k2: {{kernel: hfi1}}}}
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}]
subnet_manager: external
"""


def test_opafmd_on_a_simulated_hfi_manages_two_hfi1_beside_vnics(opavnic: Program) -> None:
    require_fabric_manager()
    lab = ManagedLab(opavnic, EXTERNAL)

    def inside(host: str, *command: str) -> str:
        return lab.run("exec", host, "--", *command)

    with lab.fabric_manager("h1"):
        for number, host in enumerate(("k1", "k2"), 1):
            lab.wait("ACTIVE", lambda host=host: inside(host, "cat", f"{PORT}/state") == "4: ACTIVE\n")
            inside(host, "sh", "-c", f"ip addr add 10.1.1.{number}/24 dev ib0; ip link set ib0 up")
        lab.wait(
            "ping", lambda: lab.opavnic("exec", "k1", "--", "ping", "-c1", "-W1", "10.1.1.2").returncode == 0
        )
        lab.wait("VNICs", lambda: lab.pings("10.9.2.2"))
        lab.run("fault", "add", "link-down on k1")
        lab.wait("DOWN", lambda: inside("k1", "cat", f"{PORT}/state") == "1: DOWN\n")
        lab.run("fault", "clear")
        lab.wait("ACTIVE again", lambda: inside("k1", "cat", f"{PORT}/state") == "4: ACTIVE\n")
    assert lab.status()["balance"] == {}
    lab.run("down", lab.name)


def test_links_faults_and_ends_of_an_hfi1_are_the_labs(opavnic: Program) -> None:
    lab = KernelLab(opavnic, LAB)
    until_port(lab, "4: ACTIVE")
    counters = lab.opavnic.data("status", "--counters")["counters"]
    assert counters["k1 hfi1_0"]["DcXmitPkts"] > 0
    assert counters["k1 hfi1_0 port 1"]["RxPkt"] > 0
    assert {"k2 hfi1_0", "k2 hfi1_0 port 1"} <= counters.keys()
    table = lab.ok("status", "--counters")
    assert "DcXmitPkts" in table
    lab.ok("fault", "add", "link-down on k1")
    until_port(lab, "1: DOWN")
    lab.ok("fault", "clear")
    until_port(lab, "4: ACTIVE")

    lab.inside("k1", "rmmod", "ib_ipoib", "hfi1")
    _wait(lambda: _link(lab, "k1") == "down")
    module = find_kernel(driver=HFI1).directory / MODULES / "hfi1.ko"
    lab.inside("k1", "insmod", str(module), "krcvqs=1")
    until_port(lab, "4: ACTIVE")
    assert _link(lab, "k1") == "up"
    assert "WARNING: CPU: 0 PID: 1 at" in (log := lab.inside("k1", "dmesg")), (
        "of user-mode Linux's own PCI, at boot"
    )
    assert log.count("WARNING: ") == 1

    os.kill(lab.kernel()["pid"], signal.SIGKILL)
    _wait(lambda: _link(lab, "k1") == "down")
    refused = lab.opavnic("exec", "k1", "--", "true")
    assert (refused.returncode, refused.stderr) == (126, "opavnic: true: the kernel of host k1 has ended\n")
    lab.ok("fault", "add", "crash on k1")
    lab.ok("fault", "clear")
    _wait(lambda: lab.kernel()["pid"] is not None)
    _wait(lambda: lab.opavnic("exec", "k1", "--", "cat", f"{PORT}/state").stdout == "4: ACTIVE\n")
    assert lab.status()["balance"] == {}
    lab.ok("down", lab.name)
