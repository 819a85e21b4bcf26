"""The next hop to a worker, by the kernel's routes through the interface, or by gateways that were given."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from ejfat.base.addresses import IpAddress
from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.routes import KernelRoute, RouteClient


def next_hop(
    address: IpAddress, routes: Sequence[KernelRoute], gateways: Mapping[int, IpAddress]
) -> IpAddress:
    """Return the next hop to an address: itself on the link, else a gateway.

    The longest prefix wins, then the lowest metric. Without a route and a gateway, the address is taken for one on the
    link.
    """
    fitting = [route for route in routes if address in route.to]
    best = max(fitting, key=lambda route: (route.to.prefixlen, -route.metric), default=None)
    if best is not None and not best.via:
        return address
    return gateways.get(address.version) or next(iter(best.via if best else ()), address)


def routes_of(interface: str) -> list[KernelRoute]:
    """Return the routes of the kernel's main table through an interface; none if it is gone."""
    try:
        with contextlib.closing(RouteClient()) as kernel:
            link = kernel.find(interface)
            found = kernel.routes() if link is not None else ()
            return [route for route in found if link is not None and link.ifindex in route.ifindexes]
    except (NetdevError, OSError):
        return []
