"""The floor that the kernel sets: so many network namespaces with a veth each, made by `ip -batch` and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from opavnic_bench.base.processes import children_s
from opavnic_bench.base.sites import PREFIX, bench_namespaces, run

LIMIT_S = 600.0
"""For one batch."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What some programs took."""

    seconds: float
    processor_s: float
    """Of the programs; what the kernel does later in threads of its own is not in it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor for one number of hosts."""

    made: Spent
    removed: Spent


def measure_floor(hosts: int) -> Floor:
    """Make and remove so many namespaces, each with one end of a veth; the other ends are in one that is not counted.

    Raises:  PeerError: `ip` failed.
    """
    names = [f"{PREFIX}{os.getpid()}-{number}" for number in range(hosts)]
    with bench_namespaces("hub") as (hub,):
        try:
            start, before = time.perf_counter(), children_s()
            run("ip", "-batch", "-", text=_lines(f"netns add {name}" for name in names), timeout_s=LIMIT_S)
            veths = (
                f"link add v{number} up type veth peer name net netns {name}"
                for number, name in enumerate(names)
            )
            run("ip", "-n", hub, "-batch", "-", text=_lines(veths), timeout_s=LIMIT_S)
            made = _since(start, before)
        finally:
            start, before = time.perf_counter(), children_s()
            gone = _lines(f"netns del {name}" for name in names)
            run("ip", "-force", "-batch", "-", text=gone, check=False, timeout_s=LIMIT_S)
        return Floor(made, _since(start, before))


def _lines(commands: Iterable[str]) -> str:
    return "".join(f"{command}\n" for command in commands)


def _since(start: float, before: float) -> Spent:
    return Spent(time.perf_counter() - start, children_s() - before)
