"""What processes have taken so far: processor time and memory."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path
from typing import Final

_UTIME, _STIME, PPID = 11, 12, 1
"""Fields of /proc/PID/stat, counted from the state, which follows the name in parentheses."""
_KIB: Final = 1024


def processor_s(pid: int) -> float:
    """Return the processor time that all threads of a process have taken so far, to 10 ms; 0 if it is gone."""
    fields = process_stat(pid)
    ticks = int(fields[_UTIME]) + int(fields[_STIME]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def children_s() -> float:
    """Return the processor seconds of all programs that this process has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mib(pid: int) -> float:
    """Return the most memory that a process has had, in MiB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / _KIB if found else 0.0


def process_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ProcessLookupError):
        return []
