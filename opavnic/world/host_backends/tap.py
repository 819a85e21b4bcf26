"""Linux hosts: their netdevs are TAPs, in a network namespace or on the machine itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.tap import TapNetdev
from hfi_sim.netdev.tap_factory import TapFactory
from hfi_sim.netdev.watch import POLL_S
from opavnic.world.host_backends.announce import announce
from opavnic.world.host_backends.backend import HostBackend, Interface, SetUp, lacking
from opavnic.world.host_backends.given import VnicKey

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
        """Announce the addresses of a VNIC; in a virtual switch of many members, only if it comes back."""
        is_back = interface.key in self._have_sent
        self._have_sent.add(interface.key)
        if is_back or interface.link_local:
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
