"""Synchronous requests about the interfaces of a network namespace.

The sockets are plain ones, opened inside the namespace, so that nothing but the caller's own event loop is involved.
Requests take some tens of microseconds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.base import IpInterface, Merging
from hfi_sim.netdev.ethtool import GRO, UDP_GRO, features, set_feature, set_link_speed
from hfi_sim.netdev.namespace import run_in_namespace

_NLMSG_DONE: Final = 3
_IFLA_LINKMODE: Final = 17
_IFLA_AF_SPEC: Final = 26
_IFLA_INET6_ADDR_GEN_MODE: Final = 8
_ADDR_GEN_MODE_NONE: Final = 1
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
_ANSWER_TIMEOUT: Final = struct.pack("@ll", 5, 0)
"""A timeval: seconds, and microseconds."""
_AT_ONCE: Final = 1000
"""Messages of one call: a socket takes 208 KiB."""
_IFA_F_OPTIMISTIC: Final = 0x04
_IFA_F_DADFAILED: Final = 0x08
_IFA_F_TENTATIVE: Final = 0x40


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

    def find(self, name: str) -> nl.LinkState | None:
        """Return the interface of that name, or None."""
        return self._get(nl.link_body(0, attrs={nl.IFLA_IFNAME: name.encode() + b"\0"}), name)

    def get(self, ifindex: int) -> nl.LinkState | None:
        """Return the interface with that index, or None where it is gone."""
        return self._get(nl.link_body(ifindex), f"#{ifindex}")

    def _get(self, body: bytes, what: str) -> nl.LinkState | None:
        try:
            answers = self._exchange(nl.RTM_GETLINK, 0, body, f"look up interface {what}")
        except NetdevError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return next((nl.parse_link(data) for kind, data in answers if kind == nl.RTM_NEWLINK), None)

    def statistics(self, ifindex: int) -> dict[str, int] | None:
        """Return the kernel's own counters of an interface, under its names, or None where it is gone.

        tx is what the host sends through the interface. Read by hand: a lab has hundreds of interfaces, and may be
        asked for all of them every second.
        """
        body = _IF_STATS_MSG.pack(socket.AF_UNSPEC, ifindex, _STATS_LINK_64)
        try:
            answers = self._exchange(nl.RTM_GETSTATS, 0, body, f"read the counters of interface #{ifindex}")
        except NetdevError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        offset = nl.HEADER.size + _IF_STATS_MSG.size
        for kind, data in answers:
            if kind == nl.RTM_NEWSTATS and nl.ATTRIBUTE.unpack_from(data, offset)[1] == _STATS_LINK_64:
                values = _LINK_STATS64.unpack_from(data, offset + nl.ATTRIBUTE.size)
                return dict(zip(_LINK_STATS64_NAMES, values, strict=True))
        return None

    def set_up(self, ifindex: int, up: bool) -> None:
        """Set the interface up or down."""
        self._set(ifindex, "up" if up else "down", flags=nl.IFF_UP if up else 0, change=nl.IFF_UP)

    def set_address(self, ifindex: int, mac: MacAddr) -> None:
        """Change the device address."""
        self._set(ifindex, f"address {mac.hex(':')}", attrs={nl.IFLA_ADDRESS: mac})

    def set_mtu(self, ifindex: int, mtu: int) -> None:
        """Change the MTU, in bytes."""
        self._set(ifindex, f"mtu {mtu}", attrs={nl.IFLA_MTU: nl.U32.pack(mtu)})

    def rename(self, ifindex: int, name: str) -> None:
        """Give the interface another name; one that is up goes down for it where the kernel requires that."""
        attrs = {nl.IFLA_IFNAME: name.encode() + b"\0"}
        try:
            self._set(ifindex, f"name {name}", attrs=attrs)
        except NetdevError as error:
            if error.errno != errno.EBUSY:
                raise
            self.set_up(ifindex, False)
            try:
                self._set(ifindex, f"name {name}", attrs=attrs)
            finally:
                self.set_up(ifindex, True)

    def move(self, ifindex: int, namespace: Path) -> None:
        """Move the interface to another namespace: it arrives down, without IP and further addresses."""
        fd = os.open(namespace, os.O_RDONLY)
        try:
            self._set(ifindex, f"netns {namespace}", attrs={nl.IFLA_NET_NS_FD: nl.U32.pack(fd)})
        finally:
            os.close(fd)

    def set_alias(self, ifindex: int, alias: str) -> None:
        """Write the text that `ip link` shows as alias."""
        self._set(ifindex, f"alias {alias}", attrs={nl.IFLA_IFALIAS: alias.encode()})

    def merging(self, name: str) -> Merging:
        """Return which packets that the host receives here may be merged."""
        with _refusals(f"interface {name}: features"):
            found = features(self._socket, name)
        return Merging(tcp=GRO in found, udp={GRO, UDP_GRO} <= found)

    def merge_datagrams(self, name: str) -> None:
        """Switch on that datagrams are merged although no socket has asked for it."""
        with _refusals(f"interface {name}: {UDP_GRO}"):
            set_feature(self._socket, name, UDP_GRO, True)

    def set_speed(self, name: str, speed: int) -> None:
        """Let `ethtool` show a speed in Mb/s, full duplex."""
        with _refusals(f"interface {name}: speed {speed}"):
            set_link_speed(self._socket, name, speed)

    def set_dormant(self, ifindex: int, on: bool) -> None:
        """Move the interface to operational state DORMANT and keep it there, or let it follow the carrier."""
        state = {
            nl.IFLA_OPERSTATE: bytes([nl.IF_OPER_DORMANT if on else nl.IF_OPER_UP]),
            _IFLA_LINKMODE: bytes([nl.LINKMODE_DORMANT if on else 0]),
        }
        self._set(ifindex, "dormant" if on else "not dormant", attrs=state)

    def leave_out_link_local(self, ifindex: int) -> None:
        """Give the interface no IPv6 link-local address when it goes up. A kernel without IPv6 refuses."""
        mode = nl.build_attribute(_IFLA_INET6_ADDR_GEN_MODE, bytes([_ADDR_GEN_MODE_NONE]))
        spec = nl.build_attribute(socket.AF_INET6, mode)
        self._set(ifindex, "without link-local addresses", attrs={_IFLA_AF_SPEC: spec})

    def add_ip(self, ifindex: int, interface: IpInterface) -> None:
        """Give the interface an IP address with its prefix length."""
        body = nl.address_body(ifindex, interface)
        self._exchange(nl.RTM_NEWADDR, nl.NLM_F_CREATE_EXCL | nl.NLM_F_ACK, body, f"add address {interface}")

    def remove_ip(self, ifindex: int, interface: IpInterface) -> None:
        """Take an IP address from the interface."""
        body = nl.address_body(ifindex, interface)
        self._exchange(nl.RTM_DELADDR, nl.NLM_F_ACK, body, f"remove address {interface}")

    def ip_addresses(self) -> dict[int, tuple[IpInterface, ...]]:
        """Return the IP addresses that interfaces of the namespace have, by interface index, in the kernel's order.

        Addresses of a single link (fe80::/10) are left out: they say nothing without the interface.
        """
        body = nl.IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        found: dict[int, list[IpInterface]] = {}
        for kind, data in self._exchange(
            nl.RTM_GETADDR, nl.NLM_F_DUMP | nl.NLM_F_ACK, body, "read the IP addresses"
        ):
            entry = nl.parse_ip(data) if kind == nl.RTM_NEWADDR else None
            if entry is not None:
                found.setdefault(entry[0], []).append(entry[1])
        return {ifindex: tuple(addresses) for ifindex, addresses in found.items()}

    def links_now(self) -> list[nl.LinkState]:
        """Return all interfaces of the namespace."""
        answers = self._exchange(
            nl.RTM_GETLINK, nl.NLM_F_DUMP | nl.NLM_F_ACK, nl.link_body(0), "list the interfaces"
        )
        return [nl.parse_link(data) for kind, data in answers if kind == nl.RTM_NEWLINK]

    def tentative_addresses(self) -> set[int]:
        """Return the indices of the interfaces with an IPv6 address that the kernel may still find to be a duplicate.

        Programs cannot bind to such an address. Read by hand: a namespace has hundreds of addresses.
        """
        body = nl.IFADDRMSG.pack(socket.AF_INET6, 0, 0, 0, 0)
        found = set()
        for kind, data in self._exchange(nl.RTM_GETADDR, nl.NLM_F_DUMP, body, "read the IPv6 addresses"):
            if kind == nl.RTM_NEWADDR:
                _, _, flags, _, ifindex = nl.IFADDRMSG.unpack_from(data, nl.HEADER.size)
                if flags & (_IFA_F_TENTATIVE | _IFA_F_OPTIMISTIC | _IFA_F_DADFAILED) == _IFA_F_TENTATIVE:
                    found.add(ifindex)
        return found

    def address_lists(self) -> dict[int, nl.KernelAddressLists]:
        """Return the secondary addresses of every interface in the namespace, by interface index."""
        body = nl.NDMSG.pack(nl.AF_BRIDGE, 0, 0, 0, 0)
        uc: dict[int, list[MacAddr]] = {}
        mc: dict[int, list[MacAddr]] = {}
        for kind, data in self._exchange(nl.RTM_GETNEIGH, nl.NLM_F_DUMP, body, "read the address lists"):
            entry = nl.parse_own_address(data) if kind == nl.RTM_NEWNEIGH else None
            if entry is not None:
                ifindex, mac = entry
                (mc if mac[0] & 1 else uc).setdefault(ifindex, []).append(mac)
        return {
            index: nl.KernelAddressLists(tuple(uc.get(index, ())), tuple(mc.get(index, ())))
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
        body = nl.link_body(ifindex, flags, change, attrs)
        self._exchange(nl.RTM_NEWLINK, nl.NLM_F_ACK, body, f"set interface #{ifindex} {what}")

    def _exchange(self, kind: int, flags: int, body: bytes, what: str) -> list[tuple[int, bytes]]:
        """Make a request and return the answers: one, if `flags` ask for no dump and no acknowledgement."""
        self._sequence += 1
        length = nl.HEADER.size + len(body)
        header = nl.HEADER.pack(length, kind, flags | nl.NLM_F_REQUEST, self._sequence, 0)
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
            said = [flags | nl.NLM_F_REQUEST] * (len(bunch) - 1) + [flags | nl.NLM_F_REQUEST | nl.NLM_F_ACK]
            requests = (
                nl.HEADER.pack(nl.HEADER.size + len(body), kind, flag, self._sequence, 0) + body
                for body, flag in zip(bunch, said, strict=True)
            )
            with _refusals(f"cannot {what}"):
                self._socket.send(b"".join(requests))
                self._answers(what)

    def _answers(self, what: str, *, only_one: bool = False) -> list[tuple[int, bytes]]:
        answers: list[tuple[int, bytes]] = []
        while True:
            try:
                datagram = self._socket.recv(nl.RECEIVE_BYTES)
            except BlockingIOError:
                raise TimeoutError("timed out") from None
            for kind, data in nl.messages(datagram):
                if nl.HEADER.unpack_from(data)[3] != self._sequence:
                    continue  # the rest of an exchange that timed out
                if kind == _NLMSG_DONE:
                    return answers
                if kind == nl.NLMSG_ERROR:
                    if number := nl.errno_of(data):
                        raise NetdevError(f"cannot {what}: {os.strerror(number)}", number)
                    return answers
                answers.append((kind, data))
                if only_one:
                    return answers


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Raise what the system refuses as a NetdevError."""
    try:
        yield
    except OSError as error:
        raise NetdevError(f"{what}: {error.strerror or error}", error.errno or 0) from error


def open_requests() -> socket.socket:
    """Open a socket for requests in the namespace that this thread is in."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    made.bind((0, 0))
    # not settimeout(): Python then polls before each call
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _ANSWER_TIMEOUT)
    return made
