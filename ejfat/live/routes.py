"""The next hop to a worker, by the kernel's routes through the interface, or by gateways that were given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from ejfat.base.addresses import IpAddress
from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.routes import RouteClient


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the kernel."""

    network: IPv4Network | IPv6Network
    gateway: IpAddress | None = None
    """None: the network is on the link."""
    metric: int = 0


@dataclass(frozen=True, slots=True)
class NextHops:
    """How the load balancer reaches addresses that may be behind a router."""

    interface: str = ""
    """Whose routes hold; empty: none do."""
    gateways: Mapping[int, IpAddress] = field(default_factory=dict)
    """By IP version; in the place of the kernel's."""

    async def of(self, address: IpAddress) -> IpAddress:
        """Return the address to resolve for packets to `address`."""
        routes = await asyncio.to_thread(routes_of, self.interface) if self.interface else []
        return next_hop(address, routes, self.gateways)


def next_hop(address: IpAddress, routes: Sequence[Route], gateways: Mapping[int, IpAddress]) -> IpAddress:
    """Return the next hop to an address: itself on the link, else a gateway.

    The longest prefix wins, then the lowest metric. Without a route and a gateway, the address is taken for one on the
    link.
    """
    fitting = [route for route in routes if address in route.network]
    best = max(fitting, key=lambda route: (route.network.prefixlen, -route.metric), default=None)
    if best is not None and best.gateway is None:
        return address
    given = gateways.get(address.version)
    if given is not None:
        return given
    return address if best is None or best.gateway is None else best.gateway


def routes_of(interface: str) -> list[Route]:
    """Return the routes of the kernel's main table through an interface; none if it is gone."""
    try:
        with contextlib.closing(RouteClient()) as kernel:
            link = kernel.find(interface)
            found = kernel.routes() if link is not None else ()
            return [
                Route(route.to, next(iter(route.via), None), route.metric)
                for route in found
                if link is not None and link.ifindex in route.ifindexes
            ]
    except (NetdevError, OSError):
        return []
