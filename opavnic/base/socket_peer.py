"""The owner of the process at the other end of a Unix socket, which the path does not reveal."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("=3i")
"""struct ucred of unix(7): pid, uid, gid."""


def foreign_peer(connected: socket.socket) -> int | None:
    """Return the user id at the other end of a connection; None if it is this user or root."""
    _, uid = _credentials(connected)
    return None if uid in (os.geteuid(), 0) else int(uid)


def peer_pid(connected: socket.socket) -> int:
    """Return the process at the other end of a connection; 0: it is not seen from here."""
    pid, _ = _credentials(connected)
    return pid


def _credentials(connected: socket.socket) -> tuple[int, int]:
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return int(pid), int(uid)
