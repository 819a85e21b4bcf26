"""The process of a lab: whether it is still that one, whether it is being taken apart, and when it has gone."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Final

_ENDING: Final = 0x4
"""PF_EXITING of the kernel's flags (proc_pid_stat(5), field 9)."""
_AT_WORK: Final = "RDXZ"
"""States of a thread that runs, waits for a processor, for the kernel, or to be taken apart (proc_pid_stat(5))."""
_TICKS_OF_WORK: Final = 3
"""Clock ticks of processor time between two looks that are more than an idle lab uses."""
_TAKEN_APART_S: Final = 15.0
"""How long the kernel may take for a killed process: it removes an interface in tens of milliseconds."""


def process_start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks after boot; None if there is none, or it has been killed."""
    fields = _fields(pid)
    return None if not fields or _is_ending(pid, fields) else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, for example by SIGSTOP: it is alive but does not respond."""
    fields = _fields(pid)
    return bool(fields) and fields[0] == "T"


def processor_ticks(pid: int) -> int:
    """Return how many clock ticks a process has used, with its descendants as far as these are seen; 0: it is gone."""
    fields = _fields(pid)
    if not fields:
        return 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        children = []
    return sum(map(int, fields[11:15])) + sum(processor_ticks(int(child)) for child in children)


class WatchedProcess:
    """A process that is looked at now and then: does it work, or sleep?"""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks = -1
        self.is_stopped = False
        """Whether it was stopped at the last look, for example by SIGSTOP."""

    def worked(self) -> bool:
        """Return whether its main thread has used a processor since the last look, or waits for one or the kernel."""
        if self._pid == os.getpid():
            return False  # this process asks itself: its own look is no sign
        fields = _fields(self._pid, f"task/{self._pid}/")
        if not fields:
            return False
        self.is_stopped = fields[0] == "T"
        before, self._ticks = self._ticks, int(fields[11]) + int(fields[12])
        return fields[0] in _AT_WORK or (before >= 0 and self._ticks - before >= _TICKS_OF_WORK)


def wait_if_killed(pid: int, start_time: int) -> bool:
    """Wait until a process that has been killed, or has crashed, is gone with all that it has open.

    Its main thread may have ended long before: it is a zombie then, and others hold the files.

    Args:    start_time: of the process, in clock ticks after boot; another one with its number counts as gone.
    Returns: False: it lives, and nothing ends it; or the kernel has not done with it in 15 s.
    """
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return True  # it is gone
    try:
        fields = _fields(pid)
        if not fields or int(fields[19]) != start_time:
            return True
        if not _is_ending(pid, fields):
            return False
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(_TAKEN_APART_S * 1000))
    finally:
        os.close(process)


def _is_ending(pid: int, fields: list[str]) -> bool:
    if fields[0] in "ZX" or int(fields[6]) & _ENDING:
        return True
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    pending = (line.split() for line in status.splitlines())
    return any(
        int(words[1], 16) >> signal.SIGKILL - 1 & 1
        for words in pending
        if words[:1] in (["SigPnd:"], ["ShdPnd:"])
    )


def _fields(pid: int, of: str = "") -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if there is no such process.

    Args:  of: `task/TID/`: of a thread.
    """
    try:
        text = Path(f"/proc/{pid}/{of}stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
