"""The log on disk: a file of limited size and its predecessor. No error of the disk is raised from here."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 1 << 20
"""Size of one file; with its predecessor, a log has up to twice as much. It may be in memory (/run)."""
OLD_SUFFIX: Final = ".1"
"""Appended to the name of the predecessor."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LogFile:
    """Appends to a file, each piece whole or not at all; reopens it if it, or its directory, has disappeared."""

    def __init__(self, path: Path) -> None:
        """Prepare; nothing is opened yet."""
        self._path = path
        self._fd: int | None = None

    def append(self, data: bytes) -> str:
        """Write all of `data` or nothing; return why nothing was written, or ""."""
        try:
            fd, size = self._open()
            if size and size + len(data) > MAX_FILE_BYTES:
                self._path.replace(self._path.with_name(self._path.name + OLD_SUFFIX))
                fd, size = self._open()
            if os.write(fd, data) < len(data):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _open(self) -> tuple[int, int]:
        """Return a descriptor of the file at its path, and its size."""
        if self._fd is not None:
            status = os.fstat(self._fd)
            if self._is_at_path(status):
                return self._fd, status.st_size
            self.close()
        self._fd = os.open(self._path, _FLAGS, 0o600)
        return self._fd, os.fstat(self._fd).st_size

    def _is_at_path(self, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(status, self._path.lstat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file. May be called twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # some file systems report a failed write only now
                os.close(fd)
