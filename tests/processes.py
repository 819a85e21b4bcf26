"""Programs that tests start: none outlives its test, whatever the test does."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
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
