"""What all kinds of hosts have in common: the requested interfaces, their names, the creation of netdevs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev

if TYPE_CHECKING:
    from opavnic.world.ground.memory_host import MemoryHost

INTERFACE_NAME_MAX: Final = 15
"""IFNAMSIZ - 1."""
_SUFFIXES: Final = range(2, 100)


class WantedVesw(Protocol):
    """The virtual switch that an interface is to be on."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def name(self) -> str:
        """Its name; the interface has it too, unless that is taken on the host."""

    @property
    def mtu(self) -> int:
        """Bytes of Ethernet payload."""


Attach = Callable[[Any], None]


@dataclass(slots=True)
class Interface:
    """One VNIC that the lab file requests for a host."""

    host: str
    vesw: WantedVesw
    vport_num: int
    name: str
    address: IPv4Interface | IPv6Interface | None
    netdev: Netdev | None = None
    """None until the EM has created the vport."""
    memory_host: MemoryHost | None = None
    """The small IP stack on the netdev, in a lab in memory."""
    app_netdev: MemoryNetdev | None = None
    """The same netdev, if an app of this process uses it."""
    attach: Attach | None = None
    """Called with each netdev that has been made and set up for it: makes it the port of a bridge."""

    def __str__(self) -> str:
        return f"{self.host}/{self.vesw.name}"


SetUp = Callable[[Interface], None]
"""Sets a new netdev up as an interface of the lab file."""


class GroundHost:
    """One machine of the lab. `make_netdev` is the netdev factory of its HFIs."""

    namespace: Path | None = None
    """Its network namespace; None: it has none of its own."""
    is_machine = False
    """Whether it is the machine itself, whose interfaces are not all of the lab."""
    runs_no_programs = ""
    """Why programs cannot run on it; empty if they can."""

    def __init__(self, name: str, interfaces: list[Interface]) -> None:
        self.name = name
        self.interfaces = interfaces
        """In the order of their vport numbers, from 1."""
        self.trouble: list[str] = []
        """What went wrong while netdevs were made or set up."""
        self.reserved = names_asked_for(interfaces)
        """Names reserved for interfaces of the lab file."""
        self.lost = ""
        """Why the host is gone although the lab runs; empty while it is there."""
        self.speed = 0
        """How fast its links are, in Mb/s, for programs such as ethtool; 0: not said."""
        self.on_change: Callable[[], None] = _nothing
        """Called when a netdev has been made, or its IP addresses have changed."""
        self._names_beside: dict[int, str] = {}
        """Interface names of vports that the lab file does not mention, including those that are gone."""

    @property
    def namespace_name(self) -> str | None:
        """The name of its network namespace, as `ip netns` has it."""
        return None if self.namespace is None else self.namespace.name

    def name_of(self, vport_num: int) -> str:
        """Return the interface name of a vport: the one in the lab file, or the one that `name_for` has chosen."""
        if 1 <= vport_num <= len(self.interfaces):
            return self.interfaces[vport_num - 1].name
        return self._names_beside.get(vport_num, f"vnic{vport_num}")

    def name_for(self, vport_num: int) -> str:
        """Choose the interface name of a vport that is about to be made.

        A vport that the lab file does not mention gets the first of vnicN, HOST-vnicN, vnicN-2, vnicN-3, ... that is
        free and has at most 15 characters. A vport that comes back gets its old name, unless that is taken now.
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
        if self.speed:
            netdev.set_speed(self.speed)
        netdev.on_ip_addresses(lambda: self.on_change())
        self.on_change()
        if 1 <= vport_num <= len(self.interfaces):
            interface = self.interfaces[vport_num - 1]
            interface.netdev = netdev
            asyncio.get_running_loop().call_soon(set_up, interface)
        return netdev

    def forget_netdevs(self) -> None:
        """Forget all netdevs: their driver is gone."""
        for interface in self.interfaces:
            interface.netdev = interface.memory_host = interface.app_netdev = None

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        raise NotImplementedError

    def release(self) -> list[int]:
        """Let go of all netdevs; return the descriptors that still hold them, which the caller closes."""
        return []

    def close(self) -> None:
        """Release everything that this host has created."""


def _nothing() -> None:
    """Nobody wants to know."""


def names_asked_for(interfaces: Iterable[Interface]) -> set[str]:
    """Return the names that the lab file gives to interfaces, and those that they actually have."""
    return {name for interface in interfaces for name in (interface.name, interface.vesw.name)}
