"""Guests that are the network namespace of a process."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import TYPE_CHECKING

from opavnic.lab.file.errors import LabError, PrivilegeError
from opavnic.lab.hosts.guests.guest import Guest, GuestKind, held

if TYPE_CHECKING:
    from opavnic.lab.file.guest_model import GuestKeys


class Process(GuestKind):
    """A process."""

    key = "pid"

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Open it by its number."""
        pid = keys.pid or 0
        return hold_process(host, pid, f"process {pid}", self.key)


def hold_process(host: str, pid: int, what: str, kind: str, engine: str = "", container: str = "") -> Guest:
    """Return the guest in whose network namespace a process is. Raises LabError."""
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
    guest = held(host, kind, what, path, fd, pidfd, engine, container)
    if _has_ended(pidfd):  # then the pid, and with it the namespace, may have been another's
        guest.close()
        raise LabError(f"host {host}: {what} ended while the lab joined it")
    return guest


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
