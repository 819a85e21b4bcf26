"""Hosts without a kernel: their netdevs are in memory, under a responder or an app of this process."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Address

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.world.host_backends.backend import HostBackend, Interface, SetUp
from opavnic.world.host_backends.memory_host import MemoryHost


class InMemoryHost(HostBackend):
    """A host without a kernel: memory netdevs, each with a responder."""

    runs_no_programs = "hosts in memory run no programs"

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        netdev = MemoryNetdev(name)
        return netdev, partial(self._set_up, netdev)

    def _set_up(self, netdev: MemoryNetdev, interface: Interface) -> None:
        self._occupy(interface, netdev)
        try:
            self._bring_up(netdev, interface.vesw.mtu)
        except NetdevError as error:
            self.trouble.append(f"{interface}: {error}")

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        assert isinstance(netdev, MemoryNetdev)  # noqa: S101 - `_make` makes no other
        netdev.change_mtu(mtu)
        if refused := netdev.open():
            raise NetdevError(f"cannot be set up (errno {-refused})", -refused)

    def _occupy(self, interface: Interface, netdev: MemoryNetdev) -> None:
        """Attach the netdev's users on this host."""
        if interface.address is not None and isinstance(interface.address.ip, IPv4Address):
            interface.memory_host = MemoryHost(netdev, interface.address.ip)


class AppHost(InMemoryHost):
    """A host without a kernel or programs, whose VNICs are used by an app of this process."""

    def __init__(self, name: str, interfaces: list[Interface]) -> None:
        super().__init__(name, interfaces)
        self.runs_no_programs = f"host {name} belongs to an app: it runs no programs"

    def _occupy(self, interface: Interface, netdev: MemoryNetdev) -> None:
        interface.app_netdev = netdev
