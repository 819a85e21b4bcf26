"""A lab's memory and descriptors stay flat under great numbers of one thing alone: frames, MADs, flaps and so on."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.machine import memory_and_descriptors
from e2e.conftest import Program
from hfi_sim.wire.mad.header import Method
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import LabDir
from opavnic.management.mad_client import MadClient
from opavnic.management.mad_frames import MadMessage, MessageReader
from program import ok
from vema.attributes.attr_id import AttrId
from vema.em.core.messages import build_request

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

PARTS = 20
WARM = PARTS // 4
"""From here on nothing may grow."""
SLACK_KIB = 2048
IN_FLIGHT = 128
PATIENCE_S = 300.0
FLOOD = """
import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind(("10.9.2.1", 0))
for _ in range(int(sys.argv[1])):
    sender.sendto(bytes(200), ("10.9.2.2", 9))
"""


@dataclass
class Soaked:
    """A lab in a process of its own."""

    directory: LabDir
    opavnic: Program

    @property
    def client(self) -> LabClient:
        return LabClient(self.directory.control_socket, PATIENCE_S)

    def status(self) -> dict[str, Any]:
        return dict(self.client.get("/status"))

    def memory(self) -> int:
        """Return the resident memory, in KiB."""
        return self._memory_and_descriptors()[0]

    def settled_descriptors(self) -> int:
        """Return the number of open descriptors without those of connections that are just being closed."""
        return min(self._memory_and_descriptors()[1] for _ in range(20) if self.status())

    def _memory_and_descriptors(self) -> tuple[int, int]:
        journal = self.directory.load()
        return memory_and_descriptors(journal.pid)

    def run(self, *arguments: str) -> str:
        return ok(self.opavnic(*arguments, timeout=PATIENCE_S))


def frames(lab: Soaked, count: int) -> None:
    """Frames of a host that its VNIC has sent: what the kernel drops in front of it does not count."""

    def sent() -> int:
        vnics = [vnic for host in lab.status()["hosts"] for vnic in host["vnics"] if host["name"] == "h1"]
        return int(vnics[0]["tx_packets"])

    end = sent() + count
    while (left := end - sent()) > 0:
        lab.run("exec", "h1", "--", sys.executable, "-c", FLOOD, str(left))


def mads(lab: Soaked, count: int) -> None:
    """Requests of a program on the MAD socket, and their responses."""
    with MadClient(lab.directory.mad_socket) as client:
        lid = client.agents()[0]
    request = MadMessage(lid, build_request(Method.GET, AttrId.CLASS_PORT_INFO).build()).build()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(str(lab.directory.mad_socket))
        reader, asked, answered = MessageReader(), 0, 0
        while 2 * answered < count:
            more = min(IN_FLIGHT - (asked - answered), count // 2 - asked)
            sock.sendall(request * more)
            asked += more
            answered += sum(1 for _ in reader.feed(sock.recv(1 << 18)))


def flaps(lab: Soaked, count: int) -> None:
    """A link that goes down and comes up again, a thousand times a second."""
    told = lab.client.post("/faults", {"fault": f"link-down on h1--sw0 for=500us every=1ms count={count}"})
    number = told["faults"][-1]["number"]
    while not any(
        fault["number"] == number and fault["hits"] >= count for fault in lab.client.get("/faults")["faults"]
    ):
        pass  # the answers take their time; what never ends is ended by the limit of the tests here
    lab.client.post("/faults/remove", {"number": number})


def captures(lab: Soaked, count: int) -> None:
    """Captures of all links that begin, and end at once."""
    for _ in range(count):
        answer = lab.client.open("/capture")
        lab.client.post("/capture/end", {"number": int(answer.headers["Capture-Number"])})
        assert answer.read()
        answer.close()


def calls(lab: Soaked, count: int) -> None:
    """Requests on connections of a hundred each, every tenth for the whole state."""
    for _ in range(count // 100):
        connection = http.client.HTTPConnection("lab")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(str(lab.directory.control_socket))
        for number in range(100):
            connection.request("GET", "/faults" if number % 10 else "/status")
            assert json.loads(connection.getresponse().read())
        connection.close()


Kind = Callable[[Soaked, int], None]
KINDS: dict[Kind, int] = {
    frames: 1_000_000,
    mads: 1_000_000,
    flaps: 100_000,
    captures: 50_000,
    calls: 100_000,
}
"""How many of each."""


@pytest.fixture
def lab(opavnic: Program, tmp_path: Path) -> Soaked:
    name = f"soak{os.getpid()}"
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"name: {name}\nhosts: {{h1: {{}}, h2: {{}}}}\n"
        "vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]\n"
    )
    soaked = Soaked(LabDir(tmp_path / "run" / name), opavnic)
    soaked.run("up", str(file), "-d")
    return soaked


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_memory_and_descriptors_stay_flat_under_many(lab: Soaked, kind: Kind) -> None:
    descriptors = lab.settled_descriptors()
    seen = [lab.memory()]
    for _ in range(PARTS):
        kind(lab, KINDS[kind] // PARTS)
        seen.append(lab.memory())
        print(f"{kind.__name__} {KINDS[kind] * (len(seen) - 1) // PARTS}: {seen[-1]} KiB")
    assert seen[-1] - seen[WARM] <= SLACK_KIB, f"KiB after each twentieth: {seen}"
    assert lab.settled_descriptors() == descriptors
    lab.run("exec", "h1", "--", "ping", "-c", "1", "-w", "30", "10.9.2.2")
