"""`opavnic capture` on a lab with real TAPs: lines, files, and the native datapath before, meanwhile and after."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.utils import PcapNgReader

from e2e.conftest import Program
from hfi_sim.wire.captures import DLT_USER0, read_capture
from opavnic.observe.opa_scapy import OPA16B, OPAEthernet
from processes import child
from unit.opavnic.observe.tshark import Tshark, needs_tshark

LAB = f"c{os.getpid()}"
TEXT = """
name: {name}
hosts: {{h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}}
  - {{id: 3, name: red, subnet: 10.9.3.0/24, members: [h1, h2]}}
"""
ENOUGH = "40"
"""Packets among which there are echoes both ways, however many of their own the kernels of two hosts send before."""


@pytest.fixture(scope="module")
def pinged(opavnic_of_module: Program) -> Iterator[Program]:
    """The program beside a lab in which h1 pings h2 in both virtual switches, all the time, and is answered."""
    opavnic_of_module.up(TEXT.format(name=LAB))
    with pinging(LAB, 2), pinging(LAB, 3):
        yield opavnic_of_module


@contextlib.contextmanager
def pinging(lab: str, vesw: int) -> Iterator[None]:
    """Let h1 ping h2 in a virtual switch; it has been answered."""
    ping = ["ip", "netns", "exec", f"opavnic-{lab}-h1", "ping", "-q", "-i", "0.1", f"10.9.{vesw}.2"]
    subprocess.run([*ping, "-c", "1", "-w", "30"], check=True, capture_output=True)
    with child(ping, stdout=subprocess.DEVNULL):
        yield


def test_capture_writes_what_was_asked_for(pinged: Program, tmp_path: Path) -> None:
    file = tmp_path / "red.pcapng"
    done = pinged("capture", "on", "h1", "vesw=3", "-c", ENOUGH, "-w", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{ENOUGH} packets captured, 0 missed\n")
    with PcapNgReader(str(file)) as reader:
        packets = [OPA16B(bytes(packet)) for packet in reader]
    assert [packet[OPAEthernet].vesw_id for packet in packets] == [3] * int(ENOUGH)
    addresses = {packet[IP].src for packet in packets if ICMP in packet}
    assert addresses == {"10.9.3.1", "10.9.3.2"}
    assert pinged("decode", file).returncode == 0


def test_capture_prints_json_lines_to_a_pipe(pinged: Program) -> None:
    done = pinged("capture", "h2->sw0", "l4=eth", "-c", "3", "--json")
    assert done.returncode == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows.pop() == {"kept": 3, "missed": 0}
    assert len(rows) == 3
    assert {row["link"].split("->")[0] for row in rows} == {"h2:1"}
    assert all(bytes.fromhex(row["packet"])[8] == 0x78 and row["drop"] is None for row in rows)


@needs_tshark
def test_capture_keeps_the_beginning_of_each_packet_for_tshark(pinged: Program, tmp_path: Path) -> None:
    file = tmp_path / "short.pcapng"
    pinged.ok("capture", "on", "h1", "l4=eth", "-c", ENOUGH, "--snap", "64", "-w", file)
    rows = Tshark(tmp_path).columns(file, "frame.cap_len", "frame.len", "frame.interface_name", "opa.slid")
    assert len(rows) == int(ENOUGH)
    assert {int(kept) for kept, *_ in rows} == {64}
    assert all(int(size) > 64 for _, size, *_ in rows)
    assert {name.split("->")[0].split(":")[0] for _, _, name, _ in rows} == {"h1", "sw0"}
    assert all(int(slid, 0) > 0 for *_, slid in rows)


def test_capture_keeps_the_last_files_of_a_ring(pinged: Program, tmp_path: Path) -> None:
    done = pinged(
        *("capture", "--once", "vesw=2", "--size", "1500", "--ring", "2", "-c", "30"),
        *("-w", tmp_path / "last.pcapng", "--json"),
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["kept"], said["missed"]) == (30, 0)
    files = [Path(name) for name in said["files"]]
    assert sorted(tmp_path.glob("last*")) == files
    assert len(files) == 2
    for file in files:
        packets = list(read_capture(file.read_bytes()))
        assert packets
        assert {packet.interface.split("->")[0] for packet in packets} <= {"h1:1", "h2:1"}
        assert file.stat().st_size <= 1500 or file is files[-1]  # the last one has the statistics as well


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_capture_that_is_ended_has_statistics_of_every_link(
    pinged: Program, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "all.pcapng"
    with pinged.started("capture", "-w", file, "--json", stdout=-1, stderr=-1) as capture:
        while not (file.exists() and list(whole_blocks(file, 6))):
            assert capture.poll() is None
            pinged("status")  # takes a while
        capture.send_signal(number)
        out, said = capture.communicate(timeout=60)
    assert capture.returncode == 0, said
    kept = json.loads(out)["kept"]
    assert kept == len(list(whole_blocks(file, 6)))
    assert said == f"{kept} packets captured, 0 missed\n"
    links = [block for block in whole_blocks(file, 1) if struct.unpack_from("<H", block, 8)[0] == DLT_USER0]
    assert links  # each has an interface for 9B packets, too; its figures are with that of 16B packets
    assert len(list(whole_blocks(file, 5))) == len(links)


def whole_blocks(file: Path, wanted: int) -> Iterator[bytes]:
    """Yield the blocks of a kind in a pcapng file that grows."""
    data = file.read_bytes()
    while len(data) >= 8:
        kind, size = struct.unpack_from("<II", data)
        if kind == wanted and len(data) >= size:
            yield data[:size]
        data = data[size:]


def test_capture_ends_with_the_lab_and_says_so(opavnic: Program) -> None:
    lab = f"{LAB}-ends"
    opavnic.up(TEXT.format(name=lab))
    with pinging(lab, 2), opavnic.started("capture", "--json", stdout=-1, stderr=-1) as capture:
        assert capture.stdout.readline()
        opavnic.ok("down", lab)
        _, said = capture.communicate(timeout=60)
    assert capture.returncode == 0
    assert said.endswith("packets captured, 0 missed; the lab has ended\n")


def test_capture_of_nothing_that_is_there_is_refused_in_one_line(pinged: Program) -> None:
    for arguments, code, reason in (
        (["on", "h9"], 2, 'unknown link, port or node "h9"'),
        (["on"], 2, "on which link, port or node?"),
        (["vsw=2"], 2, 'unknown match "vsw"'),
        (["--json", "-w", "-"], 2, "cannot be combined"),
        (["--snap", "64"], 2, "--snap is for files; give -w FILE as well"),
        (["--ring", "2", "-w", "x"], 2, "--ring needs --size"),
        (["--size", "1M", "-w", "-"], 2, "--size is for files"),
        (["--size", "0", "-w", "x"], 2, "is not a size above 0"),
        (["--snap", "1M", "-w", "-"], 2, "snap is 1048576; it is 1 to 256K bytes"),
        (["--once", "on", "sw0->h1"], 2, "no packet enters the fabric"),
        (["-c", "0"], 2, "greater than or equal to 1"),
        (["-w", "/nowhere/x.pcapng"], 1, "/nowhere/x.pcapng: No such file or directory"),
        (["--lab", "other"], 1, 'lab "other" is not running'),
    ):
        done = pinged("capture", *arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
        assert reason in done.stderr
