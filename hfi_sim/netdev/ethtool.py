"""What `ethtool` reads and sets, as far as needed here: features such as GRO, and the speed of a TAP.

Source: ETHTOOL_GFEATURES, ETHTOOL_SFEATURES, ETHTOOL_GSTRINGS, ETHTOOL_GLINKSETTINGS, ETHTOOL_SLINKSETTINGS and their
structures in the kernel's uapi/linux/ethtool.h; any socket of the namespace will do. The TUN driver keeps the speed
that it is told.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from array import array
from collections.abc import Sequence
from typing import Final

_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_GSTRINGS: Final = 0x1B
_ETHTOOL_GSSET_INFO: Final = 0x37
_ETHTOOL_GFEATURES: Final = 0x3A
_ETHTOOL_SFEATURES: Final = 0x3B
_ETHTOOL_GLINKSETTINGS: Final = 0x4C
_ETHTOOL_SLINKSETTINGS: Final = 0x4D
_FEATURE_STRINGS: Final = 4
_STRING_BYTES: Final = 32
_FEATURES: Final = struct.Struct("=IIII")
"""Bits of 32 features: available, requested, active, never_changed."""
_ACTIVE: Final = 2
_IFREQ: Final = struct.Struct("@16sP16x")
_LINK_SETTINGS: Final = struct.Struct("=IIBBBBBBBb8x28x")
"""cmd, speed in Mb/s, duplex, port, phy_address, autoneg, mdio_support, eth_tp_mdix, eth_tp_mdix_ctrl, words of each
of the three masks that follow."""
_MASK_WORD_BYTES: Final = 4
_MASKS: Final = 3
_DUPLEX_FULL: Final = 1
_PORT_FIBRE: Final = 3
_known_names: list[str] = []
"""The names of features, once a socket has asked the kernel."""


GRO: Final = "rx-gro"
"""Received packets may be merged."""
UDP_GRO: Final = "rx-udp-gro-forwarding"
"""Datagrams, too, although no socket has asked for it; off unless someone switches it on (Linux 5.12)."""


def features(sock: socket.socket, interface: str) -> frozenset[str]:
    """Return the names of the features that are on, as `ethtool -k` lists them by their kernel names.

    Raises:  OSError: there is no such interface.
    """
    names = _feature_names(sock, interface)
    blocks = _blocks(names)
    request = struct.pack("=II", _ETHTOOL_GFEATURES, blocks) + bytes(blocks * _FEATURES.size)
    found = list(_FEATURES.iter_unpack(_exchange(sock, interface, request)[8:]))
    return frozenset(name for bit, name in enumerate(names) if found[bit // 32][_ACTIVE] >> bit % 32 & 1)


def set_feature(sock: socket.socket, interface: str, name: str, on: bool) -> None:
    """Switch a feature, as `ethtool -K` does.

    Raises:  OSError: no such interface, no right to, the kernel does not have the feature (EOPNOTSUPP), or it does not
             let it be changed (EINVAL).
    """
    names = _feature_names(sock, interface)
    if name not in names:
        raise OSError(errno.EOPNOTSUPP, f"the kernel has no feature {name}")
    block, bit = divmod(names.index(name), 32)
    wanted = [(0, 0)] * _blocks(names)
    wanted[block] = (1 << bit, on << bit)
    words = b"".join(struct.pack("=II", *pair) for pair in wanted)
    _exchange(sock, interface, struct.pack("=II", _ETHTOOL_SFEATURES, len(wanted)) + words)


def _feature_names(sock: socket.socket, interface: str) -> Sequence[str]:
    """Return the names of all features of this kernel, by bit: they are the same for all interfaces."""
    if not _known_names:
        asked = struct.pack("=IIQI", _ETHTOOL_GSSET_INFO, 0, 1 << _FEATURE_STRINGS, 0)
        (count,) = struct.unpack_from("=I", _exchange(sock, interface, asked), struct.calcsize("=IIQ"))
        asked = struct.pack("=III", _ETHTOOL_GSTRINGS, _FEATURE_STRINGS, count) + bytes(count * _STRING_BYTES)
        strings = _exchange(sock, interface, asked)[struct.calcsize("=III") :]
        texts = (strings[at : at + _STRING_BYTES] for at in range(0, len(strings), _STRING_BYTES))
        _known_names.extend(text.split(b"\0", 1)[0].decode() for text in texts)
    return _known_names


def _blocks(names: Sequence[str]) -> int:
    return -(-len(names) // 32)


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


def _exchange(sock: socket.socket, interface: str, request: bytes) -> bytes:
    buffer = array("B", request)
    address, _ = buffer.buffer_info()
    fcntl.ioctl(sock, _SIOCETHTOOL, _IFREQ.pack(interface.encode(), address))
    return buffer.tobytes()
