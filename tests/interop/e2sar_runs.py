"""E2SAR's programs on the stations of a network, and the files that they carry."""

from __future__ import annotations

import hashlib
from pathlib import Path

from interop.network import Network, Program, address
from interop.peers import e2sar

from ejfat.events.uri import EjfatUri

PORT = 10000
FILES, SIZE = 60, 100_000
TIMEOUT_MS = 9_000
"""For an event. E2SAR's own, 500 ms, is less than what a busy machine keeps a process waiting; it allows 10 s."""


def lbadm(wire: Network, uri: str, *words: str, check: bool = True) -> str:
    """Run lbadm at the source, and return what it said. Args: check: it must go well; if not, it must fail."""
    done = wire.run("src", e2sar("lbadm"), "-u", uri, *words, check=check)
    assert check or done.returncode != 0, f"{words} went well: {done.stdout}"
    return done.stdout + done.stderr


def receive_files(
    wire: Network, uri: str, station: str, directory: Path, *, family: int = 4, port: int = PORT
) -> Program:
    """Start a worker of E2SAR that writes each event to a file of a directory."""
    directory.mkdir()
    return wire.start(
        station, e2sar("e2sar_ft"), "-r", "-u", uri, "--withcp", "--ip", address(wire.numbers[station], family),
        "--port", str(port), "-p", str(directory), "--timeout", str(TIMEOUT_MS),
    )  # fmt: skip


def ask_for_mac(wire: Network, target: object) -> None:
    """Have the source's kernel learn a MAC address: until it knows it, it keeps ninety packets and drops others."""
    wire.run("src", "ping", "-c", "1", "-w", "30", str(target))


def send_files(wire: Network, uri: str, directory: Path) -> None:
    """Send each file of a directory as an event.

    E2SAR takes itself off the senders about a second after it has read them, and what comes later is a stranger's.
    """
    ask_for_mac(wire, EjfatUri.parse(uri).data[0].ip)
    send = ["-s", "-u", uri, "--withcp", "--ip", address(wire.numbers["src"]), "--rate", "0.2"]
    wire.run("src", e2sar("e2sar_ft"), *send, "-p", str(directory))


def make_files(directory: Path) -> list[str]:
    """Make files, and return their digests."""
    directory.mkdir()
    digests = []
    for number in range(FILES):
        data = hashlib.shake_128(b"%d" % number).digest(SIZE + number)
        (directory / str(number)).write_bytes(data)
        digests.append(digest(data))
    return digests


def arrived(*directories: Path) -> list[str] | None:
    """Return the digests of all files that workers have written, once there are enough."""
    # the names of unfinished files begin with a dot
    files = [path for directory in directories for path in directory.glob("e2sar_out*")]
    return [digest(path.read_bytes()) for path in files] if len(files) >= FILES else None


def digest(data: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(data).hexdigest()
