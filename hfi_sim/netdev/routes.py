"""Routes of a network namespace."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.netdev.netlink import (
    NLM_F_CREATE_EXCL,
    NLM_F_CREATE_REPLACE,
    RTM_DELROUTE,
    RTM_NEWROUTE,
    LinkClient,
    parse_route,
)

if TYPE_CHECKING:
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

_RT_TABLE_MAIN: Final = 254
_RTPROT_STATIC: Final = 4
_RTN_UNICAST: Final = 1
_RT_SCOPE_UNIVERSE: Final = 0
_RT_SCOPE_LINK: Final = 253
_METRIC_OF_IPV6: Final = 1024
"""That of routes of IPv6 that say none (IP6_RT_PRIO_USER)."""

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """A route of the main table, as the kernel has it."""

    to: IpNetwork
    via: frozenset[IpAddress]
    """Its gateways; none: everything is on the link."""
    ifindexes: frozenset[int]
    metric: int

    def is_made_by(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> bool:
        """Return whether `add_route` with these arguments makes it."""
        default = _METRIC_OF_IPV6 if to.version == 6 else 0
        return (
            self.to == to
            and self.via == frozenset(via)
            and (not ifindex or self.ifindexes == {ifindex})
            and self.metric == (metric or default)
        )


class RouteClient(LinkClient):
    """Adds and removes routes of one namespace. A request that the kernel refuses raises NetdevError."""

    def routes(self) -> list[KernelRoute]:
        """Return the unicast routes of the main table."""
        found = (parse_route(data) for kind, data in self.all_routes() if kind == RTM_NEWROUTE)
        return [_kernel_route(route) for route in found if _is_of_main(route)]

    def replace_route(
        self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None
    ) -> None:
        """Put a route in place of the one for its destination; the arguments are those of `add_route`."""
        fields = _fields(to, via, ifindex, metric)
        self._ask_of_routes(RTM_NEWROUTE, NLM_F_CREATE_REPLACE, fields, f"replace the route to {to}")

    def add_route(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> None:
        """Add a route, as `ip route add` does.

        Args:  via: its gateways, of which several share the traffic. ifindex: its interface; 0: as the gateway says.
        """
        fields = _fields(to, via, ifindex, metric)
        self._ask_of_routes(RTM_NEWROUTE, NLM_F_CREATE_EXCL, fields, f"add the route to {to}")

    def remove_route(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> None:
        """Remove a route that was added with these arguments."""
        self._ask_of_routes(RTM_DELROUTE, 0, _fields(to, via, ifindex, metric), f"remove the route to {to}")


def _is_of_main(route: rtmsg) -> bool:
    return bool(route["table"] == _RT_TABLE_MAIN and route["type"] == _RTN_UNICAST)


def _kernel_route(route: rtmsg) -> KernelRoute:
    every = "::" if route["family"] == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - a destination
    hops = route.get_attr("RTA_MULTIPATH") or ()
    gateways = [hop.get_attr("RTA_GATEWAY") for hop in hops] or [route.get_attr("RTA_GATEWAY")]
    ifindexes = [hop["oif"] for hop in hops] or [route.get_attr("RTA_OIF")]
    return KernelRoute(
        ipaddress.ip_network(f"{route.get_attr('RTA_DST') or every}/{route['dst_len']}"),
        frozenset(ipaddress.ip_address(gateway) for gateway in gateways if gateway),
        frozenset(ifindex for ifindex in ifindexes if ifindex),
        route.get_attr("RTA_PRIORITY") or 0,
    )


def _fields(to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> dict[str, Any]:
    attrs: list[tuple[str, Any]] = []
    if to.prefixlen:
        attrs.append(("RTA_DST", str(to.network_address)))
    if len(via) == 1:
        attrs.append(("RTA_GATEWAY", str(via[0])))
    elif via:
        hops = [{"hops": 0, "oif": 0, "attrs": [("RTA_GATEWAY", str(gateway))]} for gateway in via]
        attrs.append(("RTA_MULTIPATH", hops))
    if ifindex:
        attrs.append(("RTA_OIF", ifindex))
    if metric is not None:
        attrs.append(("RTA_PRIORITY", metric))
    return {
        "family": socket.AF_INET if to.version == 4 else socket.AF_INET6,
        "dst_len": to.prefixlen,
        "table": _RT_TABLE_MAIN,
        "proto": _RTPROT_STATIC,
        "scope": _RT_SCOPE_UNIVERSE if via else _RT_SCOPE_LINK,
        "type": _RTN_UNICAST,
        "attrs": attrs,
    }
