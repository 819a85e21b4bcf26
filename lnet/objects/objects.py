"""The objects of the document, under its names: kib_net (with its lnet_ni), kib_dev, kib_routes, kib_route.

    KibNet --ibn_devs--> KibDev (1..16)
    Peer ------mesh----> KibRoutes --> KibRoute (1..16) = (KibDev here, address there)
Source: seed 004, "Data Structures". kib_target_t is in `lnet.settings.targets`, kib_peer_t in `lnet.o2iblnd.peer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address

from hfi_sim.base.types import PortEvent
from lnet.base.nid import Net, Nid
from lnet.settings.config import NetTunables
from lnet.settings.networks import LNET_MAX_INTERFACES, Bonding


class DevState(StrEnum):
    """State of a device (IBLND_DEV_*)."""

    PORT_ACTIVE = "PORT_ACTIVE"
    PORT_DEGRADE = "PORT_DEGRADE"
    """Up, but slower than expected; still used."""
    PORT_DOWN = "PORT_DOWN"
    FATAL = "FATAL"

    @property
    def usable(self) -> bool:
        """Whether routes over the device can be used."""
        return self in (DevState.PORT_ACTIVE, DevState.PORT_DEGRADE)


@dataclass(slots=True, eq=False)
class KibDev:
    """One HFI port of a group."""

    name: str
    """The interface: `ib0`."""
    addr: IPv4Address
    state: DevState = DevState.PORT_DOWN
    speed_gbps: float = 0.0
    """Link speed in Gb/s; while the device is down, its last one."""

    def apply(self, event: PortEvent, speed_gbps: float, expected_gbps: float) -> DevState:
        """Apply an event and return the new state. A fatal device stays fatal until PORT_ACTIVE."""
        if event is PortEvent.PORT_ACTIVE or (event is PortEvent.SPEED_CHANGE and self.state.usable):
            self.speed_gbps = speed_gbps
            slow = speed_gbps < expected_gbps
            self.state = DevState.PORT_DEGRADE if slow else DevState.PORT_ACTIVE
        elif event is PortEvent.DEVICE_FATAL:
            self.state = DevState.FATAL
        elif event is PortEvent.PORT_ERR and self.state is not DevState.FATAL:
            self.state = DevState.PORT_DOWN
        return self.state


class RouteState(StrEnum):
    """Connection state of a route."""

    NEW = "new"
    """Not used yet, or closed because it was idle; the next message connects it."""
    CONNECTING = "connecting"
    """The first connection is being made; messages wait for it."""
    UP = "up"
    DISCONNECTED = "disconnected"
    """Lost or could not be connected; left to the connection daemon."""
    PROBING = "probing"
    """The connection daemon is reconnecting it; it carries no message until it is up."""

    @property
    def usable(self) -> bool:
        """Whether a message may take the route: it is up or has not failed yet."""
        return self in (RouteState.NEW, RouteState.CONNECTING, RouteState.UP)


@dataclass(slots=True)
class RouteCounters:
    """Traffic of a route since it was created."""

    messages: int = 0
    """Messages done."""
    bytes: int = 0
    """Their payload."""
    retries: int = 0
    """Messages that had to take another route or be sent again."""
    connects: int = 0
    """Connections made."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Connections that the peer rejected, by reason: CONN_STALE."""
    down_s: float = 0.0
    """Seconds spent disconnected, without an outage that is still in progress."""


@dataclass(slots=True, eq=False)
class KibRoute:
    """A route to a NID: a local device and a remote address."""

    rt_nid: Nid
    rt_addr: IPv4Address
    rt_dev: KibDev
    state: RouteState = RouteState.NEW
    counters: RouteCounters = field(default_factory=RouteCounters)
    down_since: float | None = None
    last_error: str = ""
    """Reason for the last loss or rejection; empty while the route is up."""
    share: float = 0.0
    """Balance in the weighted round robin."""

    def went_down(self, now: float, reason: str) -> None:
        """Mark the route disconnected."""
        self.state = RouteState.DISCONNECTED
        self.last_error = reason
        if self.down_since is None:
            self.down_since = now

    def came_up(self, now: float) -> None:
        """Mark the route connected."""
        self.state = RouteState.UP
        self.last_error = ""
        self.counters.connects += 1
        if self.down_since is not None:
            self.counters.down_s += now - self.down_since
            self.down_since = None

    def down_for(self, now: float) -> float:
        """Return the time spent disconnected up to `now`, in seconds."""
        return self.counters.down_s + (now - self.down_since if self.down_since is not None else 0.0)

    def __str__(self) -> str:
        return f"{self.rt_dev.addr}->{self.rt_addr}"


def make_mesh(nid: Nid, ips: Sequence[IPv4Address], devices: Sequence[KibDev]) -> list[KibRoute]:
    """Return the routes to `nid`: as many as addresses or devices (the larger number), but at most 16.

    Args:    ips: addresses of the peer's target; if empty, the address inside `nid` is used.
    Source:  seed 004, the mesh algorithm under "kib_routes_t and kib_route_t".
    """
    count = min(max(len(ips), len(devices)), LNET_MAX_INTERFACES) if devices else 0
    return [
        KibRoute(nid, ips[i % len(ips)] if ips else nid.addr, devices[i % len(devices)]) for i in range(count)
    ]


@dataclass(slots=True, eq=False)
class KibRoutes:
    """All routes to a peer NID, with the position of the round robin."""

    routes: list[KibRoute]
    next: int = 0

    def __iter__(self) -> Iterator[KibRoute]:
        return iter(self.routes)

    def replace(self, mesh: list[KibRoute]) -> list[KibRoute]:
        """Replace the mesh, keeping the routes that are also in the new one; return the removed ones.

        The round robin goes on with the route that was next, or with the one in its place.
        """
        following = self.routes[self.next] if self.routes else None
        kept = {(route.rt_dev, route.rt_addr): route for route in self.routes}
        self.routes = [kept.pop((route.rt_dev, route.rt_addr), route) for route in mesh]
        if following in self.routes:
            self.next = self.routes.index(following)
        elif self.routes:
            self.next %= len(self.routes)
        return list(kept.values())


@dataclass(slots=True, eq=False)
class KibNet:
    """A network: its NID, and the devices of its group."""

    net: Net
    nid: Nid
    ibn_devs: list[KibDev]
    closing: bool = False
    """Being removed; accepts no new messages."""
    bonding: Bonding = Bonding.O2IBS
    tunables: NetTunables = field(default_factory=NetTunables)

    def nid_of(self, dev: KibDev) -> Nid:
        """Return the NID of a device: the one of the group, or its own with Multi-Rail."""
        return Nid(self.net, dev.addr) if self.bonding is Bonding.MULTI_RAIL else self.nid

    @property
    def nids(self) -> dict[Nid, list[KibDev]]:
        """The NIDs of the network, each with its devices."""
        nids: dict[Nid, list[KibDev]] = {}
        for dev in self.ibn_devs:
            nids.setdefault(self.nid_of(dev), []).append(dev)
        return nids

    @property
    def usable(self) -> bool:
        """Whether a device of the network works."""
        return any(dev.state.usable for dev in self.ibn_devs)

    def device(self, name: str) -> KibDev | None:
        """Return the device called `name`, or None."""
        return next((dev for dev in self.ibn_devs if dev.name == name), None)


def is_multi_rail(net: KibNet | None) -> bool:
    """Return whether a network has a NID for each device."""
    return net is not None and net.bonding is Bonding.MULTI_RAIL
