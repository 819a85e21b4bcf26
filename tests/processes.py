"""Programs that tests start: none outlives its test, whatever the test does."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SIGINT_IGNORED = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
"""In front of a command: it starts as a job in the background of a script does."""
SIGHUP_IGNORED = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
"""In front of a command: it starts as nohup(1) lets it."""


@contextlib.contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program, text on its pipes, for as long as the context lasts; then it is killed and waited for."""
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()  # Popen.__exit__ waits for it


def ignores(number: signal.Signals, status: str) -> bool:
    """Return whether a process ignores a signal. Args: status: what /proc/PID/status says of it."""
    ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored, 16) >> number - 1 & 1)


def ignores_sigint(pid: int) -> bool:
    """Return whether a process ignores SIGINT now; one that has gone does not."""
    try:
        return ignores(signal.SIGINT, Path(f"/proc/{pid}/status").read_text())
    except FileNotFoundError:
        return False
