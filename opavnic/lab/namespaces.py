"""The network namespaces of a lab: made, found again by identity, emptied of programs, removed.

A name or an inode proves nothing: what is ours is the namespace whose identity stands in the journal of a lab.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc, run_in_thread
from opavnic.lab.errors import LabError, PrivilegeError
from opavnic.lab.identity import NamespaceId, namespace_at, sign_namespace

NETNS_DIR: Final = Path("/run/netns")
"""Where `ip netns` keeps its names."""

# Virtual switches are networks of their own. By default Linux answers ARP on one interface for the address of
# another: that would look as if frames of one virtual switch got into the other.
_SYSCTLS: Final = {"ipv4/conf/all/arp_ignore": "1", "ipv4/conf/all/arp_announce": "2"}
_THREAD_NET: Final = "/proc/thread-self/ns/net"
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SHARED: Final = 1 << 20
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_PLACEHOLDER_MODE: Final = 0o400
"""Of the empty file that a name is until a namespace is mounted on it; those of `ip netns` have the mode 0."""


def create_namespace(path: Path, announce: Callable[[NamespaceId], None]) -> NamespaceId:
    """Make a network namespace and give it the name `path`; its loopback is up.

    Args:    announce: called with the identity before the name exists, so that the journal is ahead of the world.
    Returns: the identity.
    Raises:  LabError: the name is taken. PrivilegeError: not permitted.
    """
    if path.exists():
        raise LabError(
            f"network namespace {path.name} exists and is not of this lab; it is left alone "
            f"(if nobody needs it: ip netns delete {path.name})"
        )

    from hfi_sim.netdev.netlink import LinkClient  # late: commands that make nothing start faster without it

    def inside() -> NamespaceId:
        libc = Libc()
        libc.unshare(CLONE_NEWNET)
        identity = sign_namespace()
        announce(identity)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PLACEHOLDER_MODE))
        try:
            libc.mount(_THREAD_NET, str(path), "none", _MS_BIND)
        except OSError:
            path.unlink()
            raise
        for key, value in _SYSCTLS.items():
            Path("/proc/sys/net", key).write_text(value, encoding="ascii")
        links = LinkClient()
        try:
            links.set_up(1, True)  # lo is always the first
        finally:
            links.close()
        return identity

    try:
        _share_mounts(path.parent)
        return run_in_thread(inside, f"make {path.name}")
    except (OSError, NetdevError) as error:
        number = error.errno or 0
        if number in (errno.EPERM, errno.EACCES):
            raise PrivilegeError(f"not permitted to make network namespace {path.name}: {error}") from error
        raise LabError(f"cannot make network namespace {path.name}: {error}") from error


def _share_mounts(directory: Path) -> None:
    """Make the directory of names a shared mount, as `ip netns add` does, so that every program sees them."""
    directory.mkdir(parents=True, exist_ok=True)
    libc = Libc()
    try:
        libc.mount("none", str(directory), "none", _MS_SHARED | _MS_REC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        libc.mount(str(directory), str(directory), "none", _MS_BIND | _MS_REC)
        libc.mount("none", str(directory), "none", _MS_SHARED | _MS_REC)


def private_directory(directory: Path) -> Path:
    """Make `directory` for names of namespaces in a lab that runs in a mount namespace of its own.

    A tmpfs is mounted on it, which only that mount namespace sees: it goes with the last process there.
    """
    if not directory.is_mount():
        directory.mkdir(exist_ok=True)
        Libc().mount("tmpfs", str(directory), "tmpfs", 0)
    return directory


def is_name_of(path: Path, identity: NamespaceId) -> bool:
    """Return whether `path` names the namespace of that identity, or is a name of ours that names none (yet)."""
    found = namespace_at(path)
    if found is not None:
        return found == identity
    try:
        status = path.lstat()
    except OSError:
        return False
    empty = stat.S_ISREG(status.st_mode) and status.st_size == 0
    return empty and stat.S_IMODE(status.st_mode) == _PLACEHOLDER_MODE and status.st_uid == os.geteuid()


def remove_namespace(path: Path, identity: NamespaceId) -> bool:
    """Remove a name, if it is the one of that namespace.

    Returns: whether something was removed. What is not ours is left alone.
    """
    if not is_name_of(path, identity):
        return False
    try:
        if namespace_at(path) is not None:
            Libc().umount(str(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LabError(f"cannot remove network namespace {path.name}: {error.strerror}") from error
    return True


@dataclass(frozen=True, slots=True)
class Program:
    """A process found in a namespace of the lab."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid})"


def programs_in(identities: Collection[NamespaceId]) -> list[Program]:
    """Return the processes whose network namespace is one of those; never this process."""
    inodes = {identity.inode for identity in identities}
    found = []
    for entry in os.scandir("/proc") if inodes else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if os.stat(_namespace_of(entry.name)).st_ino in inodes and _is_inside(entry.name, identities):
                command = (
                    Path(f"/proc/{entry.name}/comm").read_text(encoding="utf-8", errors="replace").strip()
                )
                found.append(Program(int(entry.name), command))
        except OSError:
            continue  # ended meanwhile, a kernel thread, or not ours to see
    return found


def _namespace_of(pid: int | str) -> str:
    return f"/proc/{pid}/ns/net"


def _is_inside(pid: int | str, identities: Collection[NamespaceId]) -> bool:
    return namespace_at(_namespace_of(pid)) in identities


def end_programs(identities: Collection[NamespaceId], patience_s: float = 2.0) -> list[Program]:
    """End every program in the namespaces: SIGTERM, and SIGKILL for what is left after `patience_s`.

    Returns: the programs that were ended, each once.
    """
    ended: dict[int, Program] = {}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(10):  # a dying shell may leave children that were started meanwhile
            programs = programs_in(identities)
            if not programs:
                return list(ended.values())
            ended.update({program.pid: program for program in programs})
            waiting = _signal(programs, identities, number)
            if not _wait(waiting, patience_s):
                break
    return list(ended.values())


def _signal(
    programs: Sequence[Program], identities: Collection[NamespaceId], number: signal.Signals
) -> list[int]:
    """Signal the programs; return a process descriptor for each that was there.

    The descriptor is opened before the process is looked at once more: where another has got the number
    meanwhile, the one that is signalled is either looked at or gone.
    """
    waiting = []
    for program in programs:
        try:
            fd = os.pidfd_open(program.pid)
        except OSError:
            continue
        try:
            if not _is_inside(program.pid, identities):
                raise ProcessLookupError
            signal.pidfd_send_signal(fd, number)
        except OSError:
            os.close(fd)
            continue
        waiting.append(fd)
    return waiting


def _wait(waiting: Sequence[int], patience_s: float) -> bool:
    """Wait until all processes behind the descriptors have ended, and close them; False when time ran out."""
    deadline = time.monotonic() + patience_s
    left = set(waiting)
    poll = select.poll()
    for fd in left:
        poll.register(fd, select.POLLIN)
    while left and (rest := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(rest * 1000):
            poll.unregister(fd)
            left.discard(fd)
    for fd in waiting:
        os.close(fd)
    return not left
