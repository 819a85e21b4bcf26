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
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return None if uid in (os.geteuid(), 0) else int(uid)
