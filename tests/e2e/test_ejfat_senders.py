"""`opavnic ejfat send` and `recv` on a link of the kernel's: what its queues drop, and what is said of it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import pytest

from e2e.ejfat_commands import start_ejfat
from e2e.places import inside, ip, namespaces, veth
from opavnic_bench.base.sites import until

SENDER, RECEIVER = "10.7.0.1", "10.7.0.2"
SIZE = 300_000

pytestmark = pytest.mark.timeout(120)


@dataclass
class Link:
    """Two namespaces with a link between them; `eth0` on both sides."""

    sender: str
    receiver: str

    def recv(self, *options: str, listen: str = f"{RECEIVER}:19522") -> subprocess.Popen[str]:
        """Start a receiver, which has bound its port when this returns."""
        command = ["recv", "--listen", listen, "--json", *options]
        process = start_ejfat(self.receiver, *command, stdout=PIPE, stderr=PIPE)
        assert "receiving" in process.stderr.readline()
        return process

    def send(self, file: Path, *options: str) -> subprocess.Popen[str]:
        """Start to send a file to the receiver, in events of `SIZE` / 3 bytes."""
        command = ["send", "--to", RECEIVER, "--event-size", str(SIZE // 3), *options, file]
        return start_ejfat(self.sender, *command, stdout=PIPE, stderr=PIPE)


def waiting(pid: int) -> int:
    """Return how many bytes wait in the UDP sockets of the namespace in which a process is."""
    rows = Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]
    return sum(int(row.split()[4].partition(":")[2], 16) for row in rows)


@pytest.fixture
def link() -> Iterator[Link]:
    """A link between two namespaces."""
    with namespaces("src", "dst") as (sender, receiver):
        veth(sender, "eth0", receiver)
        for netns, address in ((sender, SENDER), (receiver, RECEIVER)):
            ip("address", "add", f"{address}/24", "dev", "eth0", netns=netns)
            ip("link", "set", "eth0", "up", netns=netns)
        yield Link(sender, receiver)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of three events."""
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(SIZE))
    return file


def test_events_sent_before_the_next_hop_answers_arp_arrive_whole(link: Link, data: Path) -> None:
    """The kernel keeps fewer packets than that for a neighbor whose MAC address it is asking for."""
    ip("link", "set", "eth0", "arp", "off", netns=link.receiver)
    # as often as it takes: three times in a row would be over in three seconds
    asks = "echo 60 > /proc/sys/net/ipv4/neigh/eth0/mcast_solicit"
    assert inside(link.sender, "sh", "-c", asks).returncode == 0
    receiver = link.recv("--count", "3")
    try:
        with link.send(data) as sender:
            until(lambda: RECEIVER in ip("neighbor", netns=link.sender), "it never asks", limit_s=30)
            # which answers the next question, a second later
            ip("link", "set", "eth0", "arp", "on", netns=link.receiver)
            assert sender.wait(30) == 0
        said, errors = receiver.communicate(timeout=60)
    finally:
        receiver.kill()
    counters = json.loads(said)
    assert (counters["events_complete"], counters["events_lost"], errors) == (3, 0, errors)


def test_packets_for_which_the_receivers_socket_has_no_room_are_counted(link: Link, tmp_path: Path) -> None:
    """Every packet that was sent has arrived or is missed: 30 MB while nobody reads."""
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(30_000_000))
    with link.recv() as receiver:
        receiver.send_signal(signal.SIGSTOP)
        sent, _ = link.send(file, "--json").communicate(timeout=60)
        receiver.send_signal(signal.SIGCONT)
        until(lambda: not waiting(receiver.pid), "not all is read", limit_s=30)
        receiver.send_signal(signal.SIGINT)
        said, _ = receiver.communicate(timeout=60)
    counters = json.loads(said)
    assert counters["missed"] > 0
    assert counters["packets"] + counters["missed"] == json.loads(sent)["packets"]
