"""Messages of netlink that are read and written by hand, against the classes of pyroute2."""

from __future__ import annotations

import ipaddress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from hfi_sim.base.types import parse_mac
from hfi_sim.netdev.netlink import (
    HEADER,
    IFLA_XDP,
    IFLA_XDP_ATTACHED,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    LinkState,
    build_attribute,
    parse_ip,
    parse_link,
)
from hfi_sim.netdev.routes import KernelRoute, parse_route, route_body

NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,14}", fullmatch=True)
MACS = st.binary(min_size=6, max_size=6).map(lambda data: data.hex(":"))


def built(message: nlmsg, kind: int, fields: dict[str, Any]) -> bytes:
    for key, value in fields.items():
        message[key] = value
    message.encode()
    body = bytes(message.data[HEADER.size :])
    return HEADER.pack(HEADER.size + len(body), kind, 0, 0, 0) + body


@given(
    index=st.integers(1, 2**31 - 1),
    name=NAMES,
    mac=MACS,
    mtu=st.integers(68, 65521),
    alias=st.one_of(st.none(), NAMES),
    flags=st.sampled_from([0, 0x1, 0x40, 0x41, 0x1043]),
)
def test_link_is_read_as_pyroute2_writes_it(
    index: int, name: str, mac: str, mtu: int, alias: str | None, flags: int
) -> None:
    attrs: list[tuple[str, Any]] = [("IFLA_IFNAME", name), ("IFLA_ADDRESS", mac), ("IFLA_MTU", mtu)]
    if alias is not None:
        attrs.append(("IFLA_IFALIAS", alias))
    message = built(ifinfmsg(), RTM_NEWLINK, {"index": index, "flags": flags, "attrs": attrs})
    assert parse_link(message) == LinkState(
        index, name, bool(flags & 1), parse_mac(mac), mtu, alias or "", bool(flags & 0x40)
    )


def test_link_says_whether_an_xdp_program_is_attached() -> None:
    fixed = built(ifinfmsg(), RTM_NEWLINK, {"index": 1})
    for attached in (0, 1):  # XDP_ATTACHED_NONE, XDP_ATTACHED_DRV
        xdp = build_attribute(IFLA_XDP, build_attribute(IFLA_XDP_ATTACHED, bytes([attached])))
        assert parse_link(fixed + xdp).xdp == bool(attached)


def test_link_says_its_kind_its_bridge_and_whether_it_is_the_loopback() -> None:
    attrs = [("IFLA_MASTER", 7), ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "veth")]})]
    link = parse_link(built(ifinfmsg(), RTM_NEWLINK, {"index": 1, "attrs": attrs}))
    assert (link.kind, link.master, link.loopback) == ("veth", 7, False)
    assert parse_link(built(ifinfmsg(), RTM_NEWLINK, {"index": 1, "flags": 0x8})).loopback


@given(
    index=st.integers(1, 2**31 - 1),
    address=st.ip_addresses(),
    prefix_length=st.integers(1, 32),
    local=st.booleans(),
)
def test_address_is_read_as_pyroute2_writes_it(
    index: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address, prefix_length: int, local: bool
) -> None:
    fields = {
        "index": index,
        "family": 2 if address.version == 4 else 10,
        "prefixlen": prefix_length,
        "attrs": [("IFA_LOCAL" if local else "IFA_ADDRESS", str(address))],
    }
    found = parse_ip(built(ifaddrmsg(), RTM_NEWADDR, fields))
    assert found == (index, ipaddress.ip_interface(f"{address}/{prefix_length}"))
    assert parse_ip(built(ifaddrmsg(), RTM_NEWADDR, fields | {"scope": 253})) is None


@st.composite
def routes(draw: st.DrawFn) -> tuple[Any, list[Any], int, int | None, int]:
    version = draw(st.sampled_from([4, 6]))
    bits = draw(st.integers(0, 32 if version == 4 else 128))
    address = draw(st.ip_addresses(v=version))
    via = draw(st.lists(st.ip_addresses(v=version), max_size=3, unique=True))
    metric = draw(st.none() | st.integers(1, 2**32 - 1))
    network = ipaddress.ip_network((address, bits), strict=False)
    return network, via, draw(st.integers(0, 2**31 - 1)), metric, draw(st.integers(2, 254))


@given(routes())
def test_route_is_written_as_pyroute2_writes_it_and_read_again(
    route: tuple[Any, list[Any], int, int | None, int],
) -> None:
    to, via, ifindex, metric, protocol = route
    attrs: list[tuple[str, Any]] = [("RTA_DST", str(to.network_address))] if to.prefixlen else []
    if len(via) == 1:
        attrs.append(("RTA_GATEWAY", str(via[0])))
    elif via:
        hops = [{"hops": 0, "oif": 0, "attrs": [("RTA_GATEWAY", str(gateway))]} for gateway in via]
        attrs.append(("RTA_MULTIPATH", hops))
    attrs += [("RTA_OIF", ifindex)] if ifindex else []
    attrs += [("RTA_PRIORITY", metric)] if metric is not None else []
    fields = {
        "family": 2 if to.version == 4 else 10,
        "dst_len": to.prefixlen,
        "table": 254,
        "proto": protocol,
        "scope": 0 if via else 253,
        "type": 1,
        "attrs": attrs,
    }
    message = built(rtmsg(), RTM_NEWROUTE, fields)
    assert route_body(to, via, ifindex, metric, protocol) == message[HEADER.size :]
    of_hops = frozenset() if len(via) > 1 else frozenset({ifindex} - {0})
    assert parse_route(message) == KernelRoute(to, frozenset(via), of_hops, metric or 0, protocol)


def test_route_of_several_interfaces_or_another_table_is_read_as_pyroute2_writes_it() -> None:
    hops = [{"hops": 4, "oif": oif, "attrs": [("RTA_GATEWAY", f"10.0.0.{oif}")]} for oif in (3, 5)]
    fields = {"family": 2, "dst_len": 24, "table": 9, "proto": 2, "scope": 0, "type": 1}
    attrs = [("RTA_DST", "10.9.8.0"), ("RTA_MULTIPATH", hops)]
    found = parse_route(built(rtmsg(), RTM_NEWROUTE, fields | {"attrs": attrs}))
    gateways = frozenset(map(ipaddress.ip_address, ("10.0.0.3", "10.0.0.5")))
    assert found == KernelRoute(
        ipaddress.ip_network("10.9.8.0/24"), gateways, frozenset({3, 5}), 0, 2, is_unicast_of_main=False
    )
