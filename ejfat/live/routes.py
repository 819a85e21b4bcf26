"""The next hop to a worker, by the kernel's routes through the interface, or by gateways that were given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from ejfat.base.addresses import IpAddress

_MAIN_TABLE = 254
_FAMILIES = {2: 4, 10: 6}
"""IP versions by the kernel's address family."""


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
    from pyroute2 import IPRoute  # imported here, because the program forwards frames before it needs routes
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as kernel:
            index = kernel.link_lookup(ifname=interface)
            found = kernel.get_routes(table=_MAIN_TABLE) if index else ()
            return [route for row in found if (route := _route(row, index[0])) is not None]
    except (NetlinkError, OSError):
        return []


def _route(row: Any, index: int) -> Route | None:
    version = _FAMILIES.get(row["family"])
    if version is None or row.get_attr("RTA_OIF") != index or row["type"] != 1:  # RTN_UNICAST
        return None
    anything = "0.0.0.0" if version == 4 else "::"  # noqa: S104 - the network of a default route
    network = ip_network(f"{row.get_attr('RTA_DST') or anything}/{row['dst_len']}")
    via = row.get_attr("RTA_GATEWAY")
    return Route(network, None if via is None else ip_address(via), row.get_attr("RTA_PRIORITY") or 0)
