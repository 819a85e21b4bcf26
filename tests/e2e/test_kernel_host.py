"""A host that is a kernel of its own, with Linux's opa_vnic. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from opavnic.kernel.cache import find_kernel
from opavnic_bench.base.sites import until
from permission import require_kernel

LAB = """name: {lab}
hosts: {{h1: {{}}, k1: {{kernel: opa_vnic}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: all}}
  - {{id: 3, name: red, pkey: 0x8003, mtu: 9000, subnet: 10.9.3.0/24, members: all}}
"""
EM = """fabric: {id: 0x301}
mac: learn
trap: {sl: 1}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, members: all, qos: {unicast: {untagged: {sc: 2, vl: 1}}}}
  - {id: 3, name: red, pkey: 0x8003, mtu: 9000, members: all}
"""
SET_UP = """name: {lab}
hosts:
  h1: {{}}
  k1:
    kernel: {{name: {kernel}}}
    addresses: {{lo: 10.77.0.1/32, blue: 10.9.2.40/24}}
    sysctls: {{net.ipv4.ip_forward: 1, net.ipv4.conf.blue.rp_filter: 2}}
    routes: [10.50.0.0/16 via 10.9.2.1]
    exec: ["echo began > /dev/shm/began; sleep 1000 &"]
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: all}}]
"""
PATIENCE_S = 120.0
"""Seconds for what comes true by itself; ends as it does. On a busy machine kernels are slow."""
PANIC = "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('blue', 0)); s.send(bytes(60))"


@pytest.fixture(autouse=True)
def _built() -> None:
    require_kernel()


class KernelLab:
    """A lab with a TAP host and a kernel."""

    def __init__(self, opavnic: Program, lab: str = LAB) -> None:
        self.name = f"k{os.getpid()}"
        self.opavnic, self.ok, self.inside = opavnic, opavnic.ok, opavnic.on
        self.file = opavnic.up(lab.format(lab=self.name, kernel=find_kernel().name))

    def ping(self, host: str, to: str, *options: str) -> None:
        self.inside(host, "ping", "-c2", "-i0.1", "-W5", *options, to)

    def status(self) -> dict[str, Any]:
        return dict(self.opavnic.data("status"))

    def states(self) -> set[str]:
        return {
            vnic["state"] for host in self.status()["hosts"] if host["name"] == "k1" for vnic in host["vnics"]
        }

    def kernel(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status()["parts"]["kernels"]["k1"]
        return found

    def wait(self, states: set[str]) -> None:
        """Wait until the VNICs of the kernel have these states."""
        until(lambda: self.states() == states, f"never {states}", limit_s=PATIENCE_S)

    def boot_again(self) -> None:
        self.ok("fault", "add", "crash on k1")
        self.ok("fault", "clear")
        self.wait({"up"})
        self.ping("h1", "k1")


def test_linux_own_driver_is_a_host_among_others(opavnic: Program, tmp_path: Path) -> None:
    lab = KernelLab(opavnic)
    assert lab.inside("k1", "uname", "-n") == "k1\n"
    assert "hfi1_0: VNIC client initialized" in lab.inside("k1", "dmesg")
    for host, other in (("h1", "k1"), ("k1", "h1")):
        lab.ping(host, other)
        lab.ping(host, f"{other}.red", "-M", "do", "-s", "8972")
    assert "every agent matches the configuration" in lab.ok("em", "verify")
    assert lab.opavnic.data("check")["ok"]

    em = tmp_path / "em.yaml"
    em.write_text(EM)
    lab.ok("em", "apply", em)
    lab.inside("k1", "ip", "link", "set", "blue", "address", "02:00:00:11:22:33")
    until(
        lambda: "02:00:00:11:22:33" in lab.ok("em", "show", "mac-table", "--json"),
        "it was not learned",
        limit_s=PATIENCE_S,
    )
    lab.ping("h1", "k1")
    lab.ping("k1", "h1")
    assert "every agent matches the configuration" in lab.ok("em", "verify")
    assert lab.status()["balance"] == {}

    assert lab.opavnic("exec", "k1", "--", "sh", "-c", "exit 7").returncode == 7
    missing = lab.opavnic("exec", "k1", "--", "no-such-program")
    assert (missing.returncode, missing.stderr) == (
        127,
        "opavnic: no-such-program: no such program on host k1\n",
    )
    lab.ok("down", lab.name)
    assert not Path(f"/run/netns/opavnic-{lab.name}-k1").exists()


def test_a_kernel_that_ends_is_said_and_boots_again(opavnic: Program) -> None:
    lab = KernelLab(opavnic)
    os.kill(lab.kernel()["pid"], signal.SIGKILL)
    lab.wait({"lost: its kernel has ended: killed by signal 9"})
    assert {link["state"] for link in lab.status()["links"] if link["name"].startswith("k1")} == {"down"}
    refused = lab.opavnic("exec", "k1", "--", "true")
    assert (refused.returncode, refused.stderr) == (126, "opavnic: true: the kernel of host k1 has ended\n")
    lab.boot_again()

    died = lab.opavnic("exec", "k1", "--", sys.executable, "-c", PANIC)
    assert "the kernel of host k1 has ended" in died.stderr
    lab.wait({"lost: its kernel has ended: Kernel panic - not syncing: BUG!"})
    lab.boot_again()

    pid = lab.kernel()["pid"]
    os.kill(pid, signal.SIGSTOP)
    lab.ok("down", lab.name)
    assert not Path(f"/proc/{pid}").exists()


def _is_set_up(lab: KernelLab) -> bool:
    said = lab.inside(
        "k1",
        "sh",
        "-c",
        "ip -o address show dev lo; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/blue/rp_filter; "
        "ip route show 10.50.0.0/16; cat /dev/shm/began; pgrep -x sleep >/dev/null && echo sleeps; true",
    )
    wanted = ("10.77.0.1/32", "\n1\n2\n", "10.50.0.0/16 via 10.9.2.1 dev blue", "began\nsleeps")
    return all(text in said for text in wanted)


def test_a_kernel_is_set_up_as_the_lab_file_says_each_time_that_it_boots(opavnic: Program) -> None:
    lab = KernelLab(opavnic, SET_UP)
    assert _is_set_up(lab)
    lab.inside("h1", "ping", "-c1", "-W5", "10.9.2.40")
    lab.boot_again()
    until(lambda: _is_set_up(lab), "it is not set up", limit_s=PATIENCE_S)
    lab.file.write_text(lab.file.read_text().replace("10.50.0.0/16", "10.51.0.0/16"))
    lab.ok("apply", lab.file)
    assert "10.9.2.1" in lab.inside("k1", "ip", "route", "show", "10.51.0.0/16")
    assert lab.inside("k1", "ip", "route", "show", "10.50.0.0/16") == ""
    lab.ok("down", lab.name)


def test_kernels_come_and_go_while_the_lab_runs(opavnic: Program) -> None:
    lab = KernelLab(opavnic, LAB.replace(", k1: {{kernel: opa_vnic}}", ""))
    lab.ok("host", "add", "k1", "--vesw", "blue", "{kernel: opa_vnic, exec: [touch /dev/began]}")
    pid = lab.kernel()["pid"]
    lab.ping("h1", "k1")
    assert lab.inside("k1", "ls", "/dev/began")
    lab.ok("vesw", "join", "red", "k1")
    lab.ping("k1", "h1.red", "-M", "do", "-s", "8972")
    lab.ok("vesw", "leave", "blue", "k1")
    lab.ok("vesw", "join", "blue", "k1")
    lab.ping("k1", "h1.blue")
    assert "every agent matches the configuration" in lab.ok("em", "verify")
    assert lab.opavnic.data("check")["ok"]
    lab.ok("host", "remove", "k1")
    assert not Path(f"/proc/{pid}").exists()
    state = lab.status()
    assert state["balance"] == {}
    assert state.get("parts", {}).get("kernels") is None
    lab.ok("host", "add", "k2", "--vesw", "blue", "{kernel: opa_vnic, number: 9}")
    lab.ping("h1", "k2")
    lab.ok("down", lab.name)
