"""Faults of Linux's hfi1 that VNICs meet, each reproduced on the virtual HFI: docs/reference/linux-faults.md.

Where a kernel is free of one, its test fails: then the page is wrong. `OPAVNIC_KERNEL=NAME`: another kernel.
`OPAVNIC_MENDED=NAME`: one of a tree that was mended, with which a VNIC on hfi1 does all.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.packet import build_packet
from opavnic.conformance.asked_hfi import LID, SWITCH_LID
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.kernel.cache import find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic.kernel.process import KernelProcess
from opavnic.kernel.wire import WireKind, build_frame
from permission import require_kernel
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState
from vema.em.core.messages import build_request

pytestmark = pytest.mark.slow
KERNEL = os.environ.get("OPAVNIC_KERNEL", "")
VESW = 2
INFO = VeswPortInfo(
    vesw_id=VESW,
    pkey=0xFFFF,
    eth_mtu=1500,
    vesw_port_num=1,
    base_mac=MacAddr(bytes.fromhex("020000000001")),
    config_state=ConfigState.FORWARDING,
)
FRAME = b"\xff" * 6 + bytes.fromhex("020000000002") + b"\x08\x06" + bytes(46)
AWAIT = """import pathlib, sys, time
path, end = pathlib.Path("/sys/class/net/veth0") / sys.argv[1], time.monotonic() + 30
while path.read_text().strip() != sys.argv[2] and time.monotonic() < end: time.sleep(0.01)
print(path.read_text(), end="")
"""
SMPS = Path(__file__).parents[3] / "hfi_smps.py"


def _said(hfi: Hfi1, *command: str) -> str:
    return _said_in(hfi.process, *command)


def _said_in(process: KernelProcess, *command: str) -> str:
    done = process.run(command, timeout_s=60.0, take=lambda _frame: None)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout.decode()


def _make_vnic(hfi: Hfi1) -> bytes | None:
    """Let the agent make a VNIC; return its answer."""
    return hfi.request(
        hfi.lid, build_request(Method.SET, AttrId.VESW_PORT_INFO, INFO.build(), attr_mod=1, tid=1).build()
    )


def _send_frames(hfi: Hfi1) -> None:
    """Send three frames to the VNIC."""
    lrh = Lrh16B(SWITCH_LID, LID, l4=L4.ETHERNET, pkey=0xFFFF, entropy=1)
    packet = build_packet(lrh, bytes([0, 0, VESW, 0]) + FRAME, hfi.icrc)
    for _ in range(3):
        hfi.process.send(build_frame(WireKind.PACKET, packet))


def _end_of(hfi: Hfi1) -> str:
    """Send frames to the VNIC until the kernel has ended, or for some seconds; return what it has printed."""
    said, end = b"", time.monotonic() + 10
    while time.monotonic() < end and hfi.process.ended_with == "it runs":
        _send_frames(hfi)
        select.select([hfi.process.console], [], [], 0.2)
        said += hfi.process.read_console() or b""
    while read := hfi.process.read_console():
        said += read
    return said.decode(errors="replace")


@pytest.fixture
def hfi() -> Iterator[Hfi1]:
    """Start a kernel whose port is ACTIVE."""
    require_kernel(KERNEL, HFI1)
    with hfi1(KERNEL, "k1") as started:
        activate(started)
        yield started


def test_the_first_vnic_without_ipoib_hangs_the_agent(hfi: Hfi1) -> None:
    _said(hfi, "rmmod", "ib_ipoib")
    assert _make_vnic(hfi) is None
    question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=2).build()
    assert hfi.request(hfi.lid, question) is None, "and no agent of queue pair 1 answers any more"
    assert "veth0" not in _said(hfi, "ls", "/sys/class/net")


def test_a_vnic_receives_nothing_while_ipoib_is_down(hfi: Hfi1) -> None:
    assert _make_vnic(hfi) is not None
    _said(hfi, "ip", "link", "set", "veth0", "up")
    _send_frames(hfi)
    question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=2).build()
    assert hfi.request(hfi.lid, question) is not None, "what was sent behind the frames has arrived"
    names = [f"/sys/class/net/veth0/statistics/rx_{name}" for name in ("packets", "dropped", "errors")]
    assert _said(hfi, "cat", *names) == "0\n0\n0\n"


def test_the_first_frame_that_a_vnic_receives_ends_the_kernel(hfi: Hfi1) -> None:
    _said(hfi, "ip", "link", "set", "ib0", "up")
    assert _make_vnic(hfi) is not None
    _said(hfi, "ip", "link", "set", "veth0", "up")
    said = _end_of(hfi)
    if hfi.process.ended_with == "it runs":
        question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=2).build()
        assert hfi.request(hfi.lid, question) is None, "it hangs, as 6.12 may"
    else:
        assert hfi.process.ended_with == "killed by signal 6"
        assert re.search(r"dev_gro_receive|napi", said)


RESET = "for file in /sys/bus/pci/devices/*/reset; do echo 1 > $file; done"
REMOVE = """rmmod ib_ipoib >/dev/null 2>&1 & left=150
while [ -e /sys/module/ib_ipoib ] && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
[ -e /sys/module/ib_ipoib ] && echo waits || echo gone
"""


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_removal_waits_for_what_was_sent_behind_a_reset_below_the_driver(hfi: Hfi1, is_reset: bool) -> None:
    _said(hfi, "ip", "link", "set", "ib0", "up")
    question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=1).build()
    assert hfi.request(hfi.lid, question) is not None
    if is_reset:
        _said(hfi, "sh", "-c", RESET)
        assert hfi.request(hfi.lid, question) is None, "engines and contexts stand still"
    assert _said(hfi, "sh", "-c", REMOVE) == ("waits\n" if is_reset else "gone\n")


needs_mended = pytest.mark.skipif(
    "OPAVNIC_MENDED" not in os.environ,
    reason="needs a kernel of a mended tree: docs/reference/linux-faults.md",
)


def _await(process: KernelProcess, file: str, value: str) -> None:
    """Wait until a file of a VNIC says something."""
    assert _said_in(process, sys.executable, "-ISc", AWAIT, file, value) == f"{value}\n"


@needs_mended
def test_a_vnic_of_a_mended_tree_is_made_without_ipoib_and_receives() -> None:
    with hfi1(os.environ["OPAVNIC_MENDED"], "k1") as hfi:
        activate(hfi)
        _said(hfi, "rmmod", "ib_ipoib")
        assert _make_vnic(hfi) is not None
        for count in ("3", "6"):
            _said(hfi, "ip", "link", "set", "veth0", "up")
            _await(hfi.process, "operstate", "up")
            _send_frames(hfi)
            _await(hfi.process, "statistics/rx_packets", count)
            _said(hfi, "ip", "link", "set", "veth0", "down")
        assert hfi.process.ended_with == "it runs"


@needs_mended
def test_vnics_of_two_hfi1_of_a_mended_tree_reach_each_other() -> None:
    kernel = find_kernel(os.environ["OPAVNIC_MENDED"], HFI1)
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    k1, k2 = (
        KernelProcess(kernel, f"k{number}", driver=HFI1, cable=end, guids=[0x0011750101000000 + number])
        for number, end in enumerate(ends, start=1)
    )
    program = [sys.executable, str(SMPS)]
    port = "/sys/class/infiniband/hfi1_0/ports/1/state"
    with k1, k2:
        for process in (k1, k2):
            process.await_ready()
            _said_in(process, "sh", "-c", f"until grep -q INIT {port}; do sleep 0.01; done")
        assert _said_in(k1, *program, "activate") == "0: state 4, lid 1\n1: state 4, lid 2\n"
        for lid, process in enumerate((k1, k2), start=1):
            _said_in(k1, *program, "vnic", str(lid))
            _said_in(process, "sh", "-c", f"ip addr add 10.9.2.{lid}/24 dev veth0; ip link set veth0 up")
        for process in (k1, k2):
            _await(process, "operstate", "up")
        for process, other in ((k1, "10.9.2.2"), (k2, "10.9.2.1")):
            for size in ("56", "1472"):
                said = _said_in(process, "ping", "-q", "-c", "3", "-w", "30", "-M", "do", "-s", size, other)
                assert " 0% packet loss" in said
        for process in (k1, k2):
            assert not re.search(r"WARNING: (?!.*virt-pci)|BUG|Oops", _said_in(process, "dmesg"))
