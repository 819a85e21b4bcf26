"""A switch with stations, each a namespace of its own, on which real programs meet the load balancer."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from e2e.places import bridge, inside, ip, namespaces, veth
from processes import child

T = TypeVar("T")
OPAVNIC = [sys.executable, "-m", "opavnic.cli.main"]
CONTROL_PORT = 18008
ADMIN = "interop-admin"
PATIENCE_S = 60
MTU = 9000
"""As sites of EJFAT have it; ESnet's doctor needs more than 1500 over IPv6: it sizes packets for an IPv4 header."""


def address(number: int, version: int = 4) -> str:
    """Return the address of a station. Args: number: its own, 1 to 250."""
    return f"10.7.0.{number}" if version == 4 else f"fd07::{number}"


@dataclass
class Program:
    """A program that runs in a namespace, its output in a file."""

    process: subprocess.Popen[str]
    output: Path

    def said(self) -> str:
        """Return what it has said until now, stdout and stderr."""
        return self.output.read_text(errors="replace")

    def expect(self, words: str) -> str:
        """Wait until it says so, and return what it has said. Raises: AssertionError: it ended before."""

        def look() -> str | None:
            ended = self.process.poll() is not None
            said = self.said()
            if words in said:
                return said
            assert not ended, f"{self.process.args} ended with {self.process.returncode}: {said}"
            return None

        return until(look, f"{words!r} in {self.output}")

    def end(self, *, patience_s: float = 30) -> str:
        """Ask it to end (SIGINT), wait for that, and return what it has said."""
        self.process.send_signal(2)
        self.process.wait(patience_s)
        return self.said()


def until(look: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Look until there is something, and return it. Raises: AssertionError: never, in the time given."""
    end = time.monotonic() + patience_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not in {patience_s} s: {what}")
        time.sleep(0.05)


@dataclass
class Network:
    """A switch, and stations connected to it: the names of their namespaces by their own names."""

    directory: Path
    switch: str
    stations: dict[str, str]
    numbers: dict[str, int]
    _ended: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def run(
        self, station: str, *command: str, timeout_s: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a station until it ends. Raises: AssertionError: it failed, unless `check` is off."""
        done = inside(self.stations[station], *command, timeout_s=timeout_s)
        assert not check or done.returncode == 0, (
            f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, station: str, *command: str, **environment: str) -> Program:
        """Start a program on a station, with further variables in its environment."""
        output = (
            self.directory / f"{station}-{Path(command[0]).name}-{len(list(self.directory.iterdir()))}.out"
        )
        with output.open("w") as file:
            process = self._ended.enter_context(
                child(
                    ["ip", "netns", "exec", self.stations[station], *command],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                )
            )
        return Program(process, output)

    def overflowed(self, station: str) -> int:
        """Return how many datagrams the sockets of a station had no room for, over both IP versions."""
        said = self.run(station, "nstat", "-asz", "UdpRcvbufErrors", "Udp6RcvbufErrors").stdout
        return sum(int(line.split()[1]) for line in said.splitlines() if "RcvbufErrors" in line)

    def balancer(self, station: str, *options: str) -> Program:
        """Start `opavnic ejfat lb` on a station's interface, and wait until it is ready."""
        program = self.start(
            station, *OPAVNIC, "ejfat", "lb", "--interface", "eth0", *options, EJFAT_ADMIN_TOKEN=ADMIN
        )  # fmt: skip
        program.expect("ready")
        return program

    def close(self) -> None:
        """End all programs."""
        self._ended.close()


@contextlib.contextmanager
def network(directory: Path, **numbers: int) -> Iterator[Network]:
    """A switch with stations for as long as the context lasts. Args: numbers: of the stations, by their names."""
    directory.mkdir()
    with namespaces("switch", *numbers) as (switch, *names):
        bridge(switch, "br0")
        for name, number in zip(names, numbers.values(), strict=True):
            # addresses are usable at once, without a second of duplicate address detection
            inside(name, "sh", "-c", "for f in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 > $f; done")
            veth(switch, f"port{number}", name)
            for version, length in ((4, 24), (6, 64)):
                ip("address", "add", f"{address(number, version)}/{length}", "dev", "eth0", netns=name)
            ip("link", "set", "eth0", "mtu", str(MTU), netns=name)
            ip("link", "set", f"port{number}", "mtu", str(MTU), netns=switch)
            for link in ("lo", "eth0"):
                ip("link", "set", link, "up", netns=name)
            ip("link", "set", f"port{number}", "master", "br0", netns=switch)
            ip("link", "set", f"port{number}", "up", netns=switch)
        made = Network(directory, switch, dict(zip(numbers, names, strict=True)), numbers)
        try:
            yield made
        finally:
            made.close()


def exported(output: str) -> str:
    """Return the URI of a line `export EJFAT_URI='...'`, as E2SAR's and ESnet's programs print it."""
    line = next(line for line in output.splitlines() if "EJFAT_URI=" in line)
    return line.partition("EJFAT_URI=")[2].strip("'\"")
