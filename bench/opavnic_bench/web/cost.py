"""Processor time that an open web view takes: of the lab, of `opavnic web`, of the browser, for each second of looking.

Unlike the ratio of two throughputs it does not depend on what else the machine does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from opavnic_bench.base.processes import PPID, process_stat, processor_s

SETTLE_S: Final = 3.0
"""What a page does to come up is over after this long."""


def main_thread_s(pid: int) -> float:
    """Return the processor time that the main thread of a process has taken so far, exactly."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def descendants(pid: int, name: str) -> list[int]:
    """Return the processes below `pid` whose program begins with `name`, and what they have started."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := process_stat(int(entry.name))):
            children.setdefault(int(fields[PPID]), []).append(int(entry.name))
            with contextlib.suppress(OSError):
                names[int(entry.name)] = (entry / "comm").read_text()
    below, found = [pid], []
    while below:
        for child in children.get(below.pop(), ()):
            below.append(child)
            if names.get(child, "").startswith(name):
                found.append(child)
    return found


def serving(pid: int) -> list[int]:
    """Return the processes below `pid` that are `opavnic web`."""
    found = []
    for child in descendants(pid, ""):
        with contextlib.suppress(OSError):
            if b"\0web\0" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def spent_so_far(pids: Mapping[str, list[int]]) -> dict[str, float]:
    """Return the processor time that each group of processes has taken so far, in seconds."""
    return {name: sum(map(processor_s, group)) for name, group in pids.items()}


def spent_while(seconds: float, pids: Mapping[str, list[int]]) -> dict[str, float]:
    """Wait, and return what each group of processes took of a processor meanwhile, in seconds per second."""
    before, start = spent_so_far(pids), time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - start
    return {name: round((spent - before[name]) / took, 4) for name, spent in spent_so_far(pids).items()}
