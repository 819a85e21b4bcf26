"""The objects of the document, with its names: lnet_ni, kib_net, kib_dev, kib_routes, kib_route.

    LnetNi --ni_data--> KibNet --ibn_devs--> KibDev (1..16)
                          |----ibn_routes--> KibRoutes (one for each peer NID) --> KibRoute (1..16)
                                               KibRoute = (KibDev here, address there)
Source: seed 004, "Data Structures". kib_target_t is in `lnet.targets`, kib_peer_t in `lnet.peer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address

from lnet.networks import LNET_MAX_INTERFACES
from lnet.nid import Net, Nid


class DevState(StrEnum):
    """State of a device (IBLND_DEV_*)."""

    PORT_ACTIVE = "PORT_ACTIVE"
    PORT_DEGRADE = "PORT_DEGRADE"
    """Up, but slower than the expected maximum; still used."""
    PORT_DOWN = "PORT_DOWN"
    FATAL = "FATAL"

    @property
    def usable(self) -> bool:
        """Whether routes over the device may be used."""
        return self in (DevState.PORT_ACTIVE, DevState.PORT_DEGRADE)


class DevEvent(StrEnum):
    """Events of an HFI that change the state of a device (IB_EVENT_*)."""

    DEVICE_FATAL = "DEVICE_FATAL"
    PORT_ACTIVE = "PORT_ACTIVE"
    PORT_ERR = "PORT_ERR"
    LID_CHANGE = "LID_CHANGE"
    """The port has another LID: its connections cannot go on, the device stays up."""


@dataclass(slots=True, eq=False)
class KibDev:
    """One HFI port of a group."""

    name: str
    """The interface: `ib0`."""
    addr: IPv4Address
    state: DevState = DevState.PORT_DOWN
    speed_gbps: float = 0.0
    """Link speed when it last became active."""

    def apply(self, event: DevEvent, speed_gbps: float, expected_gbps: float) -> DevState:
        """Take an event; return the state that follows. A fatal device stays fatal until PORT_ACTIVE."""
        if event is DevEvent.PORT_ACTIVE:
            self.speed_gbps = speed_gbps
            slow = speed_gbps < expected_gbps
            self.state = DevState.PORT_DEGRADE if slow else DevState.PORT_ACTIVE
        elif event is DevEvent.DEVICE_FATAL:
            self.state = DevState.FATAL
        elif event is DevEvent.PORT_ERR and self.state is not DevState.FATAL:
            self.state = DevState.PORT_DOWN
        return self.state


class RouteState(StrEnum):
    """Connection state of a route."""

    NEW = "new"
    """Never used, or closed for idleness: the next message connects it."""
    CONNECTING = "connecting"
    """On the first message, which waits for it."""
    UP = "up"
    DISCONNECTED = "disconnected"
    """Was connected, or could not be; left to the connection daemon."""
    PROBING = "probing"
    """The connection daemon tries it again; it carries nothing until it is up."""

    @property
    def usable(self) -> bool:
        """Whether a message may take the route: it is up, or has not been seen to fail."""
        return self in (RouteState.NEW, RouteState.CONNECTING, RouteState.UP)


@dataclass(slots=True)
class RouteCounters:
    """What went over a route since it was made."""

    messages: int = 0
    """Messages that the peer has."""
    bytes: int = 0
    """Their payload."""
    retries: int = 0
    """Messages that had to go another way, or again."""
    connects: int = 0
    """Connections made."""
    down_s: float = 0.0
    """Time spent disconnected, not counting an outage that still lasts."""


@dataclass(slots=True, eq=False)
class KibRoute:
    """One way to one NID: a device here, an address there."""

    rt_nid: Nid
    rt_addr: IPv4Address
    rt_dev: KibDev
    state: RouteState = RouteState.NEW
    counters: RouteCounters = field(default_factory=RouteCounters)
    down_since: float | None = None
    last_error: str = ""
    """Why it was last lost or refused."""
    share: float = 0.0
    """Running total of the weighted choice."""

    def went_down(self, now: float, reason: str) -> None:
        """Mark the route disconnected."""
        self.state = RouteState.DISCONNECTED
        self.last_error = reason
        if self.down_since is None:
            self.down_since = now

    def came_up(self, now: float) -> None:
        """Mark the route connected."""
        self.state = RouteState.UP
        self.counters.connects += 1
        self._end_outage(now)

    def forget(self, now: float) -> None:
        """Mark the route as one that nobody has asked for yet: it is not down, for nobody tries it."""
        self.state = RouteState.NEW
        self._end_outage(now)

    def _end_outage(self, now: float) -> None:
        if self.down_since is not None:
            self.counters.down_s += now - self.down_since
            self.down_since = None

    def down_for(self, now: float) -> float:
        """Return the time spent disconnected up to `now`, in seconds."""
        return self.counters.down_s + (now - self.down_since if self.down_since is not None else 0.0)

    def __str__(self) -> str:
        return f"{self.rt_dev.addr}->{self.rt_addr}"


def make_mesh(nid: Nid, ips: Sequence[IPv4Address], devices: Sequence[KibDev]) -> list[KibRoute]:
    """Return the routes to `nid`: as many as there are addresses or devices, whichever is more, at most 16.

    Args:    ips: addresses of the peer's target entry; none: the address inside `nid` is used.
    Source:  seed 004, the mesh algorithm under "kib_routes_t and kib_route_t".
    """
    count = min(max(len(ips), len(devices)), LNET_MAX_INTERFACES) if devices else 0
    return [
        KibRoute(nid, ips[i % len(ips)] if ips else nid.addr, devices[i % len(devices)]) for i in range(count)
    ]


@dataclass(slots=True, eq=False)
class KibRoutes:
    """All routes to one peer NID, and where the round robin stands."""

    nid: Nid
    routes: list[KibRoute]
    next: int = 0

    def __iter__(self) -> Iterator[KibRoute]:
        return iter(self.routes)

    def replace(self, mesh: list[KibRoute]) -> list[KibRoute]:
        """Take a new mesh, keep the routes that stand in both; return those that are gone."""
        kept = {(route.rt_dev, route.rt_addr): route for route in self.routes}
        self.routes = [kept.pop((route.rt_dev, route.rt_addr), route) for route in mesh]
        self.next = 0
        return list(kept.values())


@dataclass(slots=True, eq=False)
class KibNet:
    """The devices of one network, and its routes."""

    net: Net
    nid: Nid
    ibn_devs: list[KibDev]
    ibn_routes: dict[Nid, KibRoutes] = field(default_factory=dict)
    closing: bool = False
    """Being removed: no new message is taken."""

    @property
    def ibn_nifaces(self) -> int:
        """How many interfaces the group has."""
        return len(self.ibn_devs)

    def device(self, name: str) -> KibDev | None:
        """Return the device called `name`, or None."""
        return next((dev for dev in self.ibn_devs if dev.name == name), None)


@dataclass(slots=True, eq=False)
class LnetNi:
    """What LNet above sees of a group: one interface with one NID."""

    ni_nid: Nid
    ni_data: KibNet
