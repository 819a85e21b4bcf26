"""Database files that only their user may read, from their first byte on."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

_MODE: Final = 0o600
_BESIDE: Final = ("", "-wal", "-shm", "-journal")
"""What SQLite has beside a database; it gives a new one the mode of the database."""


def make_private_file(path: Path | str) -> None:
    """Make an empty file with mode 0600 where there is none; a place where that cannot be is left to its opener."""
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))


def close_to_others(path: Path | str) -> None:
    """Take from others what they may do with a database of this user, and with what is beside it.

    By path: a descriptor that is closed would take SQLite's locks with it.
    """
    for suffix in _BESIDE:
        file = f"{path}{suffix}"
        with contextlib.suppress(OSError):
            status = os.stat(file)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.chmod(file, _MODE)
