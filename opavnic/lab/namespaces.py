"""The network namespaces of a lab: made, found again by inode, emptied of programs, removed.

A name alone proves nothing: what is ours is the namespace whose inode stands in the journal of a lab.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc, run_in_thread
from opavnic.lab.errors import LabError, PrivilegeError

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


def namespace_inode(path: Path) -> int | None:
    """Return the inode of the network namespace mounted at `path`, or None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino if status.st_dev == os.stat("/proc/self/ns/net").st_dev else None


def create_namespace(path: Path, announce: Callable[[int], None]) -> int:
    """Make a network namespace and give it the name `path`; its loopback is up.

    Args:    announce: called with the inode before the name exists, so that the journal is ahead of the world.
    Returns: the inode.
    Raises:  LabError: the name is taken. PrivilegeError: not permitted.
    """
    if path.exists():
        raise LabError(
            f"network namespace {path.name} exists and is not of this lab; it is left alone "
            f"(if nobody needs it: ip netns delete {path.name})"
        )

    from hfi_sim.netdev.netlink import LinkClient  # late: commands that make nothing start faster without it

    def inside() -> int:
        libc = Libc()
        libc.unshare(CLONE_NEWNET)
        inode = os.stat(_THREAD_NET).st_ino
        announce(inode)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
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
        return inode

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


def remove_namespace(path: Path, inode: int) -> bool:
    """Remove the name, if it still names the namespace with that inode (or nothing any more).

    Returns: whether something was removed. A namespace that is not the one meant is left alone.
    """
    found = namespace_inode(path)
    if found is not None and found != inode:
        return False
    try:
        if found is not None:
            Libc().umount(str(path), _MNT_DETACH)
        elif path.stat().st_size != 0 or path.is_dir():
            return False
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


def programs_in(inodes: Iterable[int]) -> list[Program]:
    """Return the processes whose network namespace is one of `inodes`; never this process."""
    wanted = set(inodes)
    found = []
    for entry in os.scandir("/proc") if wanted else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if os.stat(f"/proc/{entry.name}/ns/net").st_ino in wanted:
                command = (
                    Path(f"/proc/{entry.name}/comm").read_text(encoding="utf-8", errors="replace").strip()
                )
                found.append(Program(int(entry.name), command))
        except OSError:
            continue  # ended meanwhile, a kernel thread, or not ours to see
    return found


def end_programs(inodes: Sequence[int], patience_s: float = 2.0) -> list[Program]:
    """End every program in the namespaces: SIGTERM, and SIGKILL for what is left after `patience_s`.

    Returns: the programs that were ended, each once.
    """
    ended: dict[int, Program] = {}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(10):  # a dying shell may leave children that were started meanwhile
            programs = programs_in(inodes)
            if not programs:
                return list(ended.values())
            ended.update({program.pid: program for program in programs})
            waiting = _signal(programs, number)
            if not _wait(waiting, patience_s):
                break
    return list(ended.values())


def _signal(programs: Sequence[Program], number: signal.Signals) -> list[int]:
    """Signal the programs; return a process descriptor for each that was there."""
    waiting = []
    for program in programs:
        try:
            fd = os.pidfd_open(program.pid)
        except OSError:
            continue
        try:
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
