"""The hosts of a lab: where their netdevs are made, and what is done to one as soon as it is there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface
from pathlib import Path
from typing import Final

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tap import TapFactory, TapNetdev
from opavnic.lab.errors import LabError
from opavnic.lab.memory_host import MemoryHost
from opavnic.lab.model import INTERFACE_NAME_MAX, LabModel, Vesw

log = logging.getLogger("opavnic.lab")

_SUFFIXES: Final = range(2, 100)
_ANNOUNCE = ("ipv4/conf/{}/arp_notify", "ipv6/conf/{}/ndisc_notify")


@dataclass(slots=True)
class Interface:
    """One VNIC of a host, as the lab file asks for it."""

    host: str
    vesw: Vesw
    vport_num: int
    name: str
    address: IPv4Interface | IPv6Interface | None
    netdev: Netdev | None = None
    """There once the EM has created the vport."""
    memory_host: MemoryHost | None = None
    """The small IP stack on the netdev, in a lab in memory."""
    app_netdev: MemoryNetdev | None = None
    """The netdev once more, where an app of this process uses it."""

    def __str__(self) -> str:
        return f"{self.host}/{self.vesw.name}"


_SetUp = Callable[[Interface], None]
"""Sets a new netdev up as an interface of the lab file."""


class LabHost:
    """One machine of the lab. `make_netdev` is the netdev factory of its HFIs."""

    namespace: Path | None = None
    """Its network namespace; None: it has none of its own."""

    def __init__(self, name: str, interfaces: list[Interface]) -> None:
        self.name = name
        self.interfaces = interfaces
        """In the order of their vport numbers, from 1."""
        self.trouble: list[str] = []
        """What went wrong while netdevs were made or set up."""
        self.reserved = names_asked_for(interfaces)
        """Names that only interfaces of the lab file may bear."""
        self._names_beside: dict[int, str] = {}
        """The interfaces of vports that the lab file does not know, also of those that are gone."""

    @property
    def namespace_name(self) -> str | None:
        """The name of its network namespace, as `ip netns` has it."""
        return None if self.namespace is None else self.namespace.name

    def name_of(self, vport_num: int) -> str:
        """Return the interface name of a vport: as the lab file has it, or as `name_for` has chosen it."""
        if 1 <= vport_num <= len(self.interfaces):
            return self.interfaces[vport_num - 1].name
        return self._names_beside.get(vport_num, f"vnic{vport_num}")

    def name_for(self, vport_num: int) -> str:
        """Choose the interface name of a vport that is about to be made.

        One that the lab file does not know gets vnicN, else HOST-vnicN, vnicN-2, vnicN-3, ...: the first that is free
        and no longer than 15 characters. A vport that comes back has the name that it had, where nobody took it.
        """
        if 1 <= vport_num <= len(self.interfaces):
            return self.name_of(vport_num)
        base = f"vnic{vport_num}"
        before = self._names_beside.get(vport_num, base)
        wanted = [before, base, f"{self.name}-{base}", *(f"{base}-{number}" for number in _SUFFIXES)]
        free = (name for name in wanted if len(name) <= INTERFACE_NAME_MAX and not self._taken(name))
        name = self._names_beside[vport_num] = next(free, base)
        return name

    def _taken(self, name: str) -> bool:
        return name in self.reserved

    def make_netdev(self, vport_num: int) -> Netdev:
        """Make the netdev of a vport under the name of `name_for`, and set it up once the caller is done with it.

        Raises:  NetdevError: the host refused.
        """
        try:
            netdev, set_up = self._make(self.name_for(vport_num))
        except NetdevError as error:
            self.trouble.append(f"{self.name}: {error}")
            raise
        if 1 <= vport_num <= len(self.interfaces):
            interface = self.interfaces[vport_num - 1]
            interface.netdev = netdev
            asyncio.get_running_loop().call_soon(set_up, interface)
        return netdev

    def forget_netdevs(self) -> None:
        """Forget all netdevs: their driver is gone."""
        for interface in self.interfaces:
            interface.netdev = interface.memory_host = interface.app_netdev = None

    def _make(self, name: str) -> tuple[Netdev, _SetUp]:
        raise NotImplementedError

    def release(self) -> list[int]:
        """Let go of all netdevs; return the descriptors that still hold them, to be closed by the caller."""
        return []

    def close(self) -> None:
        """Give everything back that this host made."""


class TapHost(LabHost):
    """A host of Linux: a network namespace, or the machine itself."""

    def __init__(
        self,
        name: str,
        interfaces: list[Interface],
        namespace: Path | None,
        alias: str,
        *,
        vnet_hdr: bool = False,
    ) -> None:
        """Begin to watch the namespace (None: the machine itself); `alias` marks what is made there.

        Args:  vnet_hdr: make TAPs that can leave checksums and segmentation to the datapath.
        """
        super().__init__(name, interfaces)
        self.namespace = namespace
        self._factory = TapFactory(namespace, asyncio.get_running_loop(), alias, vnet_hdr=vnet_hdr)

    def _taken(self, name: str) -> bool:
        return super()._taken(name) or self.has_interface(name)

    def has_interface(self, name: str) -> bool:
        """Return whether an interface of that name is there now."""
        return self._factory.watcher.links.find(name) is not None

    def _make(self, name: str) -> tuple[Netdev, _SetUp]:
        tap = self._factory(name)
        return tap, partial(self._set_up, tap)

    def _set_up(self, netdev: TapNetdev, interface: Interface) -> None:
        links = self._factory.watcher.links
        try:
            links.set_mtu(netdev.ifindex, interface.vesw.mtu)  # an EM lowers an MTU, it never raises one
            if interface.address is not None:
                links.add_ip(netdev.ifindex, interface.address)
            announce_addresses(self.namespace, netdev.name)
            links.set_up(netdev.ifindex, True)
        except NetdevError as error:
            self.trouble.append(f"{interface}: {error}")
            log.error("[%s] %s", interface, error)

    def release(self) -> list[int]:
        """Let go of all TAPs and return their descriptors."""
        return self._factory.release()

    def close(self) -> None:
        """Take the interfaces away and stop watching."""
        self._factory.close()


class InMemoryHost(LabHost):
    """A host without a kernel: memory netdevs, each with a responder."""

    def _make(self, name: str) -> tuple[Netdev, _SetUp]:
        netdev = MemoryNetdev(name)
        return netdev, partial(self._set_up, netdev)

    def _set_up(self, netdev: MemoryNetdev, interface: Interface) -> None:
        self._occupy(interface, netdev)
        netdev.change_mtu(interface.vesw.mtu)
        refused = netdev.open()
        if refused:
            self.trouble.append(f"{interface}: cannot be set up (errno {-refused})")

    def _occupy(self, interface: Interface, netdev: MemoryNetdev) -> None:
        """Put on the netdev what answers on it."""
        if interface.address is not None and isinstance(interface.address.ip, IPv4Address):
            interface.memory_host = MemoryHost(netdev, interface.address.ip)


def plan_interfaces(model: LabModel, host: str) -> list[Interface]:
    """Return the VNICs of a host: vport 1, 2, ... in the order of the virtual switches in the file."""
    return [
        Interface(host, vesw, number, vesw.name, model.address(vesw, host))
        for number, vesw in enumerate(model.vesws_of(host), start=1)
    ]


def names_asked_for(interfaces: Iterable[Interface]) -> set[str]:
    """Return the names that the lab file gives to interfaces, and those under which they are there."""
    return {name for interface in interfaces for name in (interface.name, interface.vesw.name)}


def avoid_taken_names(lab: str, interfaces: list[Interface], taken: Callable[[str], bool]) -> None:
    """Rename interfaces on the machine itself whose name is taken there: LAB-blue, or HOST-blue.

    Raises:  LabError: these are taken or too long as well.
    """
    for interface in interfaces:
        wanted = interface.vesw.name
        candidates = [wanted, f"{lab}-{wanted}", f"{interface.host}-{wanted}"]
        free = [name for name in candidates if len(name) <= INTERFACE_NAME_MAX and not taken(name)]
        others = {item.name for item in interfaces if item is not interface}
        name = next((name for name in free if name == wanted or name not in others), None)
        if name is None:
            raise LabError(
                f'an interface "{wanted}" exists on this machine, and {", ".join(candidates[1:])} are taken or longer '
                f"than {INTERFACE_NAME_MAX} characters: give the virtual switch another name"
            )
        interface.name = name


def announce_addresses(namespace: Path | None, interface: str) -> None:
    """Have the kernel tell its neighbours when the address of an interface changes (gratuitous ARP, and for IPv6).

    Without it they go on sending to the old address until their entry expires. A kernel without one of the two
    protocols has nothing to announce.
    """

    def write() -> None:
        for switch in _ANNOUNCE:
            with contextlib.suppress(OSError):
                Path("/proc/sys/net", switch.format(interface)).write_text("1")

    run_in_namespace(namespace, write)
