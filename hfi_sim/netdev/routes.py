"""Routes of a network namespace."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.link_client import LinkClient

RTPROT_STATIC: Final = 4
RTPROT_DHCP: Final = 16
_BY_HAND: Final = frozenset({3, RTPROT_STATIC})
"""RTPROT_BOOT and RTPROT_STATIC: what `ip route add` writes."""
_RTMSG: Final = struct.Struct("=BBBBBBBBI")
"""Family, bits of the destination and of the source, TOS, table, protocol, scope, type, flags."""
_RTNEXTHOP: Final = struct.Struct("=HBBi")
"""Length with its attributes, flags, weight - 1, ifindex."""
_RTA_DST: Final = 1
_RTA_OIF: Final = 4
_RTA_GATEWAY: Final = 5
_RTA_PRIORITY: Final = 6
_RTA_MULTIPATH: Final = 9
_RT_TABLE_MAIN: Final = 254
_RTN_UNICAST: Final = 1
_RT_SCOPE_UNIVERSE: Final = 0
_RT_SCOPE_LINK: Final = 253
_METRIC_OF_IPV6: Final = 1024
"""That of routes of IPv6 that say none (IP6_RT_PRIO_USER)."""

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """A route, as the kernel has it."""

    to: IpNetwork
    via: frozenset[IpAddress]
    """Its gateways; none: everything is on the link."""
    ifindexes: frozenset[int]
    metric: int
    protocol: int = RTPROT_STATIC
    """Who made it: RTPROT_STATIC, RTPROT_DHCP, ..."""
    is_unicast_of_main: bool = True
    """It is of the main table, and of type unicast."""

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

    def all_routes(
        self, families: Iterable[int] = (socket.AF_INET, socket.AF_INET6)
    ) -> Iterator[KernelRoute]:
        """Yield the routes of all tables: a dump of no family in particular leaves out those of IPv6."""
        for family in families:
            body = _RTMSG.pack(family, *(0,) * 8)
            answers = self._exchange(nl.RTM_GETROUTE, nl.NLM_F_DUMP | nl.NLM_F_ACK, body, "list the routes")
            yield from (parse_route(data) for kind, data in answers if kind == nl.RTM_NEWROUTE)

    def routes(self) -> list[KernelRoute]:
        """Return the unicast routes of the main table."""
        return [route for route in self.all_routes() if route.is_unicast_of_main]

    def routes_by_hand(self) -> list[KernelRoute]:
        """Return the routes that neither the kernel nor a routing daemon has made."""
        return [route for route in self.all_routes() if route.protocol in _BY_HAND]

    def replace_route(
        self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None
    ) -> None:
        """Put a route in place of the one for its destination; the arguments are those of `add_route`."""
        body = route_body(to, via, ifindex, metric)
        what = f"replace the route to {to}"
        self._exchange(nl.RTM_NEWROUTE, nl.NLM_F_CREATE_REPLACE | nl.NLM_F_ACK, body, what)

    def add_route(
        self,
        to: IpNetwork,
        via: Sequence[IpAddress],
        ifindex: int,
        metric: int | None,
        protocol: int = RTPROT_STATIC,
    ) -> None:
        """Add a route, as `ip route add` does.

        Args:  via: its gateways, of which several share the traffic. ifindex: its interface; 0: as the gateway says.
        """
        body = route_body(to, via, ifindex, metric, protocol)
        self._exchange(nl.RTM_NEWROUTE, nl.NLM_F_CREATE_EXCL | nl.NLM_F_ACK, body, f"add the route to {to}")

    def remove_route(self, to: IpNetwork, via: Sequence[IpAddress], ifindex: int, metric: int | None) -> None:
        """Remove a route that was added with these arguments."""
        body = route_body(to, via, ifindex, metric)
        self._exchange(nl.RTM_DELROUTE, nl.NLM_F_ACK, body, f"remove the route to {to}")


def parse_route(message: bytes) -> KernelRoute:
    """Read an RTM_NEWROUTE message, header included."""
    family, bits, _, _, table, protocol, _, kind, _ = _RTMSG.unpack_from(message, nl.HEADER.size)
    found = dict(nl.attributes(message, _RTMSG.size))
    every = bytes(16 if family == socket.AF_INET6 else 4)
    hops = list(_next_hops(found.get(_RTA_MULTIPATH, b"")))
    if not hops:
        hops = [(int.from_bytes(found.get(_RTA_OIF, b""), sys.byteorder), found.get(_RTA_GATEWAY, b""))]
    metric = found.get(_RTA_PRIORITY)
    return KernelRoute(
        ipaddress.ip_network((found.get(_RTA_DST, every), bits)),
        frozenset(ipaddress.ip_address(gateway) for _, gateway in hops if gateway),
        frozenset(ifindex for ifindex, _ in hops if ifindex),
        0 if metric is None else nl.U32.unpack(metric)[0],
        protocol,
        table == _RT_TABLE_MAIN and kind == _RTN_UNICAST,
    )


def _next_hops(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (ifindex, gateway) of each next hop of a route with several."""
    while len(data) >= _RTNEXTHOP.size:
        length, _, _, ifindex = _RTNEXTHOP.unpack_from(data)
        if length < _RTNEXTHOP.size:
            return
        found = dict(nl.attributes(data[:length], _RTNEXTHOP.size - nl.HEADER.size))
        yield ifindex, found.get(_RTA_GATEWAY, b"")
        data = data[(length + 3) & ~3 :]


def route_body(
    to: IpNetwork,
    via: Sequence[IpAddress],
    ifindex: int,
    metric: int | None,
    protocol: int = RTPROT_STATIC,
) -> bytes:
    """Return a message about a unicast route of the main table, without its header."""
    attrs: list[tuple[int, bytes]] = []
    if to.prefixlen:
        attrs.append((_RTA_DST, to.network_address.packed))
    if len(via) == 1:
        attrs.append((_RTA_GATEWAY, via[0].packed))
    elif via:
        gateways = [nl.build_attribute(_RTA_GATEWAY, gateway.packed) for gateway in via]
        hops = [_RTNEXTHOP.pack(_RTNEXTHOP.size + len(one), 0, 0, 0) + one for one in gateways]
        attrs.append((_RTA_MULTIPATH, b"".join(hops)))
    if ifindex:
        attrs.append((_RTA_OIF, nl.U32.pack(ifindex)))
    if metric is not None:
        attrs.append((_RTA_PRIORITY, nl.U32.pack(metric)))
    family = socket.AF_INET if to.version == 4 else socket.AF_INET6
    scope = _RT_SCOPE_UNIVERSE if via else _RT_SCOPE_LINK
    fixed = _RTMSG.pack(family, to.prefixlen, 0, 0, _RT_TABLE_MAIN, protocol, scope, _RTN_UNICAST, 0)
    return fixed + nl.build_attributes(attrs)
