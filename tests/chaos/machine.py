"""What there is on the machine: namespaces, processes, interfaces, mounts, files. Two looks are compared."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NETNS: Final = Path("/run/netns")
Look = dict[str, str]
"""What there is -> what tells it from another thing of the same name."""


@dataclass(frozen=True)
class Difference:
    """What came, what went, and what is another thing under the same name."""

    came: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.came or self.went or self.changed)


def compare(before: Look, now: Look) -> Difference:
    """Return how two looks differ."""
    both = before.keys() & now.keys()
    return Difference(
        sorted(now.keys() - before.keys()),
        sorted(before.keys() - now.keys()),
        sorted(name for name in both if before[name] != now[name]),
    )


def look(roots: Iterable[Path], without: Iterable[Path] = ()) -> Look:
    """Look at the machine.

    Args:  roots: directories whose files count. without: directories that count, with contents that do not.
    """
    seen: Look = {}
    for path in NETNS.iterdir():
        seen[f"namespace {path.name}"] = str(path.stat().st_ino)
    for pid, (start, command) in processes().items():
        seen[f"process {pid} ({command})"] = str(start)
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        seen[f"interface {line.split(':')[0].strip()}"] = ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        seen[f"mount {words[4]} ({words[0]})"] = words[2]
    closed = {str(path) for path in without}
    for root in roots:
        for directory, names, files in os.walk(root):
            if directory in closed:
                names.clear()
                continue
            for name in [*names, *files]:
                path = os.path.join(directory, name)
                if not path.startswith(f"{NETNS}/"):
                    _look_at_file(path, seen)
    return seen


def _look_at_file(path: str, seen: Look) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    seen[f"{_KINDS.get(stat.S_IFMT(status.st_mode), 'file')} {path}"] = f"{status.st_dev}:{status.st_ino}"


_KINDS: Final = {
    stat.S_IFDIR: "directory",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "FIFO",
    stat.S_IFLNK: "link",
}


def processes() -> dict[int, tuple[int, str]]:
    """Return start time and name of every process that runs, by pid; of zombies nothing is left to end."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := process_of(int(name))) is not None:
            found[int(name)] = process
    return found


def process_of(pid: int) -> tuple[int, str] | None:
    """Return start time and name of a process; None where it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return None if fields[0] in "ZX" else (int(fields[19]), head.partition("(")[2])


def memory_and_descriptors(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process, in KiB, and how many descriptors it has open."""
    status = Path(f"/proc/{pid}/status").read_text()
    rss = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), None)
    if rss is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return rss, len(os.listdir(f"/proc/{pid}/fd"))
