"""Routes of a network namespace."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

from hfi_sim.netdev.netlink import NLM_F_CREATE_EXCL, RTM_DELROUTE, RTM_NEWROUTE, LinkClient

_RT_TABLE_MAIN: Final = 254
_RTPROT_STATIC: Final = 4
_RTN_UNICAST: Final = 1
_RT_SCOPE_UNIVERSE: Final = 0
_RT_SCOPE_LINK: Final = 253

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class RouteClient(LinkClient):
    """Adds and removes routes of one namespace. A request that the kernel refuses raises NetdevError."""

    def add_route(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> None:
        """Add a route, as `ip route add` does.

        Args:  via: its gateways, of which several share the traffic. ifindex: its interface; 0: as the gateway says.
        """
        fields = _fields(to, via, ifindex, metric)
        self._ask_of_routes(RTM_NEWROUTE, NLM_F_CREATE_EXCL, fields, f"add the route to {to}")

    def remove_route(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> None:
        """Remove a route that was added with these arguments."""
        self._ask_of_routes(RTM_DELROUTE, 0, _fields(to, via, ifindex, metric), f"remove the route to {to}")


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
