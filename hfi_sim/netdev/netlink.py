"""Netlink, as much as network devices need: synchronous requests and the kernel's notifications.

Messages of routes are built and read by pyroute2's classes, others by hand: the start of a large lab has thousands of
them. A test compares the two. The sockets are plain ones, opened inside a namespace, so that nothing but the caller's
own event loop is involved. Requests take some tens of microseconds.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import IpInterface, Merging
from hfi_sim.netdev.ethtool import GRO, UDP_GRO, features, set_feature, set_link_speed
from hfi_sim.netdev.namespace import run_in_namespace

if TYPE_CHECKING:
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18
RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_GETADDR: Final = 22
RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_GETROUTE: Final = 26
RTM_NEWNEIGH: Final = 28
RTM_DELNEIGH: Final = 29
RTM_GETNEIGH: Final = 30
RTM_NEWMULTICAST: Final = 56
RTM_DELMULTICAST: Final = 57
RTM_NEWSTATS: Final = 92
RTM_GETSTATS: Final = 94

NLMSG_ERROR: Final = 2
_NLMSG_DONE: Final = 3
NLM_F_REQUEST: Final = 0x1
NLM_F_ACK: Final = 0x4
NLM_F_DUMP: Final = 0x300
NLM_F_CREATE_EXCL: Final = 0x600
NLM_F_CREATE_REPLACE: Final = 0x500
AF_BRIDGE: Final = 7
NTF_SELF: Final = 0x02
NDA_LLADDR: Final = 2
NUD_PERMANENT: Final = 0x80
HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence number, port id
NDMSG: Final = struct.Struct("=BxxxiHBB")  # family, ifindex, state, flags, type
_IFINFOMSG: Final = struct.Struct("=BxHiII")  # family, type, ifindex, flags, which flags change
IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
_IFLA_MTU: Final = 4
IFLA_MASTER: Final = 10
_IFLA_OPERSTATE: Final = 16
_IFLA_LINKMODE: Final = 17
IFLA_LINKINFO: Final = 18
IFLA_INFO_KIND: Final = 1
_IFLA_IFALIAS: Final = 20
_IFLA_CARRIER: Final = 33
_IFLA_MAX_MTU: Final = 51
_IFLA_AF_SPEC: Final = 26
_IFLA_INET6_ADDR_GEN_MODE: Final = 8
_ADDR_GEN_MODE_NONE: Final = 1
IFLA_NET_NS_FD: Final = 28
IFLA_XDP: Final = 43
IFLA_XDP_ATTACHED: Final = 2
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFA_BROADCAST: Final = 4
_IFA_FLAGS: Final = 8
_IFA_F_NODAD: Final = 0x02
U32: Final = struct.Struct("=I")
_IFADDRMSG: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, ifindex
ATTRIBUTE: Final = struct.Struct("=HH")  # length with these four bytes, type
NLA_F_NESTED: Final = 0x8000
_NLA_TYPE_MASK: Final = 0x3FFF
"""Without the bits that say how an attribute is encoded."""
_IF_STATS_MSG: Final = struct.Struct("=BxxxII")  # family, ifindex, which statistics
_STATS_LINK_64: Final = 1
"""rtnl_link_stats64: as an attribute, and as the bit that asks for it."""
_LINK_STATS64: Final = struct.Struct("=8Q")
_LINK_STATS64_NAMES: Final = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
)
"""How rtnl_link_stats64 begins."""
RECEIVE_BYTES: Final = 1 << 15
"""No datagram is larger (netlink_recvmsg() in af_netlink.c); a larger buffer would be mapped anew for each."""
_ANSWER_TIMEOUT: Final = struct.pack("@ll", 5, 0)
"""A timeval: seconds, and microseconds."""
_AT_ONCE: Final = 1000
"""Messages of one call: a socket takes 208 KiB."""

_BY_HAND: Final = frozenset({3, 4})
"""RTPROT_BOOT and RTPROT_STATIC: what `ip route add` writes."""
_SCOPE_LINK: Final = 253  # RT_SCOPE_LINK
_IFA_F_OPTIMISTIC: Final = 0x04
_IFA_F_DADFAILED: Final = 0x08
_IFA_F_TENTATIVE: Final = 0x40

IFF_UP: Final = 0x1
IFF_RUNNING: Final = 0x40
_IFF_LOOPBACK: Final = 0x8
LINKMODE_DORMANT: Final = 1
IF_OPER_DORMANT: Final = 5
IF_OPER_UP: Final = 6


@dataclass(frozen=True, slots=True)
class LinkState:
    """What the kernel says of one interface."""

    ifindex: int
    name: str
    up: bool
    address: MacAddr
    mtu: int
    alias: str
    running: bool = False
    """IFF_RUNNING: up, with carrier, not dormant, and the kernel has noticed: from now on it sends."""
    xdp: bool = False
    """An XDP program looks at what the interface receives."""
    kind: str = ""
    """bridge, veth, tun, ...; empty: hardware, or the loopback."""
    master: int = 0
    """The interface index of the bridge (or bond) whose port it is; 0: of none."""
    loopback: bool = False
    carrier: bool = False
    operstate: int = 0
    """IF_OPER_UP, IF_OPER_DORMANT, ... of RFC 2863."""
    max_mtu: int = 0


@dataclass(frozen=True, slots=True)
class KernelAddressLists:
    """Secondary addresses of one interface, in the kernel's order."""

    uc: tuple[MacAddr, ...] = ()
    mc: tuple[MacAddr, ...] = ()


def parse_link(message: bytes) -> LinkState:
    """Read an RTM_NEWLINK or RTM_DELLINK message, header included. By hand: see above."""
    _, _, ifindex, flags, _ = _IFINFOMSG.unpack_from(message, HEADER.size)
    found = dict(attributes(message, _IFINFOMSG.size))
    xdp = dict(_nested(found.get(IFLA_XDP, b"")))
    mtu, max_mtu, master = map(found.get, (_IFLA_MTU, _IFLA_MAX_MTU, IFLA_MASTER))
    return LinkState(
        ifindex=ifindex,
        name=_text(found.get(IFLA_IFNAME, b"")),
        up=bool(flags & IFF_UP),
        address=MacAddr(found.get(IFLA_ADDRESS) or bytes(6)),
        mtu=0 if mtu is None else U32.unpack(mtu)[0],
        alias=_text(found.get(_IFLA_IFALIAS, b"")),
        running=bool(flags & IFF_RUNNING),
        xdp=any(xdp.get(IFLA_XDP_ATTACHED, b"")),
        kind=_text(dict(_nested(found.get(IFLA_LINKINFO, b""))).get(IFLA_INFO_KIND, b"")),
        master=0 if master is None else U32.unpack(master)[0],
        loopback=bool(flags & _IFF_LOOPBACK),
        carrier=any(found.get(_IFLA_CARRIER, b"")),
        operstate=next(iter(found.get(_IFLA_OPERSTATE, b"")), 0),
        max_mtu=0 if max_mtu is None else U32.unpack(max_mtu)[0],
    )


def parse_ip(message: bytes) -> tuple[int, IpInterface] | None:
    """Read an RTM_NEWADDR or RTM_DELADDR message: (ifindex, address); None for an address of a single link.

    By hand: see above.
    """
    family, prefix_length, _, scope, ifindex = _IFADDRMSG.unpack_from(message, HEADER.size)
    if scope >= _SCOPE_LINK:
        return None
    found = dict(attributes(message, _IFADDRMSG.size))
    address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    if not address:
        return None
    kind = ipaddress.IPv4Interface if family == socket.AF_INET else ipaddress.IPv6Interface
    return ifindex, kind((address, prefix_length))


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _nested(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) for every attribute inside an attribute."""
    return attributes(value, -HEADER.size)


def build_attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute as it stands in a message, padded to four bytes."""
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def parse_route(message: bytes) -> rtmsg:
    """Read an RTM_NEWROUTE message, header included."""
    # late: few labs have routes, and its imports take a tenth of a second
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    route = rtmsg(message)
    route.decode()
    return route


def _route_by_hand(message: bytes) -> str:
    route = parse_route(message)
    if route["proto"] not in _BY_HAND:
        return ""
    to = route.get_attr("RTA_DST")
    text = f"{to}/{route['dst_len']}" if to else "default"
    gateway = route.get_attr("RTA_GATEWAY")
    return f"{text} via {gateway}" if gateway else text


def messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, message) for every netlink message of a datagram."""
    offset = 0
    while offset + HEADER.size <= len(datagram):
        length, kind, _, _, _ = HEADER.unpack_from(datagram, offset)
        if length < HEADER.size:
            return
        yield kind, datagram[offset : offset + length]
        offset += (length + 3) & ~3


def attributes(message: bytes, fixed: int) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) for every attribute of a message, up to one that cannot be.

    Args:  fixed: bytes between the netlink header and the first attribute.
    """
    offset = HEADER.size + fixed
    while offset + ATTRIBUTE.size <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, offset)
        if length < ATTRIBUTE.size:
            return
        yield kind & _NLA_TYPE_MASK, message[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def errno_of(message: bytes) -> int:
    """Return the errno of an answer of type NLMSG_ERROR; 0: the request was done."""
    number: int = struct.unpack_from("=i", message, HEADER.size)[0]
    return -number


def ifindex_of(message: bytes) -> int:
    """Return the interface index of a link or neighbour message without decoding the rest."""
    index: int = struct.unpack_from("=i", message, HEADER.size + 4)[0]
    return index


def ifindex_of_address(message: bytes) -> int:
    """Return the interface index of an address message without decoding the rest."""
    index: int = _IFADDRMSG.unpack_from(message, HEADER.size)[4]
    return index


def is_of_bridge(message: bytes) -> bool:
    """Return whether a link message tells of a bridge port: its removal says nothing of the interface itself."""
    return message[HEADER.size] == AF_BRIDGE


def _fdb_entry(message: bytes) -> tuple[int, MacAddr] | None:
    """Return (ifindex, address) of a forwarding-table message where it is a device's own address list.

    Read by hand, not through a message class: a dump has thousands of them with 255 VNICs in a namespace.
    """
    _, ifindex, _, flags, _ = NDMSG.unpack_from(message, HEADER.size)
    if not flags & NTF_SELF:
        return None
    for kind, value in attributes(message, NDMSG.size):
        if kind == NDA_LLADDR and len(value) == 6:
            return ifindex, MacAddr(value)
    return None


class LinkClient:
    """Requests about interfaces of one namespace. A request that the kernel refuses raises NetdevError."""

    def __init__(self, namespace: Path | None = None, opened: socket.socket | None = None) -> None:
        """Ask in `namespace`. Args: opened: by `open_requests`, inside it; None: it is entered for that."""
        self.namespace = namespace
        self._socket = opened or run_in_namespace(namespace, open_requests)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket; harmless when done twice."""
        self._socket.close()

    def find(self, name: str) -> LinkState | None:
        """Return the interface of that name, or None."""
        return self._get(link_body(0, attrs={IFLA_IFNAME: name.encode() + b"\0"}), name)

    def get(self, ifindex: int) -> LinkState | None:
        """Return the interface with that index, or None where it is gone."""
        return self._get(link_body(ifindex), f"#{ifindex}")

    def _get(self, body: bytes, what: str) -> LinkState | None:
        try:
            answers = self._exchange(RTM_GETLINK, 0, body, f"look up interface {what}")
        except NetdevError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return next((parse_link(data) for kind, data in answers if kind == RTM_NEWLINK), None)

    def statistics(self, ifindex: int) -> dict[str, int] | None:
        """Return the kernel's own counters of an interface, under its names, or None where it is gone.

        tx is what the host sends through the interface. Read by hand: a lab has hundreds of interfaces, and may be
        asked for all of them every second.
        """
        body = _IF_STATS_MSG.pack(socket.AF_UNSPEC, ifindex, _STATS_LINK_64)
        try:
            answers = self._exchange(RTM_GETSTATS, 0, body, f"read the counters of interface #{ifindex}")
        except NetdevError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        offset = HEADER.size + _IF_STATS_MSG.size
        for kind, data in answers:
            if kind == RTM_NEWSTATS and ATTRIBUTE.unpack_from(data, offset)[1] == _STATS_LINK_64:
                values = _LINK_STATS64.unpack_from(data, offset + ATTRIBUTE.size)
                return dict(zip(_LINK_STATS64_NAMES, values, strict=True))
        return None

    def set_up(self, ifindex: int, up: bool) -> None:
        """Set the interface up or down."""
        self._set(ifindex, "up" if up else "down", flags=IFF_UP if up else 0, change=IFF_UP)

    def set_address(self, ifindex: int, mac: MacAddr) -> None:
        """Change the device address."""
        self._set(ifindex, f"address {mac.hex(':')}", attrs={IFLA_ADDRESS: mac})

    def set_mtu(self, ifindex: int, mtu: int) -> None:
        """Change the MTU, in bytes."""
        self._set(ifindex, f"mtu {mtu}", attrs={_IFLA_MTU: U32.pack(mtu)})

    def rename(self, ifindex: int, name: str) -> None:
        """Give the interface another name."""
        self._set(ifindex, f"name {name}", attrs={IFLA_IFNAME: name.encode() + b"\0"})

    def move(self, ifindex: int, namespace: Path) -> None:
        """Move the interface to another namespace: it arrives down, without IP and further addresses."""
        fd = os.open(namespace, os.O_RDONLY)
        try:
            self._set(ifindex, f"netns {namespace}", attrs={IFLA_NET_NS_FD: U32.pack(fd)})
        finally:
            os.close(fd)

    def set_alias(self, ifindex: int, alias: str) -> None:
        """Write the text that `ip link` shows as alias."""
        self._set(ifindex, f"alias {alias}", attrs={_IFLA_IFALIAS: alias.encode()})

    def merging(self, name: str) -> Merging:
        """Return which packets that the host receives here may be merged."""
        try:
            found = features(self._socket, name)
        except OSError as error:
            raise NetdevError(f"interface {name}: features: {error.strerror}", error.errno or 0) from error
        return Merging(tcp=GRO in found, udp={GRO, UDP_GRO} <= found)

    def merge_datagrams(self, name: str) -> None:
        """Switch on that datagrams are merged although no socket has asked for it."""
        try:
            set_feature(self._socket, name, UDP_GRO, True)
        except OSError as error:
            raise NetdevError(f"interface {name}: {UDP_GRO}: {error.strerror}", error.errno or 0) from error

    def set_speed(self, name: str, speed: int) -> None:
        """Let `ethtool` show a speed in Mb/s, full duplex."""
        try:
            set_link_speed(self._socket, name, speed)
        except OSError as error:
            raise NetdevError(
                f"interface {name}: speed {speed}: {error.strerror}", error.errno or 0
            ) from error

    def set_dormant(self, ifindex: int, on: bool) -> None:
        """Move the interface to operational state DORMANT and keep it there, or let it follow the carrier."""
        state = {
            _IFLA_OPERSTATE: bytes([IF_OPER_DORMANT if on else IF_OPER_UP]),
            _IFLA_LINKMODE: bytes([LINKMODE_DORMANT if on else 0]),
        }
        self._set(ifindex, "dormant" if on else "not dormant", attrs=state)

    def leave_out_link_local(self, ifindex: int) -> None:
        """Give the interface no IPv6 link-local address when it goes up. A kernel without IPv6 refuses."""
        mode = build_attribute(_IFLA_INET6_ADDR_GEN_MODE, bytes([_ADDR_GEN_MODE_NONE]))
        spec = build_attribute(socket.AF_INET6, mode)
        self._set(ifindex, "without link-local addresses", attrs={_IFLA_AF_SPEC: spec})

    def add_ip(self, ifindex: int, interface: IpInterface) -> None:
        """Give the interface an IP address with its prefix length."""
        body = _address_body(ifindex, interface)
        self._exchange(RTM_NEWADDR, NLM_F_CREATE_EXCL | NLM_F_ACK, body, f"add address {interface}")

    def remove_ip(self, ifindex: int, interface: IpInterface) -> None:
        """Take an IP address from the interface."""
        body = _address_body(ifindex, interface)
        self._exchange(RTM_DELADDR, NLM_F_ACK, body, f"remove address {interface}")

    def ip_addresses(self) -> dict[int, tuple[IpInterface, ...]]:
        """Return the IP addresses that interfaces of the namespace have, by interface index, in the kernel's order.

        Addresses of a single link (fe80::/10) are left out: they say nothing without the interface.
        """
        body = _IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        found: dict[int, list[IpInterface]] = {}
        for kind, data in self._exchange(RTM_GETADDR, NLM_F_DUMP | NLM_F_ACK, body, "read the IP addresses"):
            entry = parse_ip(data) if kind == RTM_NEWADDR else None
            if entry is not None:
                found.setdefault(entry[0], []).append(entry[1])
        return {ifindex: tuple(addresses) for ifindex, addresses in found.items()}

    def links_now(self) -> list[LinkState]:
        """Return all interfaces of the namespace."""
        answers = self._exchange(RTM_GETLINK, NLM_F_DUMP | NLM_F_ACK, link_body(0), "list the interfaces")
        return [parse_link(data) for kind, data in answers if kind == RTM_NEWLINK]

    def routes_by_hand(self) -> list[str]:
        """Return the destinations of routes that neither the kernel nor a routing daemon has made."""
        answers = self.all_routes()
        return [text for kind, data in answers if kind == RTM_NEWROUTE and (text := _route_by_hand(data))]

    def all_routes(self) -> list[tuple[int, bytes]]:
        """Return the messages of all routes: a dump of no family in particular leaves out those of IPv6."""
        return [
            answer
            for family in (socket.AF_INET, socket.AF_INET6)
            for answer in self._ask_of_routes(RTM_GETROUTE, NLM_F_DUMP, {"family": family}, "list the routes")
        ]

    def tentative_addresses(self) -> set[int]:
        """Return the indices of the interfaces with an IPv6 address that the kernel may still find to be a duplicate.

        Programs cannot bind to such an address. Read by hand: a namespace has hundreds of addresses.
        """
        body = _IFADDRMSG.pack(socket.AF_INET6, 0, 0, 0, 0)
        found = set()
        for kind, data in self._exchange(RTM_GETADDR, NLM_F_DUMP, body, "read the IPv6 addresses"):
            if kind == RTM_NEWADDR:
                _, _, flags, _, ifindex = _IFADDRMSG.unpack_from(data, HEADER.size)
                if flags & (_IFA_F_TENTATIVE | _IFA_F_OPTIMISTIC | _IFA_F_DADFAILED) == _IFA_F_TENTATIVE:
                    found.add(ifindex)
        return found

    def address_lists(self) -> dict[int, KernelAddressLists]:
        """Return the secondary addresses of every interface in the namespace, by interface index."""
        body = NDMSG.pack(AF_BRIDGE, 0, 0, 0, 0)
        uc: dict[int, list[MacAddr]] = {}
        mc: dict[int, list[MacAddr]] = {}
        for kind, data in self._exchange(RTM_GETNEIGH, NLM_F_DUMP, body, "read the address lists"):
            entry = _fdb_entry(data) if kind == RTM_NEWNEIGH else None
            if entry is not None:
                ifindex, mac = entry
                (mc if mac[0] & 1 else uc).setdefault(ifindex, []).append(mac)
        return {
            index: KernelAddressLists(tuple(uc.get(index, ())), tuple(mc.get(index, ())))
            for index in uc.keys() | mc.keys()
        }

    def _set(
        self,
        ifindex: int,
        what: str,
        flags: int = 0,
        change: int = 0,
        attrs: Mapping[int, bytes] = MappingProxyType({}),
    ) -> None:
        body = link_body(ifindex, flags, change, attrs)
        self._exchange(RTM_NEWLINK, NLM_F_ACK, body, f"set interface #{ifindex} {what}")

    def _ask_of_routes(
        self, kind: int, flags: int, fields: dict[str, Any], what: str
    ) -> list[tuple[int, bytes]]:
        """Make a request about routes. Args: fields: as pyroute2 has them."""
        from pyroute2.netlink.rtnl.rtmsg import rtmsg

        message = rtmsg()
        for key, value in fields.items():
            message[key] = value
        message.encode()
        return self._exchange(kind, flags | NLM_F_ACK, bytes(message.data[HEADER.size :]), what)

    def _exchange(self, kind: int, flags: int, body: bytes, what: str) -> list[tuple[int, bytes]]:
        """Make a request and return the answers: one, if `flags` ask for no dump and no acknowledgement."""
        self._sequence += 1
        length = HEADER.size + len(body)
        header = HEADER.pack(length, kind, flags | NLM_F_REQUEST, self._sequence, 0)
        try:
            self._socket.send(header + body)
            return self._answers(what, only_one=not flags)
        except OSError as error:
            raise NetdevError(f"cannot {what}: {error.strerror or error}", error.errno or 0) from error

    def _exchange_all(self, kind: int, flags: int, bodies: Sequence[bytes], what: str) -> None:
        """Make many requests, some hundred with one call. Raises NetdevError: the first that the kernel refuses."""
        for start in range(0, len(bodies), _AT_ONCE):
            bunch = bodies[start : start + _AT_ONCE]
            self._sequence += 1
            said = [flags | NLM_F_REQUEST] * (len(bunch) - 1) + [flags | NLM_F_REQUEST | NLM_F_ACK]
            try:
                self._socket.send(
                    b"".join(
                        HEADER.pack(HEADER.size + len(body), kind, flag, self._sequence, 0) + body
                        for body, flag in zip(bunch, said, strict=True)
                    )
                )
                self._answers(what)
            except OSError as error:
                raise NetdevError(f"cannot {what}: {error.strerror or error}", error.errno or 0) from error

    def _answers(self, what: str, *, only_one: bool = False) -> list[tuple[int, bytes]]:
        answers: list[tuple[int, bytes]] = []
        while True:
            try:
                datagram = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                raise TimeoutError("timed out") from None
            for kind, data in messages(datagram):
                if HEADER.unpack_from(data)[3] != self._sequence:
                    continue  # the rest of an exchange that timed out
                if kind == _NLMSG_DONE:
                    return answers
                if kind == NLMSG_ERROR:
                    if number := errno_of(data):
                        raise NetdevError(f"cannot {what}: {os.strerror(number)}", number)
                    return answers
                answers.append((kind, data))
                if only_one:
                    return answers


def link_body(
    ifindex: int, flags: int = 0, change: int = 0, attrs: Mapping[int, bytes] = MappingProxyType({})
) -> bytes:
    """Return a message about a link, without its header."""
    fixed = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, flags, change)
    return fixed + b"".join(build_attribute(kind, value) for kind, value in attrs.items())


def _address_body(ifindex: int, interface: IpInterface) -> bytes:
    """Return a message about an IP address, without its header."""
    packed, prefix_length = interface.ip.packed, interface.network.prefixlen
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    attrs = {_IFA_ADDRESS: packed, _IFA_LOCAL: packed}
    if interface.version == 4 and prefix_length < 31:
        attrs[_IFA_BROADCAST] = interface.network.broadcast_address.packed
    if interface.version == 6:
        attrs[_IFA_FLAGS] = U32.pack(_IFA_F_NODAD)  # the lab file assigns the address
    fixed = _IFADDRMSG.pack(family, prefix_length, 0, 0, ifindex)
    return fixed + b"".join(build_attribute(kind, value) for kind, value in attrs.items())


def open_requests() -> socket.socket:
    """Open a socket for requests in the namespace that this thread is in."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    made.bind((0, 0))
    # not settimeout(): Python then polls before each call
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _ANSWER_TIMEOUT)
    return made
