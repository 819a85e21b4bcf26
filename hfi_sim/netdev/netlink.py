"""Netlink, as much as network devices need: the layout of its messages.

Built and read by hand: a host that starts makes and reads thirteen of them, and the classes of pyroute2 take 20 to 100
times as long for each. Tests compare the two.

Of neighbours only notifications about the entries of bridges and devices are taken, which are address lists: what ARP
and neighbour discovery find out is news many times a second in a large lab, and none for a device.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import IpInterface
from hfi_sim.netdev.namespace import run_in_namespace

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
IFLA_MTU: Final = 4
IFLA_MASTER: Final = 10
IFLA_OPERSTATE: Final = 16
IFLA_LINKINFO: Final = 18
IFLA_INFO_KIND: Final = 1
IFLA_IFALIAS: Final = 20
_IFLA_CARRIER: Final = 33
_IFLA_MAX_MTU: Final = 51
IFLA_NET_NS_FD: Final = 28
IFLA_XDP: Final = 43
IFLA_XDP_ATTACHED: Final = 2
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFA_BROADCAST: Final = 4
_IFA_FLAGS: Final = 8
_IFA_F_NODAD: Final = 0x02
U32: Final = struct.Struct("=I")
IFADDRMSG: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, ifindex
ATTRIBUTE: Final = struct.Struct("=HH")  # length with these four bytes, type
NLA_F_NESTED: Final = 0x8000
_NLA_TYPE_MASK: Final = 0x3FFF
"""Without the bits that say how an attribute is encoded."""
RECEIVE_BYTES: Final = 1 << 15
"""No datagram is larger (netlink_recvmsg() in af_netlink.c); a larger buffer would be mapped anew for each."""

_SCOPE_LINK: Final = 253  # RT_SCOPE_LINK

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
    xdp = dict(nested(found.get(IFLA_XDP, b"")))
    mtu, max_mtu, master = map(found.get, (IFLA_MTU, _IFLA_MAX_MTU, IFLA_MASTER))
    return LinkState(
        ifindex=ifindex,
        name=_text(found.get(IFLA_IFNAME, b"")),
        up=bool(flags & IFF_UP),
        address=MacAddr(found.get(IFLA_ADDRESS) or bytes(6)),
        mtu=0 if mtu is None else U32.unpack(mtu)[0],
        alias=_text(found.get(IFLA_IFALIAS, b"")),
        running=bool(flags & IFF_RUNNING),
        xdp=any(xdp.get(IFLA_XDP_ATTACHED, b"")),
        kind=_text(dict(nested(found.get(IFLA_LINKINFO, b""))).get(IFLA_INFO_KIND, b"")),
        master=0 if master is None else U32.unpack(master)[0],
        loopback=bool(flags & _IFF_LOOPBACK),
        carrier=any(found.get(_IFLA_CARRIER, b"")),
        operstate=next(iter(found.get(IFLA_OPERSTATE, b"")), 0),
        max_mtu=0 if max_mtu is None else U32.unpack(max_mtu)[0],
    )


def parse_ip(message: bytes) -> tuple[int, IpInterface] | None:
    """Read an RTM_NEWADDR or RTM_DELADDR message: (ifindex, address); None for an address of a single link.

    By hand: see above.
    """
    family, prefix_length, _, scope, ifindex = IFADDRMSG.unpack_from(message, HEADER.size)
    if scope >= _SCOPE_LINK:
        return None
    found = dict(attributes(message, IFADDRMSG.size))
    address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    if not address:
        return None
    kind = ipaddress.IPv4Interface if family == socket.AF_INET else ipaddress.IPv6Interface
    return ifindex, kind((address, prefix_length))


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def nested(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) for every attribute inside an attribute."""
    return attributes(value, -HEADER.size)


def build_attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute as it stands in a message, padded to four bytes."""
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def build_attributes(values: Iterable[tuple[int, bytes]]) -> bytes:
    """Return attributes, given as (type, value), as they stand in a message."""
    return b"".join(build_attribute(kind, value) for kind, value in values)


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
    index: int = IFADDRMSG.unpack_from(message, HEADER.size)[4]
    return index


def is_of_bridge(message: bytes) -> bool:
    """Return whether a link message tells of a bridge port: its removal says nothing of the interface itself."""
    return message[HEADER.size] == AF_BRIDGE


def parse_own_address(message: bytes) -> tuple[int, MacAddr] | None:
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


def link_body(
    ifindex: int, flags: int = 0, change: int = 0, attrs: Mapping[int, bytes] = MappingProxyType({})
) -> bytes:
    """Return a message about a link, without its header."""
    fixed = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, flags, change)
    return fixed + build_attributes(attrs.items())


def address_body(ifindex: int, interface: IpInterface) -> bytes:
    """Return a message about an IP address, without its header."""
    packed, prefix_length = interface.ip.packed, interface.network.prefixlen
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    attrs = {_IFA_ADDRESS: packed, _IFA_LOCAL: packed}
    if interface.version == 4 and prefix_length < 31:
        attrs[_IFA_BROADCAST] = interface.network.broadcast_address.packed
    if interface.version == 6:
        attrs[_IFA_FLAGS] = U32.pack(_IFA_F_NODAD)  # the lab file assigns the address
    fixed = IFADDRMSG.pack(family, prefix_length, 0, 0, ifindex)
    return fixed + build_attributes(attrs.items())


def single_changes(before: KernelAddressLists, after: KernelAddressLists) -> Iterator[KernelAddressLists]:
    """Yield the lists after each change that leads from `before` to `after`; nothing where they are equal.

    The order is that of a macvlan: it takes multicast addresses away before its own, and adds its own before
    multicast addresses.
    """
    kept_uc, kept_mc = _kept(before.uc, after.uc), _kept(before.mc, after.mc)
    for mc in _without(before.mc, kept_mc):
        yield KernelAddressLists(before.uc, mc)
    for uc in _without(before.uc, kept_uc):
        yield KernelAddressLists(uc, kept_mc)
    for end in range(len(kept_uc) + 1, len(after.uc) + 1):
        yield KernelAddressLists(after.uc[:end], kept_mc)
    for end in range(len(kept_mc) + 1, len(after.mc) + 1):
        yield KernelAddressLists(after.uc, after.mc[:end])


def _without(macs: tuple[MacAddr, ...], kept: tuple[MacAddr, ...]) -> Iterator[tuple[MacAddr, ...]]:
    """Yield what is left of `macs` after each of the others was removed, the first of them first."""
    index = 0
    while len(macs) > len(kept):
        if index < len(kept) and macs[index] == kept[index]:
            index += 1
        else:
            macs = macs[:index] + macs[index + 1 :]
            yield macs


def _kept(before: Sequence[MacAddr], after: Sequence[MacAddr]) -> tuple[MacAddr, ...]:
    """Return the beginning of `after` that was not added since: its addresses stand in `before` in that order."""
    rest = iter(before)
    for index, mac in enumerate(after):
        if mac not in rest:  # moves on to behind it
            return tuple(after[:index])
    return tuple(after)


# groups of notifications: links, neighbours (bridge fdb), IP addresses, IPv4 and IPv6 multicast memberships
_GROUP_LINK: Final = 1
_GROUP_NEIGH: Final = 3
_GROUPS_ADDRESS: Final = (5, 9)  # RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR
_GROUPS_MULTICAST: Final = (37, 38)  # RTNLGRP_IPV4_MCADDR, RTNLGRP_IPV6_MCADDR; kernels before 6.14 have none

_SOL_NETLINK: Final = 270
_NETLINK_ADD_MEMBERSHIP: Final = 1
_SO_ATTACH_FILTER: Final = 26
_SOCK_FILTER: Final = struct.Struct("=HBBI")
_BPF_LOAD_HALF: Final = 0x28
_BPF_LOAD_BYTE: Final = 0x30
_BPF_JUMP_EQUAL: Final = 0x15
_BPF_RETURN: Final = 0x06


def open_notifications(namespace: Path | None) -> socket.socket:
    """Open a non-blocking socket that hears of links, forwarding entries, IP addresses and multicast memberships."""
    return run_in_namespace(namespace, _notification_socket)


def drain(notices: socket.socket, dispatch: Callable[[int, bytes], None], lost: Callable[[], None]) -> None:
    """Pass on every message that waits, until the socket is closed; call `lost` where the kernel dropped some."""
    while notices.fileno() >= 0:
        try:
            datagram = notices.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            lost()
            continue
        for kind, data in messages(datagram):
            dispatch(kind, data)


def _leave_out_neighbours(notices: socket.socket) -> None:
    """Let the kernel pass on no entries of ARP and neighbour discovery: they tell nothing of address lists.

    A classic BPF program: of messages of type RTM_NEWNEIGH and RTM_DELNEIGH, those of family AF_BRIDGE pass.
    """
    added, removed = (socket.htons(kind) for kind in (RTM_NEWNEIGH, RTM_DELNEIGH))  # BPF loads big-endian
    program = b"".join(
        _SOCK_FILTER.pack(*instruction)
        for instruction in (
            (_BPF_LOAD_HALF, 0, 0, 4),  # nlmsg_type
            (_BPF_JUMP_EQUAL, 1, 0, added),
            (_BPF_JUMP_EQUAL, 0, 2, removed),
            (_BPF_LOAD_BYTE, 0, 0, HEADER.size),  # ndm_family
            (_BPF_JUMP_EQUAL, 0, 1, AF_BRIDGE),
            (_BPF_RETURN, 0, 0, 0xFFFFFFFF),
            (_BPF_RETURN, 0, 0, 0),
        )
    )
    held = ctypes.create_string_buffer(program)
    described = struct.pack("HL", len(program) // _SOCK_FILTER.size, ctypes.addressof(held))
    notices.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _notification_socket() -> socket.socket:
    made = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind((0, 0))
    _leave_out_neighbours(made)
    for group in (_GROUP_LINK, _GROUP_NEIGH, *_GROUPS_ADDRESS, *_GROUPS_MULTICAST):
        try:
            made.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)
        except OSError:
            if group not in _GROUPS_MULTICAST:
                made.close()
                raise
    return made
