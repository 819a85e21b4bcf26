"""A host on the fabric of a world, what the world needs of the driver of its ports, and who shows a lab its VNICs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from hfi_sim.base.counters import PacketCounters
from hfi_sim.netdev.base import Merging, Netdev
from hfi_sim.nodes.hfi import Hfi, HfiPort
from opavnic.vnic.counters import VnicCounters
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import VportNum


class ShownVnic(Protocol):
    """One VNIC, as it is shown."""

    @property
    def netdev(self) -> Netdev:
        """Its device on the host."""
        ...

    @property
    def vesw_id(self) -> int:
        """Id of its virtual switch; 0: none."""
        ...

    @property
    def config_state(self) -> int:
        """The state that the EM wants, a `ConfigState`."""
        ...

    @property
    def oper_state(self) -> int:
        """Its current state, a `ConfigState`."""
        ...

    @property
    def counters(self) -> VnicCounters | None:
        """Those of the driver; None: it is a kernel's, and `ethtool -S` on the host shows them."""
        ...

    @property
    def port_info(self) -> VeswPortInfo:
        """Its configuration, as far as it is known here."""
        ...

    @property
    def merging(self) -> Merging:
        """The protocols of which received packets come to the host merged."""
        ...


class HostDriver(Protocol):
    """The driver of a host's port: ours, or that of a kernel."""

    @property
    def port(self) -> HfiPort:
        """The port whose VNICs it has."""
        ...

    @property
    def adapters(self) -> Mapping[VportNum, ShownVnic]:
        """The VNICs that are there, by vport."""
        ...

    @property
    def vports_made(self) -> Collection[VportNum]:
        """All vports that were ever there, including those of a driver that has crashed since."""
        ...

    def frames(self, vport_num: VportNum) -> tuple[PacketCounters, PacketCounters]:
        """Return the counters of a VNIC, tx and rx; they survive a crash of the driver."""
        ...

    @property
    def counted(self) -> Collection[str]:
        """The names under which the fabric counts the packets of its VNICs."""
        ...

    def remove_vnic(self, vport_num: VportNum) -> None:
        """Take away a VNIC that is on no virtual switch any more. Raises KeyError: there is none."""

    def crash(self) -> None:
        """Unload it, as far as the fabric sees."""

    def restart(self) -> None:
        """Load it again after `crash`; it has forgotten everything. Does nothing while it runs."""

    def close(self) -> None:
        """Take it and its VNICs from the port. May be called twice."""


CrashHandler = Callable[[str], None]
"""Called with the name of a host whose driver has just been unloaded."""


HeldBy = Literal["driver", "removal"]
"""What keeps the agent of a port from running, each on its own: its driver is unloaded, its HFI is out."""


def no_netdevs() -> None:
    """Handle the end of the netdevs of a port whose host keeps none."""


@dataclass(frozen=True, slots=True)
class WorldHost:
    """One machine on the fabric, with its HFIs."""

    name: str
    hfis: tuple[Hfi, ...]

    @property
    def port(self) -> HfiPort:
        """Its first port: the one that its name means as a member of a virtual switch."""
        return self.hfis[0].ports[1]

    @property
    def ports(self) -> list[HfiPort]:
        """All its ports, HFI by HFI."""
        return [port for hfi in self.hfis for port in hfi.ports.values()]
