"""Where the control sockets of managers are, which of them a command means, and whose a database is."""

from __future__ import annotations

import contextlib
import fcntl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opavnic.base.errors import OpavnicError
from opavnic.lab.ownership.places import runtime_root

_SUFFIX: Final = ".sock"


def sockets_dir() -> Path:
    """Return the directory of control sockets: beside that of labs, /run/opavnic-em for root."""
    root = runtime_root()
    return root.with_name(f"{root.name}-em")


def socket_for(chosen: str, guid: int) -> Path:
    """Return where a manager on a port serves. Args: chosen: by the user; empty: the usual place."""
    return Path(chosen).absolute() if chosen else sockets_dir() / f"{guid:016x}{_SUFFIX}"


def sockets() -> list[Path]:
    """Return the control sockets in the usual place; some may be left over by a manager that was killed."""
    try:
        return sorted(path for path in sockets_dir().iterdir() if stat.S_ISSOCK(path.lstat().st_mode))
    except OSError:
        return []


def socket_of(text: str) -> Path:
    """Return the socket that a user means by its path, or by the GUID of the manager's port.

    Raises:  OpavnicError: there is none.
    """
    guid = text.lower().removeprefix("0x")
    found = [path for path in sockets() if path.stem == guid.zfill(16)]
    path = found[0] if found else Path(text)
    if path.is_socket():
        return path
    there = ", ".join(f"0x{path.stem}" for path in sockets()) or "none"
    raise OpavnicError(
        f"{text}: no control socket of an Ethernet Manager, nor a port GUID (there are: {there})"
    )


@contextlib.contextmanager
def sole_user(database: str) -> Iterator[None]:
    """Keep a database that exists to this process until the context is left, which is to be after it is closed.

    Raises:  OpavnicError: another process has it.
    """
    with open(database, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OpavnicError(
                f"--database {database}: another Ethernet Manager uses it; each has one of its own"
            ) from None
        yield
