"""Guests: hosts that were there before the lab. They are found, proven, held, and watched; never ended.

A name or a pid may be given to another at any time. So a guest is held by a descriptor of its network namespace from
the moment it is found, and a process by a pidfd: the namespace is its own if the process still runs once both are open.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from hfi_sim.base.did_you_mean import nearest
from opavnic.lab.file.errors import LabError, PrivilegeError
from opavnic.lab.file.guest_model import Engine, GuestKeys
from opavnic.lab.ownership.identity import NamespaceId, namespace_at
from opavnic.lab.ownership.namespaces import NETNS_DIR

_ENGINES: Final[tuple[str, ...]] = get_args(Engine)
_ENGINE_S: Final = 20.0
_OWN_PREFIX: Final = "opavnic-"
"""Prefix of the namespaces that labs make; a guest cannot be one of them."""
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_IN_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
MACHINE: Final = "/proc/self/ns/net"
"""The network namespace of the machine, as the process of a lab sees it."""


@dataclass(slots=True)
class Guest:
    """A guest that has been found. `close` lets go of it."""

    host: str
    kind: str
    """netns, pid or container."""
    what: str
    """How messages call it: `container web of podman`."""
    path: Path
    """Path to its network namespace, to enter it from outside; check that it leads to `identity`."""
    identity: NamespaceId
    descriptor: int
    """Its network namespace."""
    pidfd: int = -1
    engine: str = ""
    container: str = ""
    """The id of the container."""
    _stops: list[Callable[[], object]] = field(default_factory=list)

    @property
    def held(self) -> Path:
        """A path into its network namespace that stays valid if its names go, in this process alone."""
        return Path(f"/proc/self/fd/{self.descriptor}")

    def watch(self, loop: asyncio.AbstractEventLoop, gone: Callable[[str], None]) -> None:
        """Call `gone` with the reason, once, when the guest is no longer there."""

        def once(reason: str) -> None:
            self._stop_watching()
            gone(reason)

        if self.pidfd >= 0:
            loop.add_reader(self.pidfd, once, f"{self.what} has ended")
            self._stops.append(lambda: loop.remove_reader(self.pidfd))
        else:
            self._watch_name(loop, once)

    def _watch_name(self, loop: asyncio.AbstractEventLoop, once: Callable[[str], None]) -> None:
        fd = _watch_directory(self.path.parent)

        def look() -> None:
            try:
                os.read(fd, 65536)
            except BlockingIOError:
                return
            if namespace_at(self.path) != self.identity:
                once(f"{self.what} was deleted")

        def stop() -> None:
            loop.remove_reader(fd)
            os.close(fd)

        loop.add_reader(fd, look)
        self._stops.append(stop)
        if namespace_at(self.path) != self.identity:
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


def find_guest(host: str, keys: GuestKeys) -> Guest:
    """Return the guest that a host of the lab file describes.

    Raises:  LabError: it is not there, or it ends while it is looked for, or it shares the network of the machine.
    """
    if keys.container is not None:
        return _container(host, keys.container, keys.engine)
    if keys.pid is not None:
        return _process(host, keys.pid, f"process {keys.pid}", "pid")
    return _named(host, keys.netns)


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


def _named(host: str, name: str) -> Guest:
    path = Path(name) if name.startswith("/") else NETNS_DIR / name
    what = f"network namespace {name}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        there = NETNS_DIR.iterdir() if NETNS_DIR.is_dir() else ()
        known = sorted(entry.name for entry in there if not entry.name.startswith(_OWN_PREFIX))
        told = nearest(name, ["own", "host", *known])
        raise LabError(f'host {host}: there is no network namespace "{name}" ({told})') from None
    except PermissionError as error:
        raise PrivilegeError(f"host {host}: not permitted to open {what}: run this as root") from error
    except OSError as error:
        raise LabError(f"host {host}: cannot open {what}: {error.strerror}") from error
    return _held(host, "netns", what, path, fd)


def _process(host: str, pid: int, what: str, kind: str, engine: str = "", container: str = "") -> Guest:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise LabError(f"host {host}: {what} does not run: there is no process {pid}") from None
    except OSError as error:
        raise LabError(f"host {host}: {what} cannot be watched: {error.strerror}") from error
    path = Path(f"/proc/{pid}/ns/net")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        os.close(pidfd)
        raise PrivilegeError(f"host {host}: not permitted to enter {what}: run this as root") from error
    except OSError:
        os.close(pidfd)
        raise LabError(f"host {host}: {what} ended while the lab joined it") from None
    guest = _held(host, kind, what, path, fd, pidfd, engine, container)
    if _has_ended(pidfd):  # then the pid, and with it the namespace, may have been another's
        guest.close()
        raise LabError(f"host {host}: {what} ended while the lab joined it")
    return guest


def _held(
    host: str,
    kind: str,
    what: str,
    path: Path,
    fd: int,
    pidfd: int = -1,
    engine: str = "",
    container: str = "",
) -> Guest:
    try:
        identity = proven_namespace(f"/proc/self/fd/{fd}", f"host {host}: {what}")
        if identity == namespace_at(MACHINE):
            raise LabError(f"host {host}: {what} shares the network of the machine: write netns: host")
    except LabError:
        for number in (fd, pidfd):
            if number >= 0:
                os.close(number)
        raise
    return Guest(host, kind, what, path, identity, fd, pidfd, engine, container)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


# --- containers ----------------------------------------------------------------------------------------------


def _container(host: str, name: str, engine: str | None) -> Guest:
    engine, pid, id_ = _find_container(host, name, engine)
    what = f"container {name} of {engine}"
    guest = _process(host, pid, what, "container", engine, id_)
    if _inspect(engine, id_) != (pid, id_):  # the pid was still the container's when it was held
        guest.close()
        raise LabError(f"host {host}: {what} ended while the lab joined it")
    return guest


def _find_container(host: str, name: str, engine: str | None) -> tuple[str, int, str]:
    """Return whose container it is, the pid of its first process, and its id."""
    wanted = [engine] if engine is not None else list(_ENGINES)
    installed = [found for found in wanted if shutil.which(found)]
    if not installed:
        raise LabError(
            f"host {host}: {' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} not installed, so container "
            f'"{name}" cannot be found (a container is also reached by the pid of a process in it: pid: NUMBER)'
        )
    reasons = []
    for found in installed:
        try:
            pid, id_ = _inspect(found, name)
        except LabError as error:
            reasons.append(f"{found}: {error}")
            continue
        if pid <= 0:
            raise LabError(
                f'host {host}: container "{name}" of {found} does not run; start it: {found} start {name}'
            )
        return found, pid, id_
    raise LabError(f'host {host}: no container "{name}" ({"; ".join(reasons)})')


def _inspect(engine: str, name: str) -> tuple[int, str]:
    """Return the pid and the id of a container; pid 0: it does not run."""
    command = [engine, "container", "inspect", "--format", "{{.State.Pid}} {{.Id}}", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{engine} does not answer ({error})") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise LabError(lines[-1] if lines else f"exit status {done.returncode}")
    try:
        pid, id_ = done.stdout.split()
        return int(pid), id_
    except ValueError:
        raise LabError(f"says {done.stdout.strip()[:80]!r} in place of a pid and an id") from None


# --- names that are deleted ----------------------------------------------------------------------------------


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
