"""Where `opavnic capture -w` writes: a pipe, a file, or a ring of files."""

from __future__ import annotations

import errno
import os
from collections import deque
from pathlib import Path
from typing import BinaryIO

from opavnic.observe.capture_copy import Target


class PipeTarget(Target):
    """A pipe, which takes everything. A reader at its other end sees each packet at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def room(self) -> None:
        return None

    def next(self, head: bytes) -> None:
        raise AssertionError("a pipe is never full")

    def close(self) -> None:
        pass


class FileTarget(Target):
    """A file, or where `size` is given, files with a number in their name, from NAME_00001.pcapng on."""

    def __init__(self, path: Path, *, size: int | None = None, ring: int | None = None) -> None:
        """Open the first file.

        Args:    size: bytes that a file has at most; one always takes a packet. ring: how many files are kept; the
                 oldest is removed when another one begins. None: all.
        Raises:  OSError: the file cannot be written.
        """
        if not path.name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._path, self._size, self._ring = path, size, ring
        self._number = 0
        self.names: deque[Path] = deque()
        """The files that are there, the oldest first."""
        self._file = self._open()
        self._written = 0

    def _open(self) -> BinaryIO:
        self._number += 1
        path = self._path
        if self._size is not None:
            path = path.with_name(f"{path.stem}_{self._number:05}{path.suffix}")
        file = path.open("wb", buffering=0)
        self.names.append(path)
        if self._ring is not None and len(self.names) > self._ring:
            self.names.popleft().unlink(missing_ok=True)
        return file

    def write(self, data: memoryview) -> None:
        self._written += len(data)
        while data:
            data = data[self._file.write(data) or 0 :]

    def room(self) -> int | None:
        return None if self._size is None else max(0, self._size - self._written)

    def next(self, head: bytes) -> None:
        self._file.close()
        self._file = self._open()
        self._written = 0
        self.write(memoryview(head))

    def close(self) -> None:
        self._file.close()
