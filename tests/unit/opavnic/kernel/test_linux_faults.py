"""Faults of Linux's hfi1 that VNICs meet, each reproduced on the virtual HFI: docs/reference/linux-faults.md.

Where a kernel is free of one, its test fails: then the page is wrong. `OPAVNIC_KERNEL=NAME`: another kernel.
`OPAVNIC_MENDED=NAME`: one of a tree that was mended, with which a VNIC on hfi1 does all.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Iterator

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.packet import build_packet
from opavnic.conformance.asked_hfi import LID, SWITCH_LID
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.kernel.drivers import HFI1
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
AWAIT_RX = """import pathlib, sys, time
path, end = pathlib.Path("/sys/class/net/veth0/statistics/rx_packets"), time.monotonic() + 10
while path.read_text().strip() != "3" and time.monotonic() < end: time.sleep(0.01)
print(path.read_text(), end="")
"""


def _said(hfi: Hfi1, *command: str) -> str:
    done = hfi.process.run(command, timeout_s=30.0, take=lambda _frame: None)
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


@pytest.mark.skipif(
    "OPAVNIC_MENDED" not in os.environ,
    reason="needs a kernel of a mended tree: docs/reference/linux-faults.md",
)
def test_a_vnic_of_a_mended_tree_is_made_without_ipoib_and_receives() -> None:
    with hfi1(os.environ["OPAVNIC_MENDED"], "k1") as hfi:
        activate(hfi)
        _said(hfi, "rmmod", "ib_ipoib")
        assert _make_vnic(hfi) is not None
        _said(hfi, "ip", "link", "set", "veth0", "up")
        _send_frames(hfi)
        assert _said(hfi, sys.executable, "-ISc", AWAIT_RX) == "3\n"
        for state in ("down", "up"):
            _said(hfi, "ip", "link", "set", "veth0", state)
        assert hfi.process.ended_with == "it runs"
