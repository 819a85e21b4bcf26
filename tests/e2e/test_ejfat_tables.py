"""The script and the packets of the document against `ejfat lb --tables`, live, and the script changed meanwhile."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ejfat.files.simulator import read_pcap
from processes import child

pytestmark = pytest.mark.timeout(120)
VECTORS = Path(__file__).parents[1] / "vectors" / "ejfat"
WAIT_S = 20.0


def line_with(stream: object, text: str) -> str:
    for line in stream:  # type: ignore[attr-defined]
        if text in line:
            return str(line)
    raise AssertionError(f"the program ended before it said {text!r}")


def exchange(sock: socket.socket, frames: list[bytes]) -> list[bytes]:
    """Send frames to the load balancer; return what it sends back, one for each."""
    back = []
    for frame in frames:
        sock.send(frame)
        while select.select([sock], [], [], WAIT_S)[0]:
            data, address = sock.recvfrom(65535)
            if address[2] != socket.PACKET_OUTGOING:
                back.append(data)
                break
    return back


@pytest.mark.parametrize("pipeline", ["python", "native"])
def test_script_and_packets_of_the_document_and_a_change_while_it_runs(tmp_path: Path, pipeline: str) -> None:
    text = (VECTORS / "seed_tables.txt").read_text()
    script, tap = tmp_path / "tables.txt", f"ejt{os.getpid() % 100000}"
    script.write_text(text)
    sent, expected = (
        [one.data for one in read_pcap(VECTORS / f"seed_{name}.pcap")] for name in ("in", "out")
    )
    command = [sys.executable, "-m", "opavnic.cli.main", "ejfat", "lb", "--tap", tap]
    command += ["--tables", str(script), "--pipeline", pipeline]
    with child(command, stderr=subprocess.PIPE) as program:
        line_with(program.stderr, "ready")
        subprocess.run(["ip", "link", "set", tap, "up"], check=True)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
            sock.bind((tap, 0))
            assert exchange(sock, sent) == expected
            script.write_text(text.replace(*port_of(text)))
            line_with(program.stderr, "was read again")
            changed = exchange(sock, sent)
            assert changed != expected
            assert [len(frame) for frame in changed] == [len(frame) for frame in expected]
            script.write_text("table_add nonsense")
            assert "the tables stay as they were" in line_with(program.stderr, "tables stay")
            assert exchange(sock, sent) == changed
        program.send_signal(signal.SIGINT)
        assert "0 not accepted" in line_with(program.stderr, "frames in")


def port_of(text: str) -> tuple[str, str]:
    """Return the UDP port of the document's members, and another one."""
    words = text.replace("\n", " ").split()
    at = words.index("do_ipv4_member_rewrite")
    port = words[words.index("=>", at) + 3]
    return port, hex(int(port, 0) ^ 1)
