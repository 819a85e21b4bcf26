"""The network namespaces of a lab: create them, recognize them by identity, end the programs in them, remove them.

A name or an inode proves nothing: a namespace is ours only if its identity is in the journal of a lab.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc, run_in_thread
from opavnic.lab.file.errors import LabError, PrivilegeError
from opavnic.lab.ownership.identity import NamespaceId, namespace_at, sign_namespace
from opavnic.state.removed import Program

NETNS_DIR: Final = Path("/run/netns")
"""The directory of names used by `ip netns`."""

# Virtual switches are separate networks. By default, Linux answers ARP requests on one interface for the address of
# another: that would look as if frames leaked from one virtual switch into the other.
OWN_SYSCTLS: Final = {"ipv4/conf/all/arp_ignore": "1", "ipv4/conf/all/arp_announce": "2"}
_THREAD_NET: Final = "/proc/thread-self/ns/net"
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SHARED: Final = 1 << 20
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_PLACEHOLDER_MODE: Final = 0o400
"""Mode of the empty file on which a namespace is mounted to give it a name; those of `ip netns` have mode 0."""


def create_namespace(path: Path, announce: Callable[[NamespaceId], None]) -> NamespaceId:
    """Create one network namespace; see `create_namespaces`."""
    return create_namespaces([path], lambda identities: announce(identities[0]))[0]


def create_namespaces(
    paths: Sequence[Path], announce: Callable[[Sequence[NamespaceId]], None]
) -> list[NamespaceId]:
    """Create network namespaces under the names `paths`, all in one directory, each with its loopback up.

    Args:    announce: called once with the identities before any of the names exists, so that the journal is never
             behind. A descriptor is open for each namespace meanwhile.
    Returns: the identities.
    Raises:  LabError: a name is taken. PrivilegeError: not permitted.
    """
    for path in paths:
        if path.exists():
            raise LabError(
                f"network namespace {path.name} exists and does not belong to this lab; it is left alone "
                f"(if it is not needed: ip netns delete {path.name})"
            )

    def inside() -> list[NamespaceId]:
        libc = Libc()
        identities, held = [], []
        try:
            for _ in paths:
                libc.unshare(CLONE_NEWNET)
                identities.append(sign_namespace())
                held.append(os.open(_THREAD_NET, os.O_RDONLY | os.O_CLOEXEC))
                _set_up()
            announce(identities)
            for path, fd in zip(paths, held, strict=True):
                _name(libc, fd, path)
        finally:
            for fd in held:
                os.close(fd)
        return identities

    try:
        _share_mounts(paths[0].parent)
        return run_in_thread(inside, f"make {paths[0].name}")
    except (OSError, NetdevError) as error:
        name = next((path for path in paths if not path.exists()), paths[0]).name
        number = error.errno or 0
        if number in (errno.EPERM, errno.EACCES):
            raise PrivilegeError(f"not permitted to make network namespace {name}: {error}") from error
        raise LabError(f"cannot make network namespace {name}: {error}") from error


def _set_up() -> None:
    """Set the sysctls and the loopback of this thread's namespace."""
    for key, value in OWN_SYSCTLS.items():
        Path("/proc/sys/net", key).write_text(value, encoding="ascii")
    from hfi_sim.netdev.link_client import LinkClient  # late: not all commands need it

    with contextlib.closing(LinkClient()) as links:
        links.set_up(1, True)  # lo always has index 1


def _name(libc: Libc, fd: int, path: Path) -> None:
    """Give the namespace behind a descriptor a name."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PLACEHOLDER_MODE))
    try:
        libc.mount(f"/proc/self/fd/{fd}", str(path), "none", _MS_BIND)
    except OSError:
        path.unlink()
        raise


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
    """Make `directory` for the names of namespaces of a lab that runs in its own mount namespace.

    A tmpfs is mounted on it that only this mount namespace sees; it disappears with the last process there.
    """
    if not directory.is_mount():
        directory.mkdir(exist_ok=True)
        Libc().mount("tmpfs", str(directory), "tmpfs", 0)
    return directory


def is_name_of(path: Path, identity: NamespaceId) -> bool:
    """Return whether `path` names the namespace of that identity, or is one of our names without a namespace (yet)."""
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
    """Remove a name if it belongs to that namespace.

    Returns: whether something was removed. Names that are not ours are left alone.
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


def programs_in(identities: Collection[NamespaceId]) -> list[Program]:
    """Return the processes in those network namespaces, except this one."""
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
            continue  # ended meanwhile, a kernel thread, or not visible to us
    return found


def _namespace_of(pid: int | str) -> str:
    return f"/proc/{pid}/ns/net"


def _is_inside(pid: int | str, identities: Collection[NamespaceId]) -> bool:
    return namespace_at(_namespace_of(pid)) in identities


def end_programs(identities: Collection[NamespaceId], patience_s: float = 2.0) -> list[Program]:
    """End all programs in the namespaces: with SIGTERM, and after `patience_s` with SIGKILL.

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
    """Signal the programs; return a process descriptor for each one still running.

    The namespace is checked again after the descriptor is opened: if the pid was reused in the meantime, the
    check sees the process that the descriptor refers to.
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
    """Wait until all processes behind the descriptors have ended, then close these; return False on timeout."""
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
