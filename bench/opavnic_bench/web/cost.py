"""Processor time that an open web view takes: of the lab, of `opavnic web`, of the browser, for each second of looking.

Unlike the ratio of two throughputs it does not depend on what else the machine does.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_UTIME, _STIME, _PPID = 11, 12, 1
"""Fields of /proc/PID/stat, counted from the state, which follows the name in parentheses."""
SETTLE_S: Final = 3.0
"""What a page does to come up is over after this long."""


def processor_s(pid: int) -> float:
    """Return the processor time that all threads of a process have taken so far, to 10 ms; 0 if it is gone."""
    fields = _stat(pid)
    ticks = int(fields[_UTIME]) + int(fields[_STIME]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def main_thread_s(pid: int) -> float:
    """Return the processor time that the main thread of a process has taken so far, exactly."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def descendants(pid: int, name: str) -> list[int]:
    """Return the processes below `pid` whose program begins with `name`, and what they have started."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[_PPID]), []).append(int(entry.name))
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


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ProcessLookupError):
        return []
