"""Two hosts that a benchmark measures between, and the network namespaces that it makes for them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from opavnic.lab.ownership.process import process_start_time
from opavnic_bench.base.turns import PeerError

PREFIX: Final = "opavnic-bench-"
"""Prefix of the names of all namespaces of the benchmarks."""
SUBNET: Final = "10.99.7"
"""What the addresses of hosts begin with."""
_MARK: Final = "opavnic bench"
"""What the alias of the loopback in a namespace of a benchmark begins with; pid and start of its process follow. The
name alone proves nothing: any program can use it."""
_READY_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class HostPair:
    """Two hosts that can reach each other."""

    client: str
    """Namespace of the host that sends."""
    server: str
    address: str
    """IPv4 address of the server."""
    pids: tuple[int, ...] = ()
    """The processes that carry the frames, if any do."""


def run(
    *command: str,
    check: bool = True,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> str:
    """Run a program to completion and return its output. Raises PeerError if it fails.

    Args:  text: what it reads on its standard input. env: its environment; default: that of this process.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=env,
        )
    except OSError as error:
        raise PeerError(f"{command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise PeerError(f"{' '.join(command)}: did not end within {timeout_s:g} s") from None
    if check and done.returncode:
        raise PeerError(f"{' '.join(command)}: {' '.join((done.stderr or done.stdout).split())[:300]}")
    return done.stdout


def remove_namespaces() -> list[str]:
    """Remove all namespaces of benchmarks that live no more, and the programs in them; return the names."""
    found = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.startswith(PREFIX)]
    names = [name for name in found if _is_left(name)]
    for name in names:
        for pid in run("ip", "netns", "pids", name, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        run("ip", "netns", "del", name, check=False)
    return names


def _is_left(name: str) -> bool:
    shown = run("ip", "-n", name, "-json", "link", "show", "dev", "lo", check=False)
    mark, _, process = (json.loads(shown)[0].get("ifalias", "") if shown else "").partition(": ")
    return mark == _MARK and process not in _processes(process.partition(" ")[0])


def _processes(pid: str) -> tuple[str, ...]:
    """Return the process that has this pid now, as marks name it; none if there is none."""
    started = process_start_time(int(pid)) if pid.isdecimal() else None
    return () if started is None else (f"{pid} {started}",)


@contextlib.contextmanager
def bench_namespaces(*roles: str) -> Iterator[list[str]]:
    """Create a namespace for each role and yield their names; remove them at the end.

    The names carry this process's pid: what another run holds, or left when it was killed, is not in the way. What was
    left is removed first.

    Raises:  PeerError: one cannot be made, or its name is taken.
    """
    remove_namespaces()
    with contextlib.ExitStack() as stack:
        names = [f"{PREFIX}{os.getpid()}-{role}" for role in roles]
        (process,) = _processes(str(os.getpid()))
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name, check=False)
            run("ip", "-n", name, "link", "set", "dev", "lo", "alias", f"{_MARK}: {process}", "up")
        yield names


def give_address(namespace: str, device: str, host: int, mtu: int) -> str:
    """Bring a device up with an MTU and the address of the host of this number; return the address."""
    run("ip", "-n", namespace, "link", "set", "dev", device, "mtu", str(mtu))
    run("ip", "-n", namespace, "address", "add", f"{SUBNET}.{host}/24", "dev", device)
    run("ip", "-n", namespace, "link", "set", "dev", device, "up")
    return f"{SUBNET}.{host}"


def until(
    condition: Callable[[], bool], otherwise: str, *, pause_s: float = 0.1, limit_s: float = _READY_S
) -> None:
    """Wait until a condition outside this process is true; raise PeerError after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise PeerError(otherwise)
        time.sleep(pause_s)
