"""Move this process onto a host of a lab, as `ip netns exec` does for a namespace."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from hfi_sim.base.text import nearest
from hfi_sim.netdev.namespace import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWUTS, Libc
from opavnic.base import signals
from opavnic.devices.kernel.entry import EntryError
from opavnic.lab.file.errors import LabError, LabInputError, PrivilegeError, ProgramError
from opavnic.lab.hosts.device_entry import enter_devices
from opavnic.lab.hosts.guests.kinds import KINDS
from opavnic.lab.ownership.identity import current_namespace
from opavnic.lab.ownership.journal_entries import GuestEntry
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.ownership.runtime import ETC_HOSTS, Journal, LabDir

_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 1 << 19
_MNT_DETACH: Final = 2
_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
"""Linux 5.2; the same number on every architecture."""
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_NOT_FOUND: Final = 127
_NOT_RUNNABLE: Final = 126


def host_namespace(journal: Journal, host: str) -> Path | None:
    """Return the file of a host's namespace; None if the host is the machine itself.

    Raises:  LabInputError: the lab has no such host.
    """
    for entry in journal.namespaces:
        if entry.host == host:
            return Path(entry.path)
    guest = _guest(journal, host)
    if guest is not None:
        if refused := KINDS[guest.kind].no_programs(host):
            raise LabInputError(f"{refused}, with ssh for example")
        return Path(guest.namespace)
    known = journal.hosts
    if host in known:
        return None
    raise LabInputError(f'unknown host "{host}" in lab {journal.lab} ({nearest(host, known)})')


def _guest(journal: Journal, host: str) -> GuestEntry | None:
    return next((entry for entry in journal.guests if entry.host == host), None)


def plain_command(journal: Journal, host: str, command: list[str]) -> str:
    """Return the equivalent command with the system's own tools."""
    path = host_namespace(journal, host)
    guest = _guest(journal, host)
    words = command if path is None else ["ip", "netns", "exec", path.name, *command]
    if guest is not None:
        words = KINDS[guest.kind].command(guest, command)
    elif journal.private and path is not None:
        words = ["nsenter", f"--target={journal.pid}", "--user", "--mount", f"--net={path}", *command]
    return shlex.join(words)


def become(
    lab: LabDir, journal: Journal, host: str, command: list[str], *, devices: bool | None = None
) -> NoReturn:
    """Replace this process with `command` on a host of a running lab.

    The environment variables OPAVNIC_LAB and OPAVNIC_HOST tell the program where it runs.

    Args:    devices: whether it finds the HFI of the host in /dev/infiniband and /sys/class; None: where possible.
    Raises:  LabInputError: no such host. PrivilegeError, LabError: it cannot be entered, or has no devices although it
             must. ProgramError: the program cannot be started.
    """
    path = host_namespace(journal, host)
    guest = _guest(journal, host)
    if guest is not None:
        KINDS[guest.kind].become(guest, journal.lab, command)
    with _same_directory():
        if path is not None:
            _enter(journal, host, path)
        is_private = own_mounts(own_sysfs=path is not None)
        name_host(lab, host, is_private)
        if devices is not False:
            _enter_devices(lab, journal, host, is_private, required=devices is True)
    heed_signals()
    if signals.sigint_was_ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    environment = {**os.environ, "OPAVNIC_LAB": journal.lab, "OPAVNIC_HOST": host}
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the very purpose: an argument list, no shell
    except FileNotFoundError as error:
        raise ProgramError(f"{command[0]}: no such program on host {host}", _NOT_FOUND) from error
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        name = command[0] or "a program without a name"
        raise ProgramError(f"{name}: cannot be run: {reason}", _NOT_RUNNABLE) from error


def heed_signals() -> None:
    """Let a program that this process becomes end by the signals that Python ignores: that would outlive exec."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _same_directory() -> Iterator[None]:
    """Come back to the current directory afterwards, if it is there: mount namespaces are entered at their root."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:
        directory = "/"
    yield
    with contextlib.suppress(OSError):
        os.chdir(directory)


def _enter(journal: Journal, host: str, path: Path) -> None:
    libc = Libc()
    try:
        if journal.private:
            enter_private(libc, journal.pid)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        libc.setns(fd, CLONE_NEWNET)
        os.close(fd)
    except PermissionError as error:
        raise PrivilegeError(
            f"not permitted to enter host {host}: run this as the user that started the lab"
        ) from error
    except OSError as error:
        raise LabError(f"cannot enter host {host} ({path}): {error.strerror}") from error
    known = [entry.identity for entry in journal.namespaces if entry.host == host]
    known += [entry.identity for entry in journal.guests if entry.host == host]
    if current_namespace() not in known:
        raise LabError(
            f"{path} is not the network namespace that host {host} of lab {journal.lab} was; it is left alone"
        )


def name_host(lab: LabDir, host: str, is_private: bool) -> None:
    """Let this process, and those that it starts, have the name of a host, and know those of the others.

    Args:  is_private: it is alone in its mount namespace. What is not permitted stays as it is.
    """
    libc = Libc()
    with contextlib.suppress(OSError):
        libc.unshare(CLONE_NEWUTS)
        socket.sethostname(host)
    names = lab.host_names / host
    if is_private and names.is_file():
        with contextlib.suppress(OSError):  # a machine without /etc/hosts has nothing to cover
            libc.mount(str(names), ETC_HOSTS, "none", _MS_BIND)


def enter_private(libc: Libc, pid: int) -> None:
    """Enter the user and mount namespaces of a lab that was started without privilege."""
    for kind, flag in (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS)):
        if os.stat(f"/proc/{pid}/ns/{kind}").st_ino == os.stat(f"/proc/self/ns/{kind}").st_ino:
            continue
        fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        libc.setns(fd, flag)
        os.close(fd)


def own_mounts(*, own_sysfs: bool) -> bool:
    """Move into a mount namespace of one's own; return whether that is permitted.

    The names of network namespaces stay common to this namespace and the machine's, so `ip netns add` and `delete` do
    here what they do on the machine.

    Args:  own_sysfs: make /sys/class/net show the interfaces of this network namespace. Without permission it keeps
           showing those of another.
    """
    libc = Libc()
    try:
        libc.unshare(CLONE_NEWNS)
        with _common_names(libc):
            libc.mount("none", "/", "none", _MS_SLAVE | _MS_REC)
    except OSError:
        return False
    if own_sysfs:
        with contextlib.suppress(OSError):
            with contextlib.suppress(OSError):  # without privilege the old one can only be covered
                libc.umount("/sys", _MNT_DETACH)
            libc.mount("sysfs", "/sys", "sysfs", 0)
    return True


@contextlib.contextmanager
def _common_names(libc: Libc) -> Iterator[None]:
    """Let mounts on names of network namespaces be seen by the machine, also once all other mounts are private.

    Otherwise `ip netns add` would leave a file on the machine, and the namespace would be mounted on it here only.
    """
    names = None
    with contextlib.suppress(
        OSError
    ):  # no names yet, no permission, or before Linux 5.2: the names are private
        flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
        names = libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, bytes(NETNS_DIR), flags)
    yield
    if names is not None:
        with contextlib.suppress(OSError):
            libc.syscall(_SYS_MOVE_MOUNT, names, b"", _AT_FDCWD, bytes(NETNS_DIR), _MOVE_MOUNT_F_EMPTY_PATH)
        os.close(names)


def _enter_devices(lab: LabDir, journal: Journal, host: str, is_private: bool, *, required: bool) -> None:
    """Let this process find the devices of the host. Raises LabError if it must and cannot."""
    try:
        if not is_private:
            raise EntryError("a mount namespace of its own is not permitted")
        if journal.stopped:
            raise EntryError("the process of the lab is stopped")
        enter_devices(lab.device_socket, host)
    except EntryError as error:
        if required:
            raise LabError(f"no umad devices on host {host}: {error}") from error
        import logging  # a start of Python takes a quarter longer with it

        logging.getLogger("opavnic.lab").debug("no umad devices on host %s: %s", host, error)
