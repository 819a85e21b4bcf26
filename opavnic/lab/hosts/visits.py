"""Which namespaces a program may have been in: the others are as the lab has left them, and need not be looked through.

The kernel tells a watcher when a namespace is opened, by its name or by /proc/PID/ns/net, and the first one to
come in has to open it. What is done there it does not tell. So a namespace that was opened once counts as visited from
then on, also if it was by the lab itself, and so does one that cannot be watched.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_IN_OPEN: Final = 0x20
_IN_Q_OVERFLOW: Final = 0x4000
_IN_ONESHOT: Final = 0x80000000
_EVENT: Final = struct.Struct("iIII")
_READ: Final = 1 << 16


class Visits:
    """Watches the namespaces of one lab."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self._untouched: dict[int, str] = {}
        """Hosts, by watch; that of a namespace goes with it."""

    def watch(self, namespaces: Mapping[str, Path]) -> None:
        """Watch the namespaces of hosts, in which no program of a user has been so far."""
        if self._fd < 0:
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for host, path in namespaces.items() if self._fd >= 0 else ():
            mask = ctypes.c_uint32(_IN_OPEN | _IN_ONESHOT)
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
            if watch >= 0:
                self._untouched[watch] = host

    @property
    def untouched(self) -> set[str]:
        """The hosts whose namespaces no program has opened since they are watched."""
        self._read()
        return set(self._untouched.values())

    def close(self) -> None:
        """Watch no more."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._untouched.clear()

    def _read(self) -> None:
        while self._untouched:
            try:
                events = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                if mask & _IN_Q_OVERFLOW:
                    self._untouched.clear()
                self._untouched.pop(watch, None)
