"""Linux hosts: their netdevs are TAPs, in a network namespace or on the machine itself.

Addresses are announced (gratuitous ARP, unsolicited advertisements): kernels do so when a link goes up, and a VNIC
gets its carrier later.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tap import TapNetdev
from hfi_sim.netdev.tap_factory import TapFactory
from hfi_sim.netdev.watch import POLL_S
from hfi_sim.wire.internet_checksum import checksum
from opavnic.world.host_backends.backend import HostBackend, SetUp, lacking
from opavnic.world.host_backends.given import Interface, VnicKey

log = logging.getLogger("opavnic.world")


class TapHost(HostBackend):
    """A Linux host: a network namespace, or the machine itself."""

    def __init__(
        self,
        name: str,
        interfaces: list[Interface],
        namespace: Path | None,
        alias: str,
        *,
        vnet_hdr: bool = False,
        where: str = "",
        poll_s: float = POLL_S,
    ) -> None:
        """Start watching the namespace (None: the machine itself); `alias` marks the interfaces created there.

        Args:  vnet_hdr: create TAPs that can leave checksums and segmentation to the datapath. where: what people call
               the namespace, if not by the name of its file. poll_s: see NamespaceWatcher.
        """
        super().__init__(name, interfaces)
        self.namespace = namespace
        self._where = where
        self._have_sent: set[VnicKey] = set()
        self.is_machine = namespace is None
        self._factory = TapFactory(
            namespace, asyncio.get_running_loop(), alias, vnet_hdr=vnet_hdr, poll_s=poll_s
        )

    @property
    def namespace_name(self) -> str | None:
        """What people call its network namespace."""
        return self._where or super().namespace_name

    def _taken(self, name: str) -> bool:
        return super()._taken(name) or self.has_interface(name)

    def has_interface(self, name: str) -> bool:
        """Return whether an interface of that name exists now."""
        return self._factory.watcher.links.find(name) is not None

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        tap = self._factory(name)
        return tap, partial(self._set_up, tap)

    def _set_up(self, netdev: TapNetdev, interface: Interface) -> None:
        netdev.on_running(partial(self._begins_to_send, netdev, interface))
        try:
            if not interface.link_local:
                self._leave_out_link_local(netdev)
            self._replace_addresses(netdev, (), interface.addresses)
            self._bring_up(netdev, interface.vesw.mtu)
            if interface.attach is not None:
                interface.attach(netdev)
        except NetdevError as error:
            self.trouble.append(f"{interface}: {error}")
            log.error("[%s] %s", interface, error)

    def _replace_addresses(
        self, netdev: Netdev, before: tuple[IpInterface, ...], addresses: tuple[IpInterface, ...]
    ) -> None:
        assert isinstance(netdev, TapNetdev)  # noqa: S101 - `_make` makes no other
        for address in (one for one in before if one not in addresses):
            with contextlib.suppress(NetdevError):  # the host has taken it away itself
                netdev.ask(partial(_remove_ip, netdev.ifindex, address))
        new = [one for one in addresses if one not in before]
        for address in new:
            netdev.ask(partial(_add_ip, netdev.ifindex, address))
        self._announce(netdev, new)

    def _begins_to_send(self, netdev: TapNetdev, interface: Interface) -> None:
        """Announce the addresses of a VNIC; not those of all members of a large virtual switch that has just come."""
        is_known = interface.key in self._have_sent or interface.vesw.id not in self.new_vesws
        self._have_sent.add(interface.key)
        if is_known or interface.link_local:
            self._announce(netdev, netdev.ip_addresses)

    def _announce(self, netdev: TapNetdev, addresses: Iterable[IpInterface]) -> None:
        if not self.announces or netdev.moved_to or not netdev.host_sees_running:
            return
        try:
            its = [address.ip for address in addresses]
            announce(self.namespace, netdev.host_name, netdev.host_address, its)
        except NetdevError as error:
            log.info("[%s] %s", self.name, error)

    def _catch_up(self) -> None:
        self._factory.watcher.drain()

    def _lacking(self, netdev: Netdev, addresses: Iterable[IpInterface]) -> Iterator[IpInterface]:
        return iter(()) if self.is_machine else lacking(netdev, addresses)

    def _leave_out_link_local(self, netdev: Netdev) -> None:
        assert isinstance(netdev, TapNetdev)  # noqa: S101 - `_make` makes no other
        with contextlib.suppress(NetdevError):  # a kernel without IPv6 gives none
            netdev.ask(lambda links: links.leave_out_link_local(netdev.ifindex))

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        assert isinstance(netdev, TapNetdev)  # noqa: S101 - `_make` makes no other
        netdev.ask(
            lambda links: links.set_mtu(netdev.ifindex, mtu)
        )  # an EM lowers an MTU, it never raises one
        netdev.ask(lambda links: links.set_up(netdev.ifindex, True))
        netdev.catch_up()  # else what others send meanwhile is too long for what it was
        # only now: a host would announce its address at once, and there is no carrier yet
        netdev.announce_addresses()

    def release(self) -> list[int]:
        """Let go of all TAPs and return their descriptors."""
        return self._factory.release()

    def close(self) -> None:
        """Remove the interfaces and stop watching."""
        self._factory.close()


def _remove_ip(ifindex: int, address: IpInterface, links: LinkClient) -> None:
    links.remove_ip(ifindex, address)


def _add_ip(ifindex: int, address: IpInterface, links: LinkClient) -> None:
    try:
        links.add_ip(ifindex, address)
    except NetdevError as error:
        if error.errno != errno.EEXIST:
            raise


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
