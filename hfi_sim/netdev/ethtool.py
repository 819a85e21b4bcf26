"""What `ethtool` reads and sets, of it: whether received packets may be merged (GRO), and the speed of a TAP.

Source: ETHTOOL_GGRO, ETHTOOL_SGRO, ETHTOOL_GLINKSETTINGS, ETHTOOL_SLINKSETTINGS and struct ethtool_link_settings of the
kernel's uapi/linux/ethtool.h; any socket of the namespace will do. The TUN driver keeps what it is told, and passes
it on.
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
_ETHTOOL_GLINKSETTINGS: Final = 0x4C
_ETHTOOL_SLINKSETTINGS: Final = 0x4D
_IFREQ: Final = struct.Struct("@16sP16x")
_LINK_SETTINGS: Final = struct.Struct("=IIBBBBBBBb8x28x")
"""cmd, speed in Mb/s, duplex, port, phy_address, autoneg, mdio_support, eth_tp_mdix, eth_tp_mdix_ctrl, words of each
of the three masks that follow."""
_MASK_WORD_BYTES: Final = 4
_MASKS: Final = 3
_DUPLEX_FULL: Final = 1
_PORT_FIBRE: Final = 3


def merges_received(sock: socket.socket, interface: str) -> bool:
    """Return whether received packets may be merged. Raises OSError: there is no such interface."""
    return bool(_value(sock, interface, _ETHTOOL_GGRO, 0))


def set_merges_received(sock: socket.socket, interface: str, on: bool) -> None:
    """Let received packets be merged, or not. Raises OSError: no such interface, or no right to."""
    _value(sock, interface, _ETHTOOL_SGRO, int(on))


def set_link_speed(sock: socket.socket, interface: str, speed: int) -> None:
    """Let `ethtool` show a speed in Mb/s, full duplex, and fibre as the port.

    Raises:  OSError: no such interface, no right to, or its driver does not keep what it is told.
    """
    _, _, _, _, phy, autoneg, mdio, mdix, mdix_control, words = _link_settings(sock, interface)
    said = (speed, _DUPLEX_FULL, _PORT_FIBRE, phy, autoneg, mdio, mdix, mdix_control, words)
    _exchange(sock, interface, _LINK_SETTINGS.pack(_ETHTOOL_SLINKSETTINGS, *said) + _masks(words))


def _link_settings(sock: socket.socket, interface: str) -> tuple[int, ...]:
    """Return the fields of `_LINK_SETTINGS`; the kernel first says how long its masks are, as a negative number."""
    asked = _LINK_SETTINGS.pack(_ETHTOOL_GLINKSETTINGS, *(0,) * 9)
    words = -_LINK_SETTINGS.unpack_from(_exchange(sock, interface, asked))[-1]
    asked = _LINK_SETTINGS.pack(_ETHTOOL_GLINKSETTINGS, *(0,) * 8, words) + _masks(words)
    return _LINK_SETTINGS.unpack_from(_exchange(sock, interface, asked))


def _masks(words: int) -> bytes:
    return bytes(_MASKS * words * _MASK_WORD_BYTES)


def _value(sock: socket.socket, interface: str, command: int, value: int) -> int:
    answer = _exchange(sock, interface, struct.pack("=II", command, value))
    found: int = struct.unpack_from("=II", answer)[1]
    return found


def _exchange(sock: socket.socket, interface: str, request: bytes) -> bytes:
    buffer = array("B", request)
    address, _ = buffer.buffer_info()
    fcntl.ioctl(sock, _SIOCETHTOOL, _IFREQ.pack(interface.encode(), address))
    return buffer.tobytes()
