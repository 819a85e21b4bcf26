"""A plain TAP in the network namespace of the calling thread: no offloads, no virtio-net header unless asked for."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

_TUNSETIFF: Final = 0x400454CA
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000
_IFREQ: Final = struct.Struct("16sH22x")


def open_plain_tap(name: str, flags: int = 0) -> int:
    """Return the non-blocking descriptor of a new TAP. Raises OSError if it cannot be made."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, _IFREQ.pack(name.encode(), _IFF_TAP | _IFF_NO_PI | flags))
    except OSError:
        os.close(fd)
        raise
    return fd
