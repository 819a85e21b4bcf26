"""Guests are found, proven, held, and watched; never ended.

A name or a pid may be given to another at any time. So a guest is held by a descriptor of its network namespace from
the moment it is found, and a process by a pidfd: the namespace is its own if the process still runs once both are open.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.identity import NamespaceId, namespace_at
from opavnic.lab.ownership.journal_entries import GuestEntry
from opavnic.lab.ownership.namespaces import NETNS_DIR

if TYPE_CHECKING:  # `opavnic exec` finds no guest and must start quickly
    from asyncio import AbstractEventLoop

    from opavnic.lab.file.guest_model import GuestKeys

_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_IN_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
MACHINE: Final = "/proc/self/ns/net"
"""The network namespace of the machine, as the process of a lab sees it."""


@dataclass(slots=True)
class Guest:
    """A guest that has been found. `close` lets go of it."""

    entry: GuestEntry
    """What the journal says of it."""
    what: str
    """How messages call it: `container web of podman`."""
    descriptor: int
    """Its network namespace."""
    pidfd: int = -1
    _stops: list[Callable[[], object]] = field(default_factory=list)

    @property
    def held(self) -> Path:
        """A path into its network namespace that stays valid if its names go, in this process alone."""
        return Path(f"/proc/self/fd/{self.descriptor}")

    def watch(self, loop: AbstractEventLoop, gone: Callable[[str], None]) -> None:
        """Call `gone` with the reason, once, when the guest is no longer there."""

        def once(reason: str) -> None:
            self._stop_watching()
            gone(reason)

        if self.pidfd >= 0:
            loop.add_reader(self.pidfd, once, f"{self.what} has ended")
            self._stops.append(lambda: loop.remove_reader(self.pidfd))
        else:
            self._watch_name(loop, once)

    def _watch_name(self, loop: AbstractEventLoop, once: Callable[[str], None]) -> None:
        path, identity = Path(self.entry.namespace), self.entry.identity
        fd = _watch_directory(path.parent)

        def look() -> None:
            try:
                os.read(fd, 65536)
            except BlockingIOError:
                return
            if namespace_at(path) != identity:
                once(f"{self.what} was deleted")

        def stop() -> None:
            loop.remove_reader(fd)
            os.close(fd)

        loop.add_reader(fd, look)
        self._stops.append(stop)
        if namespace_at(path) != identity:
            loop.call_soon(once, f"{self.what} was deleted")

    def _stop_watching(self) -> None:
        stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def close(self) -> None:
        """Let go of the guest: it stays. May be called twice."""
        self._stop_watching()
        for fd in (self.descriptor, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self.descriptor = self.pidfd = -1


class GuestKind:
    """A kind of guest: how one is found, and how programs get onto it. A module for each; `kinds` has all of them."""

    key: str
    """The key of a host in the lab file that makes it one; its kind in the journal."""

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Return the guest that a host of the lab file describes.

        Raises:  LabError: it is not there, or it ends while it is looked for, or it shares the network of the machine.
        """
        raise NotImplementedError

    def no_programs(self, host: str) -> str:
        """Return why no program can be started on it from here; empty: one can."""
        return ""

    def command(self, entry: GuestEntry, command: list[str]) -> list[str]:
        """Return the equivalent of `opavnic exec` with the system's own tools."""
        path = Path(entry.namespace)
        if path.parent == NETNS_DIR:
            return ["ip", "netns", "exec", path.name, *command]
        return ["nsenter", f"--net={path}", *command]

    def become(self, entry: GuestEntry, lab: str, command: list[str]) -> None:
        """Replace this process with `command` there, if that takes more than to enter its network namespace.

        Raises:  LabError: the guest of the lab is gone. ProgramError: the program cannot be started.
        """


def proven_namespace(path: str | Path, what: str) -> NamespaceId:
    """Return the identity of a network namespace that is not the lab's.

    Raises:  LabError: it is none, or the kernel gives it no cookie (before Linux 5.14).
    """
    identity = namespace_at(path)
    if identity is None:
        raise LabError(f"{what}: this is not a network namespace")
    if not identity.mark:
        raise LabError(
            f"{what}: its network namespace cannot be told from others: this needs Linux 5.14 and root"
        )
    return identity


def held(
    host: str,
    kind: str,
    what: str,
    path: Path,
    fd: int,
    pidfd: int = -1,
    engine: str = "",
    container: str = "",
) -> Guest:
    """Return a guest that is held by descriptors, which are closed if it cannot be one.

    Raises:  LabError: its network namespace is no guest's.
    """
    try:
        identity = proven_namespace(f"/proc/self/fd/{fd}", f"host {host}: {what}")
        if identity == namespace_at(MACHINE):
            raise LabError(f"host {host}: {what} shares the network of the machine: write netns: host")
    except LabError:
        for number in (fd, pidfd):
            if number >= 0:
                os.close(number)
        raise
    entry = GuestEntry(host, kind, str(path), identity.inode, identity.mark, engine, container)
    return Guest(entry, what, fd, pidfd)


def _watch_directory(directory: Path) -> int:
    """Return a descriptor of inotify that is readable when a name in a directory is deleted. Raises LabError."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(_IN_FLAGS)
    if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(directory), _IN_DELETE | _IN_DELETE_SELF) < 0:
        reason = os.strerror(ctypes.get_errno())
        if fd >= 0:
            os.close(fd)
        raise LabError(f"{directory} cannot be watched: {reason}")
    return int(fd)
