"""VNICs of a kernel, as this process sees them: by what rtnetlink says there, and by requests to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final

from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.base import IpInterface, Merging, Netdev
from hfi_sim.netdev.link_client import LinkClient
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState

log = logging.getLogger("opavnic.kernel")

_LAST_ASKED: Final = 64


class KernelLinks(LinkClient):
    """Requests to the rtnetlink of a kernel. Answers are not waited for: a request that is refused is logged."""

    def __init__(self, host: str, send: Callable[[bytes], None]) -> None:
        """Args:  send: takes what is to be sent to the kernel's netlink socket."""
        self.namespace = None
        self._host = host
        self._to_kernel = send
        self._sequence = 0
        self._asked: dict[int, str] = {}

    def close(self) -> None:
        """Do nothing."""

    def _exchange(self, kind: int, flags: int, body: bytes, what: str) -> list[tuple[int, bytes]]:
        self._sequence += 1
        self._asked[self._sequence] = what
        self._asked.pop(self._sequence - _LAST_ASKED, None)
        self._to_kernel(
            nl.HEADER.pack(nl.HEADER.size + len(body), kind, flags | nl.NLM_F_REQUEST, self._sequence, 0)
            + body
        )
        return []

    def heard_error(self, data: bytes) -> None:
        """Log that a request was refused."""
        number = nl.errno_of(data)
        what = self._asked.get(nl.HEADER.unpack_from(data)[3])
        if number and what is not None:
            log.error("[%s] cannot %s: %s", self._host, what, os.strerror(number))


class KernelNetdev(Netdev):
    """The netdev of a VNIC in a kernel. Its frames are the kernel's own affair."""

    def __init__(self, links: KernelLinks, link: nl.LinkState) -> None:
        self.links = links
        self.ifindex = link.ifindex
        self.uc_list = self.mc_list = ()
        self.ops = None
        self._ip: list[IpInterface] = []
        self._ip_changed: Callable[[], None] = lambda: None
        self.follow(link)

    def follow(self, link: nl.LinkState) -> None:
        """Be what the kernel says that it is."""
        self.name = link.name
        self.address = link.address
        self.mtu, self.max_mtu = link.mtu, link.max_mtu
        self.is_up = link.up
        self.carrier = link.carrier
        self.dormant = link.operstate == nl.IF_OPER_DORMANT
        self.running = link.operstate == nl.IF_OPER_UP

    def follow_ip(self, address: IpInterface, *, there: bool) -> None:
        """Have an IP address, or have it no more."""
        self._ip = [known for known in self._ip if known != address] + ([address] if there else [])
        self._ip_changed()

    @property
    def ip_addresses(self) -> tuple[IpInterface, ...]:
        """The IP addresses of the interface, without those of a single link (fe80::/10)."""
        return tuple(self._ip)

    def on_ip_addresses(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `ip_addresses` has changed."""
        self._ip_changed = handler

    def rename(self, name: str) -> None:
        """Give it another name; one that is up goes down for a moment, as kernels before 6.2 require."""
        if self.is_up:
            self.links.set_up(self.ifindex, False)
        self.links.rename(self.ifindex, name)
        if self.is_up:
            self.links.set_up(self.ifindex, True)
        self.name = name

    def retire(self) -> None:
        """Leave its name and addresses to others."""
        self.links.set_up(self.ifindex, False)
        self.links.rename(self.ifindex, f"unused{self.ifindex}")
        self.replace_addresses(self.ip_addresses, ())

    def bring_up(self, mtu: int) -> None:
        """Set its MTU, and set it up."""
        self.links.set_mtu(self.ifindex, mtu)
        self.links.set_up(self.ifindex, True)

    def replace_addresses(self, before: tuple[IpInterface, ...], addresses: tuple[IpInterface, ...]) -> None:
        """Take IP addresses from it, and give it others."""
        for address in before:
            if address not in addresses and address in self._ip:
                self.links.remove_ip(self.ifindex, address)
        for address in addresses:
            if address not in before:
                self.links.add_ip(self.ifindex, address)

    # what an adapter of this process would do: the kernel's driver does it

    def receive(self, frame: bytes) -> bool:
        """Take no frame."""
        return False

    def close(self) -> None:
        """Do nothing."""

    def _set(self, *_value: Any, **_named: Any) -> None:
        """Do nothing."""

    set_carrier = set_dormant = set_address = set_mtu = set_max_mtu = _set


class KernelVnic:
    """A VNIC whose driver is a kernel's, as it is shown."""

    def __init__(self, netdev: KernelNetdev) -> None:
        self.netdev = netdev
        self.vesw_id = 0
        self.max_mtu = netdev.max_mtu
        self.counters = None
        """`ethtool -S` in the host shows the driver's own."""
        self.merging = Merging(tcp=False)
        self.port_info = VeswPortInfo.power_on()
        """As far as it is known here: the address that it had when it was put on its virtual switch."""

    @property
    def config_state(self) -> int:
        """What the EM wants, as the kernel shows it: it is dormant unless frames are to pass."""
        return ConfigState.DROP_ALL if self.netdev.dormant or not self.vesw_id else ConfigState.FORWARDING

    @property
    def oper_state(self) -> int:
        """Whether frames pass."""
        return ConfigState.FORWARDING if self.netdev.running else ConfigState.DROP_ALL


class KernelInterfaces:
    """All interfaces of a kernel, by what its rtnetlink says."""

    def __init__(self, links: KernelLinks, changed: Callable[[nl.LinkState, bool], None]) -> None:
        """Args:  changed: called with each interface that is new or has changed, and with whether it is there."""
        self.links: dict[int, nl.LinkState] = {}
        self.netdevs: dict[int, KernelNetdev] = {}
        self.client = links
        self._changed = changed
        self._ip: dict[int, list[IpInterface]] = {}

    def take(self, datagram: bytes) -> None:
        """Take a datagram of rtnetlink."""
        for kind, data in nl.messages(datagram):
            if kind in (nl.RTM_NEWLINK, nl.RTM_DELLINK):
                self._heard_link(nl.parse_link(data), there=kind == nl.RTM_NEWLINK)
            elif kind in (nl.RTM_NEWADDR, nl.RTM_DELADDR):
                entry = nl.parse_ip(data)
                netdev = None if entry is None else self.netdevs.get(entry[0])
                if entry is not None and netdev is not None:
                    netdev.follow_ip(entry[1], there=kind == nl.RTM_NEWADDR)
            elif kind == nl.NLMSG_ERROR:
                self.client.heard_error(data)

    def _heard_link(self, link: nl.LinkState, *, there: bool) -> None:
        if there:
            self.links[link.ifindex] = link
            if (netdev := self.netdevs.get(link.ifindex)) is not None:
                netdev.follow(link)
        else:
            self.links.pop(link.ifindex, None)
            self.netdevs.pop(link.ifindex, None)
        self._changed(link, there)
