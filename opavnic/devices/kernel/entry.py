"""What a program that enters a host tells the lab, and what it is told: JSON and descriptors on a Unix socket.

    program to lab: {"host": "h1", "device": 57}, /dev/fuse and, if system calls are filtered, the listener
    lab to program: {"classes": ["infiniband", ...], "dev": "dev"}, or {"error": "why not"}

`device` is the st_dev of the mount. `classes` are directories of the mount that belong into /sys/class, `dev` is the
one that belongs at /dev/infiniband.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from typing import Any, Final

from opavnic.base.errors import OpavnicError

MAX_MESSAGE: Final = 4096
MAX_DESCRIPTORS: Final = 2
FUSE_DEVICE: Final = "/dev/fuse"
_FUSE_NUMBER: Final = os.makedev(10, 229)
_LISTENER_LINK: Final = "anon_inode:seccomp notify"


class EntryError(OpavnicError):
    """A program cannot have the devices of a host; the message says why."""


def send_arrival(
    connected: socket.socket, host: str, device: int, fuse_fd: int, listener: int | None
) -> None:
    """Ask for the devices of a host. Raises OSError."""
    descriptors = [fuse_fd] if listener is None else [fuse_fd, listener]
    socket.send_fds(connected, [json.dumps({"host": host, "device": device}).encode()], descriptors)


def receive_arrival(connected: socket.socket) -> tuple[str, int, int, int | None]:
    """Return what `send_arrival` sends: host, device, /dev/fuse, listener; on an error nothing stays open.

    Raises:  EntryError: it is something else. OSError: the connection failed.
    """
    data, descriptors, _, _ = socket.recv_fds(connected, MAX_MESSAGE, MAX_DESCRIPTORS)
    try:
        message: Any = json.loads(data)
        host, device = message["host"], message["device"]
        if not isinstance(host, str) or not isinstance(device, int):
            raise TypeError("host or device")
        if not descriptors or not _is_fuse(descriptors[0]):
            raise EntryError(f"the first descriptor is not that of {FUSE_DEVICE}")
        listener = descriptors[1] if len(descriptors) > 1 else None
        if listener is not None and os.readlink(f"/proc/self/fd/{listener}") != _LISTENER_LINK:
            raise EntryError("the second descriptor is not that of a filter of system calls")
    except BaseException as error:
        for fd in descriptors:
            os.close(fd)
        if isinstance(error, ValueError | TypeError | LookupError | RecursionError):
            raise EntryError("not a request for devices") from error
        raise
    return host, device, descriptors[0], listener


def _is_fuse(fd: int) -> bool:
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == _FUSE_NUMBER


def why_no_fuse() -> str:
    """Return why this process cannot open /dev/fuse; empty if it can."""
    try:
        os.close(os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"{FUSE_DEVICE} does not exist: load the driver with `modprobe fuse`"
    except PermissionError:
        mode = stat.filemode(os.stat(FUSE_DEVICE).st_mode)
        return f"{FUSE_DEVICE} is closed to this user ({mode}): as root run `chmod 0666 {FUSE_DEVICE}`"
    except OSError as error:
        return f"{FUSE_DEVICE} cannot be opened: {error.strerror}"
    return ""
