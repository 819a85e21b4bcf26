"""Whether an interface may merge what it receives (GRO), as `ethtool -K DEV gro on|off` has it.

Source: ETHTOOL_GGRO and ETHTOOL_SGRO of the kernel's uapi/linux/ethtool.h; any socket of the namespace will do.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from array import array
from typing import Final

_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_GGRO: Final = 0x2B
_ETHTOOL_SGRO: Final = 0x2C
_IFREQ: Final = struct.Struct("@16sP16x")


def merges_received(sock: socket.socket, interface: str) -> bool:
    """Return whether received packets may be merged. Raises OSError: there is no such interface."""
    return bool(_ethtool(sock, interface, _ETHTOOL_GGRO, 0))


def set_merges_received(sock: socket.socket, interface: str, on: bool) -> None:
    """Let received packets be merged, or not. Raises OSError: no such interface, or no right to."""
    _ethtool(sock, interface, _ETHTOOL_SGRO, int(on))


def _ethtool(sock: socket.socket, interface: str, command: int, value: int) -> int:
    request = array("I", [command, value])
    address, _ = request.buffer_info()
    fcntl.ioctl(sock, _SIOCETHTOOL, _IFREQ.pack(interface.encode(), address))
    return request[1]
