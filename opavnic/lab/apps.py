"""Apps of a lab: programs of the lab's own process that stand on a host where else a kernel would; and services.

Packages bring kinds of apps through the entry point group "opavnic.apps": kind -> an AppFactory. What a package starts
for a lab as a whole, where the lab file asks for it, is a service: group "opavnic.services", name -> a ServiceFactory.
The lab ends both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from hfi_sim.did_you_mean import nearest
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.lab.errors import LabError
from opavnic.lab.hosts import InMemoryHost, Interface
from opavnic.lab.model import APPS, AppModel

if TYPE_CHECKING:
    from opavnic.lab.lab import Lab


class LabApp(Protocol):
    """An app that runs."""

    def status(self) -> dict[str, Any]:
        """Return what `opavnic status` shows of it, as plain data."""
        ...

    async def stop(self) -> None:
        """End it."""


class LabService(Protocol):
    """A service that runs."""

    async def stop(self) -> None:
        """End it."""


AppFactory = Callable[["Lab", AppModel], Awaitable[LabApp]]
ServiceFactory = Callable[["Lab"], Awaitable[LabService | None]]
"""Starts a service; None: the lab file does not ask for it."""
SERVICES: Final = "opavnic.services"


class NodeHost(InMemoryHost):
    """A host without a kernel and without programs of its own: an app of this process uses its VNICs."""

    def _occupy(self, interface: Interface, netdev: MemoryNetdev) -> None:
        interface.app_netdev = netdev


async def start_app(lab: Lab, app: AppModel) -> LabApp:
    """Start an app on its host.

    Raises:  LabError: no installed package brings its kind, or it cannot start.
    """
    factories = {point.name: point for point in entry_points(group=APPS)}
    if app.kind not in factories:
        raise LabError(f'host {app.host}: unknown kind of app "{app.kind}" ({nearest(app.kind, factories)})')
    factory: AppFactory = factories[app.kind].load()
    return await factory(lab, app)


def service_factories() -> Iterator[tuple[str, ServiceFactory]]:
    """Yield the services of the installed packages, by name."""
    for point in entry_points(group=SERVICES):
        yield point.name, point.load()


def node_netdev(lab: Lab, host: str) -> MemoryNetdev:
    """Return the netdev of a node's first VNIC, once the lab has started.

    Raises:  LabError: the host is not a node, or its VNIC has not been made.
    """
    interfaces = lab.host(host).interfaces
    netdev = interfaces[0].app_netdev if interfaces else None
    if netdev is None:
        raise LabError(f"host {host} has no VNIC in this process")
    return netdev
