"""The state of running labs on disk, and how to tell whether a lab is still running.

    ROOT/LAB/state.json    the journal: boot, process, namespaces, interfaces; written before they are created
    ROOT/LAB/control.sock  HTTP and JSON; ROOT/LAB/mad.sock: raw MADs; ROOT/LAB/devices.sock: lets programs have umad
    ROOT/LAB/log           the log; ROOT/LAB/log.1: its older part
    ROOT/LAB/hosts/HOST    what programs on a host find as /etc/hosts
    ROOT/LAB/parts         files and sockets of its parts, of any name

The process of a lab holds a lock on its directory as long as it lives; the kernel releases it even after kill -9. So
a directory without a lock belongs to a lab that is gone.

Another user may create a directory of that name first, for example in /tmp. So a directory is trusted only if it
belongs to this user and is closed to others. This applies to root as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from hfi_sim.base.text import nearest
from hfi_sim.netdev.namespace import Libc
from opavnic.lab.file.errors import JournalError, LabError, LabRunningError, NoLabError
from opavnic.lab.ownership.identity import NamespaceId, boot_id
from opavnic.lab.ownership.journal_entries import (
    GuestEntry,
    LinkEntry,
    NamespaceEntry,
    NetdevEntry,
    SettingEntry,
    checked,
)
from opavnic.lab.ownership.log_file import OLD_SUFFIX
from opavnic.lab.ownership.places import ROOT_VARIABLE as ROOT_VARIABLE
from opavnic.lab.ownership.places import runtime_root as runtime_root
from opavnic.lab.ownership.process import is_stopped, process_start_time, wait_if_killed

STATE_FILE: Final = "state.json"
CONTROL_SOCKET: Final = "control.sock"
MAD_SOCKET: Final = "mad.sock"
DEVICE_SOCKET: Final = "devices.sock"
KERNEL_SOCKET: Final = "kernels.sock"
LOG_FILE: Final = "log"
OLD_LOG_FILE: Final = LOG_FILE + OLD_SUFFIX
PRIVATE_DIR: Final = "netns"
"""Directory of namespace names for labs that may not use the system's directory."""
NAMES_DIR: Final = "hosts"
"""Directory of the files that programs on a host find as `ETC_HOSTS`, one for each host."""
PARTS_DIR: Final = "parts"
"""Directory of what parts of the lab make; it goes with all that is in it."""
ETC_HOSTS: Final = "/etc/hosts"
KERNEL: Final = "kernel"
"""The kind of hosts that are kernels of their own."""
_FILES: Final = (
    CONTROL_SOCKET,
    MAD_SOCKET,
    DEVICE_SOCKET,
    KERNEL_SOCKET,
    LOG_FILE,
    OLD_LOG_FILE,
    STATE_FILE + ".new",
)
_MNT_DETACH: Final = 2
_SOCKET_PATH_MAX: Final = 107  # sun_path
_JOURNAL_MAX: Final = 1 << 24


def make_private(directory: Path) -> None:
    """Create a directory that only this user may enter, or check that an existing one is private.

    Raises:  LabError: it belongs to another user or is open to others.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(directory)
    except OSError as error:
        raise LabError(f"cannot make {directory}: {error.strerror}") from error


def check_private(directory: Path) -> None:
    """Raise LabError if a directory belongs to another user or is open to others; OSError if it does not exist."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise LabError(
            f"{directory} must belong to this user (uid {os.geteuid()}) and be closed to others; it belongs to uid "
            f"{status.st_uid} with mode {stat.filemode(status.st_mode)} and is left alone (select another directory "
            f"with {ROOT_VARIABLE})"
        )


def open_own(path: Path) -> IO[str]:
    """Open a text file that a lab of this user has written.

    Raises:  OSError: it cannot be opened. LabError: it is not a regular file, or belongs to another user.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise LabError(
            f"{path} is not a file of this user ({stat.filemode(status.st_mode)}, uid {status.st_uid})"
        )
    return os.fdopen(fd, encoding="utf-8", errors="replace")


_ENTRIES: Final[dict[str, type]] = {
    "namespaces": NamespaceEntry,
    "netdevs": NetdevEntry,
    "guests": GuestEntry,
    "links": LinkEntry,
    "settings": SettingEntry,
}


@dataclass(slots=True)
class Journal:
    """What a lab has created or is about to create."""

    lab: str
    pid: int
    start_time: int
    """Clock ticks after boot; distinguishes the process from a later one with the same pid."""
    file: str = ""
    machine: str = ""
    """The name of this machine in a cluster; empty: the lab is on this machine alone."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """The hosts on other machines of the cluster, each with its machine."""
    private: bool = False
    """The lab runs in user, mount and network namespaces of its own."""
    namespaces: list[NamespaceEntry] = field(default_factory=list)
    netdevs: list[NetdevEntry] = field(default_factory=list)
    guests: list[GuestEntry] = field(default_factory=list)
    links: list[LinkEntry] = field(default_factory=list)
    settings: list[SettingEntry] = field(default_factory=list)
    boot: str = field(default_factory=boot_id)
    """Id of the machine's boot; processes and namespaces of another boot are gone."""
    failure: str = ""
    """Why the lab carries nothing any more, while its process keeps hosts and programs until it is told to end."""

    @classmethod
    def from_json(cls, text: str) -> Journal:
        """Read a journal. Raises ValueError if it is not one of this version."""
        try:
            data = checked(cls, dict(json.loads(text)))
            for name, kind in _ENTRIES.items():
                data[name] = [kind(**checked(kind, entry)) for entry in data[name]]
            return cls(**data)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"not a journal of a lab: {error}") from error

    @property
    def alias(self) -> str:
        """What marks the interfaces of the lab, as `ip link` shows it."""
        return f"opavnic:{self.lab}"

    @property
    def identities(self) -> list[NamespaceId]:
        """The identities of the lab's namespaces."""
        return [entry.identity for entry in self.namespaces]

    @property
    def kernels(self) -> list[str]:
        """The hosts that are kernels of their own."""
        return [entry.host for entry in self.guests if entry.kind == KERNEL]

    @property
    def hosts(self) -> list[str]:
        """The hosts of the lab, each once."""
        names = [entry.host for entry in self.namespaces]
        names += [entry.host for entry in self.netdevs] + [entry.host for entry in self.guests]
        return list(dict.fromkeys(names))

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return process_start_time(self.pid) == self.start_time and self.boot == boot_id()

    @property
    def stopped(self) -> bool:
        """Whether the process is stopped, for example by SIGSTOP: it is alive but does not respond."""
        return is_stopped(self.pid)

    def way_out(self) -> str:
        """Return, for a message, what the user can do about a process that does not respond."""
        remove = f"kill -9 {self.pid} and opavnic prune remove it"
        if self.stopped:
            return f"its process is stopped: kill -CONT {self.pid} lets it go on, {remove}"
        return f"see: opavnic logs --lab {self.lab}; {remove}"


class LabDir:
    """The directory of one lab."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.control_socket = path / CONTROL_SOCKET
        self.mad_socket = path / MAD_SOCKET
        self.device_socket = path / DEVICE_SOCKET
        self.kernel_socket = path / KERNEL_SOCKET
        self.log_file = path / LOG_FILE
        self.old_log_file = path / OLD_LOG_FILE
        self.private_names = path / PRIVATE_DIR
        self.host_names = path / NAMES_DIR
        self.parts = path / PARTS_DIR
        self._lock: int | None = None

    def machine_socket(self, machine: str) -> Path:
        """Return the socket of the control API of another machine of the cluster."""
        return self.parts / f"machine-{machine}.sock"

    def acquire(self) -> None:
        """Create the directory and lock it.

        Raises:  LabRunningError: another process holds the lock. LabError: it cannot be created.
        """
        make_private(self.path.parent)
        if len(os.fsencode(self.control_socket)) > _SOCKET_PATH_MAX:
            raise LabError(f"{self.control_socket}: too long for a Unix socket ({_SOCKET_PATH_MAX} bytes)")
        while self._lock is None:
            make_private(self.path)
            fd = self._locked_fd()
            if fd is not None:
                self._lock = fd

    def _locked_fd(self, *, retry: bool = True) -> int | None:
        """Return a locked descriptor of the directory, or None if it was removed meanwhile."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.fstat(fd).st_ino == self.path.stat().st_ino
        except BlockingIOError:
            os.close(fd)
            journal = self._load_if_readable()
            if retry and journal is not None and wait_if_killed(journal.pid, journal.start_time):
                return self._locked_fd(retry=False)  # with the process, its lock has gone
            who = f" (pid {journal.pid})" if journal is not None and journal.alive else ""
            if journal is not None and journal.failure:
                raise LabRunningError(
                    f"lab {self.name}{who} has ended ({journal.failure}), but its hosts are still there; remove them "
                    f"with: opavnic down {self.name}"
                ) from None
            raise LabRunningError(f"lab {self.name} is already running{who}") from None
        except FileNotFoundError:
            same = False
        if same:
            return fd
        os.close(fd)
        return None

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def load(self) -> Journal | None:
        """Return the journal, or None if there is none.

        Raises:  JournalError: it cannot be read.
        """
        path = self.path / STATE_FILE
        try:
            with open_own(path) as file:
                text = file.read(_JOURNAL_MAX)
            return Journal.from_json(text)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, LabError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise JournalError(
                f"{path} is not a lab journal that this version can read ({reason}), so what the lab has created is "
                f"unknown: remove its namespaces, as `ip netns` shows them, and {self.path} by hand"
            ) from error

    def _load_if_readable(self) -> Journal | None:
        try:
            return self.load()
        except JournalError:
            return None

    def log_lines(self) -> Iterator[str]:
        """Yield the lines of its log files, the older file first."""
        for path in (self.old_log_file, self.log_file):
            try:
                with open_own(path) as file:
                    for line in file:
                        yield line.rstrip("\n")
            except FileNotFoundError:
                continue
            except OSError as error:
                raise LabError(f"cannot read {path}: {error.strerror}") from error

    def begin(self, journal: Journal) -> None:
        """Write the first journal of a lab, and make the directory of its parts. Raises LabError."""
        self.save(journal)
        make_private(self.parts)

    def save(self, journal: Journal) -> None:
        """Write the journal atomically."""
        text = json.dumps(asdict(journal), indent=1)
        draft = self.path / (STATE_FILE + ".new")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.path / STATE_FILE)
        except OSError as error:
            raise LabError(f"cannot write {draft}: {error.strerror}") from error

    @property
    def running(self) -> bool:
        """Whether the process of this lab is running."""
        journal = self._load_if_readable()
        return journal is not None and journal.alive

    @property
    def is_of_a_lab(self) -> bool:
        """Whether a lab of this user created it: it has a journal, or contains only files that a lab creates."""
        try:
            check_private(self.path)
            known = {*_FILES, STATE_FILE, PRIVATE_DIR, NAMES_DIR, PARTS_DIR}
            return self._load_if_readable() is not None or set(os.listdir(self.path)) <= known
        except (OSError, LabError):
            return False

    def remove(self) -> None:
        """Remove the directory and the files of a lab in it, the journal last: with it, what is left is found again.

        Does nothing if the directory is already gone.
        """
        if not os.path.lexists(self.path):
            return
        if not self.is_of_a_lab:
            raise LabError(f"{self.path} contains files that no lab created; it is left alone")
        try:
            for name in _FILES:
                (self.path / name).unlink(missing_ok=True)
            if self.host_names.is_dir() and not self.host_names.is_symlink():
                for file in self.host_names.iterdir():
                    file.unlink()
                self.host_names.rmdir()
            if self.private_names.is_mount():
                Libc().umount(str(self.private_names), _MNT_DETACH)
            if self.private_names.is_dir():
                self.private_names.rmdir()
            if self.parts.is_dir() and not self.parts.is_symlink():
                shutil.rmtree(self.parts)
            (self.path / STATE_FILE).unlink(missing_ok=True)
            if strangers := sorted(os.listdir(self.path)):
                raise LabError(f"{self.path} stays: {', '.join(strangers)} in it is not the lab's")
            self.path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise LabError(f"cannot remove {self.path}: {error.strerror}") from error


def all_labs() -> list[LabDir]:
    """Return the directories of all labs that are running or have left something, sorted by name.

    Raises:  LabError: the directory that holds them cannot be read, or is not private to this user.
    """
    root = runtime_root()
    try:
        check_private(root)
        return [lab for lab in map(LabDir, sorted(root.iterdir())) if lab.is_of_a_lab]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"cannot read {root}: {error.strerror}") from error


def running_lab(name: str | None) -> tuple[LabDir, Journal]:
    """Return the running lab of that name, or the only running lab if `name` is None.

    Raises:  NoLabError: there is none, or `name` is None and there are several. JournalError: the journal that would
             tell cannot be read. LabError: the directory of labs is not private to this user.
    """
    journals = []
    unreadable: dict[str, JournalError] = {}
    for lab in all_labs():
        try:
            journal = lab.load()
        except JournalError as error:
            unreadable[lab.name] = error
            continue
        if journal is not None:
            journals.append((lab, journal))
    running = {lab.name: (lab, journal) for lab, journal in journals if journal.alive}
    if unreadable and (name in unreadable or (name is None and not running)):
        raise unreadable.get(name or "", next(iter(unreadable.values())))
    if name is not None:
        if name in running:
            return running[name]
        known = (
            f" (running: {nearest(name, running).removeprefix('known: ')})"
            if running
            else " (no lab is running)"
        )
        raise NoLabError(f'lab "{name}" is not running{known}')
    if not running:
        if journals:
            dead = ", ".join(lab.name for lab, _ in journals)
            raise NoLabError(
                f"no lab is running; {dead} was killed and left objects behind: opavnic prune removes them"
            )
        raise NoLabError("no lab is running; start one with: opavnic up FILE")
    if len(running) > 1:
        raise NoLabError(
            f"{len(running)} labs are running ({', '.join(running)}); select one with --lab NAME"
        )
    return next(iter(running.values()))
