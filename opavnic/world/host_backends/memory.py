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
    """A host without a kernel: memory netdevs, each with a responder, or used by an app of this process."""

    def __init__(self, name: str, interfaces: list[Interface], *, of_app: bool = False) -> None:
        super().__init__(name, interfaces)
        self._of_app = of_app
        self.runs_no_programs = "hosts in memory run no programs"
        if of_app:
            self.runs_no_programs = f"host {name} belongs to an app: it runs no programs"

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        netdev = MemoryNetdev(name)
        return netdev, partial(self._set_up, netdev)

    def _set_up(self, netdev: MemoryNetdev, interface: Interface) -> None:
        first = next((one.ip for one in interface.addresses if isinstance(one.ip, IPv4Address)), None)
        if self._of_app:
            interface.app_netdev = netdev
        elif first is not None:
            interface.memory_host = MemoryHost(netdev, first)
        try:
            self._bring_up(netdev, interface.vesw.mtu)
        except NetdevError as error:
            self.trouble.append(f"{interface}: {error}")

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        assert isinstance(netdev, MemoryNetdev)  # noqa: S101 - `_make` makes no other
        netdev.change_mtu(mtu)
        if refused := netdev.open():
            raise NetdevError(f"cannot be set up (errno {-refused})", -refused)
