"""Tells the neighbours of an interface that its addresses are here: gratuitous ARP and unsolicited advertisements.

Kernels do so when an interface goes up (arp_notify, ndisc_notify). A VNIC gets its carrier later, and what is sent
before is lost.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.wire.internet_checksum import checksum

Address = IPv4Address | IPv6Address

_BROADCAST: Final = b"\xff" * 6
_ALL_NODES: Final = IPv6Address("ff02::1")
_ALL_NODES_MAC: Final = bytes.fromhex("333300000001")
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
_ARP_REQUEST: Final = 1
_ETH_ARP: Final = 0x0806
_ETH_IPV6: Final = 0x86DD
_IPV6: Final = struct.Struct("!IHBB16s16s")
_PSEUDO: Final = struct.Struct("!16s16sI3xB")
_ICMPV6: Final = 58
_ADVERTISEMENT: Final = struct.Struct("!BBHI16sBB6s")
"""Type, code, checksum, flags, target, and the option with the link-layer address of the target."""
_OVERRIDE: Final = 0x2000_0000


def announcements(mac: MacAddr, addresses: Iterable[Address]) -> list[bytes]:
    """Return the frames that announce addresses at a MAC address: RFC 5227, section 3, and RFC 4861, section 7.2.6."""
    return [
        _gratuitous_arp(mac, address) if address.version == 4 else _unsolicited(mac, address)
        for address in addresses
    ]


def _gratuitous_arp(mac: MacAddr, address: Address) -> bytes:
    arp = _ARP.pack(1, 0x0800, 6, 4, _ARP_REQUEST, mac, address.packed, bytes(6), address.packed)
    return _BROADCAST + mac + struct.pack("!H", _ETH_ARP) + arp


def _unsolicited(mac: MacAddr, address: Address) -> bytes:
    def advertisement(check: int) -> bytes:
        return _ADVERTISEMENT.pack(136, 0, check, _OVERRIDE, address.packed, 2, 1, mac)

    source, target = address.packed, _ALL_NODES.packed
    pseudo = _PSEUDO.pack(source, target, _ADVERTISEMENT.size, _ICMPV6)
    body = advertisement(checksum(pseudo + advertisement(0)))
    header = _IPV6.pack(6 << 28, len(body), _ICMPV6, 255, source, target)
    return _ALL_NODES_MAC + mac + struct.pack("!H", _ETH_IPV6) + header + body


def announce(namespace: Path | None, interface: str, mac: MacAddr, addresses: Iterable[Address]) -> None:
    """Send these frames from an interface of a network namespace; None: that of this process.

    Raises:  NetdevError: they cannot be sent.
    """
    frames = announcements(mac, addresses)
    if not frames:
        return

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as sender:
            sender.bind((interface, 0))
            for frame in frames:
                sender.send(frame)

    try:
        run_in_namespace(namespace, send)
    except OSError as error:
        raise NetdevError(
            f"cannot announce addresses of {interface}: {error.strerror}", error.errno or 0
        ) from error
