"""Network namespaces that tests make themselves and put into labs, and programs in them."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from opavnic.lab.ownership.namespaces import NETNS_DIR

_numbers = itertools.count()


def ip(*words: str, netns: str | None = None) -> str:
    """Run ip(8), in a namespace if one is named."""
    command = ["ip", *(["-n", netns] if netns else []), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def inside(netns: str, *command: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program in a namespace."""
    words = ["ip", "netns", "exec", netns, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextlib.contextmanager
def namespaces(*names: str) -> Iterator[list[str]]:
    """Namespaces with names of their own, which exist as long as the context lasts."""
    made = [f"t{os.getpid()}-{next(_numbers)}-{name}" for name in names]
    try:
        for name in made:
            ip("netns", "add", name)
        yield made
    finally:
        for name in made:
            if (NETNS_DIR / name).exists():
                ip("netns", "delete", name)


def bridge(netns: str, name: str) -> None:
    """Make a bridge in a namespace."""
    ip("link", "add", name, "type", "bridge", netns=netns)
    ip("link", "set", name, "up", netns=netns)


def veth(here: str, name: str, there: str, its_name: str = "eth0") -> None:
    """Make a pair of interfaces, one in each of two namespaces."""
    ip("link", "add", name, "type", "veth", "peer", "name", its_name, "netns", there, netns=here)


def station(netns: str, behind: str, bridge_name: str, *, mac: str, address: str) -> None:
    """Connect a namespace to a bridge in another one, by a pair of interfaces: `eth0` there."""
    veth(behind, "port0", netns)
    ip("link", "set", "eth0", "address", mac, netns=netns)
    ip("address", "add", address, "dev", "eth0", netns=netns)
    for command in ("lo", "eth0"):
        ip("link", "set", command, "up", netns=netns)
    plug(behind, bridge_name)


def plug(netns: str, bridge_name: str) -> None:
    """Make port0 in a namespace a port of a bridge there."""
    ip("link", "set", "port0", "master", bridge_name, netns=netns)
    ip("link", "set", "port0", "up", netns=netns)


def interfaces(netns: str) -> set[str]:
    """Return the names of the interfaces in a namespace."""
    return {line.split()[0].partition("@")[0] for line in ip("-br", "link", netns=netns).splitlines()}


def killed(journal: Path) -> None:
    """Kill the process of a lab with SIGKILL, and wait until it is gone."""
    import json
    import select
    import signal

    pid = int(json.loads(journal.read_text())["pid"])
    fd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(30_000)
    finally:
        os.close(fd)
