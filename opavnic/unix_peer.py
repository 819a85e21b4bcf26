"""Who answers at a Unix socket: a path alone does not say."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("=3i")
"""struct ucred of unix(7): pid, uid, gid."""


def foreign_peer(connected: socket.socket) -> int | None:
    """Return the user id at the other end of a connection; None where it is this user's, or root's."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return None if uid in (os.geteuid(), 0) else int(uid)
