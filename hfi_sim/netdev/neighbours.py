"""The kernel's neighbour tables: what IPv4 (ARP) and IPv6 (neighbour discovery) know of link-layer addresses.

The entries are those of one namespace. Each table has one limit for all namespaces of the machine together, which is a
sysctl of the first one; every namespace can read it by netlink. Permanent entries do not count.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.link_client import LinkClient

Address = IPv4Address | IPv6Address

RTM_NEWNEIGHTBL: Final = 64
RTM_GETNEIGHTBL: Final = 66
_CREATE_OR_REPLACE: Final = 0x500
_NDTMSG: Final = struct.Struct("=Bxxx")
_U64: Final = struct.Struct("=Q")
_NDA_DST: Final = 1
_NTF_EXT_LEARNED: Final = 0x10
_NDTA_NAME: Final = 1
_NDTA_THRESH2: Final = 3
_NDTA_THRESH3: Final = 4
_NDTA_CONFIG: Final = 5
_NDTA_STATS: Final = 7
_ENTRIES_AT: Final = 4
"""In ndt_config, behind two lengths of 16 bits."""
_TABLE_FULLS_AT: Final = 80
"""In ndt_stats, behind ten counters of 64 bits."""
_NAMES: Final = {"arp_cache": 4, "ndisc_cache": 6}


@dataclass(frozen=True, slots=True)
class NeighbourTable:
    """One table of the machine."""

    version: int
    """4 or 6."""
    entries: int
    """In all namespaces, permanent ones included."""
    soft_limit: int
    """gc_thresh2: beyond it, the kernel removes entries that are five seconds old."""
    hard_limit: int
    """gc_thresh3: beyond it, no address is resolved."""
    refusals: int
    """How often an entry could not be made because the table was full."""

    @property
    def sysctl(self) -> str:
        """The name of the hard limit."""
        return f"net.ipv{self.version}.neigh.default.gc_thresh3"


class NeighbourClient(LinkClient):
    """Requests about neighbours in one namespace."""

    def tables(self) -> dict[int, NeighbourTable]:
        """Return the tables of the machine, by IP version.

        Raises:  NetdevError: the kernel does not say.
        """
        body = _NDTMSG.pack(socket.AF_UNSPEC)
        found = {}
        for kind, data in self._exchange(
            RTM_GETNEIGHTBL, nl.NLM_F_DUMP, body, "read the neighbour tables of the machine"
        ):
            told = dict(nl.attributes(data, _NDTMSG.size)) if kind == RTM_NEWNEIGHTBL else {}
            version = _NAMES.get(told.get(_NDTA_NAME, b"").rstrip(b"\0").decode())
            if version and _NDTA_THRESH3 in told:  # a message without limits tells of one interface
                found[version] = NeighbourTable(
                    version,
                    nl.U32.unpack_from(told[_NDTA_CONFIG], _ENTRIES_AT)[0],
                    nl.U32.unpack(told[_NDTA_THRESH2])[0],
                    nl.U32.unpack(told[_NDTA_THRESH3])[0],
                    _U64.unpack_from(told[_NDTA_STATS], _TABLE_FULLS_AT)[0],
                )
        return found

    def has_neighbour(self, ifindex: int, address: Address) -> bool:
        """Return whether there is an entry for an address; also where the kernel cannot say (before 5.0)."""
        return self._state(ifindex, address) is not None

    def forget_neighbour(self, ifindex: int, address: Address) -> None:
        """Remove the entry for an address if it was learned. A static or missing entry is left."""
        state = self._state(ifindex, address)
        if not state:
            return
        try:
            self._exchange(
                nl.RTM_DELNEIGH, nl.NLM_F_ACK, _entry(ifindex, address), f"remove neighbour {address}"
            )
        except NetdevError as error:
            if error.errno not in (errno.ENOENT, errno.EPERM):
                raise

    def set_permanent(self, ifindex: int, neighbours: Mapping[Address, MacAddr]) -> None:
        """Make permanent entries, in place of those that are there. Raises NetdevError."""
        bodies = [_entry(ifindex, address, mac) for address, mac in neighbours.items()]
        self._exchange_all(nl.RTM_NEWNEIGH, _CREATE_OR_REPLACE, bodies, "set neighbours")

    def forget_permanent(self, ifindex: int, addresses: Iterable[Address]) -> None:
        """Remove entries, also permanent ones. Raises NetdevError."""
        for address in addresses:
            try:
                self._exchange(
                    nl.RTM_DELNEIGH, nl.NLM_F_ACK, _entry(ifindex, address), f"remove neighbour {address}"
                )
            except NetdevError as error:
                if error.errno != errno.ENOENT:  # the host has removed it itself
                    raise

    def _state(self, ifindex: int, address: Address) -> int | None:
        """Return the state of an entry, 0 for one that is not to be removed; None if there is none."""
        try:
            answers = self._exchange(
                nl.RTM_GETNEIGH, nl.NLM_F_ACK, _entry(ifindex, address), f"look up neighbour {address}"
            )
        except NetdevError as error:
            if error.errno == errno.ENOENT:
                return None
            return 0
        for kind, data in answers:
            if kind == nl.RTM_NEWNEIGH:
                _, _, state, flags, _ = nl.NDMSG.unpack_from(data, nl.HEADER.size)
                return 0 if state & nl.NUD_PERMANENT or flags & _NTF_EXT_LEARNED else state
        return None


def _entry(ifindex: int, address: Address, mac: MacAddr | None = None) -> bytes:
    """Return a message about an entry, without its header; with a MAC address, it is a permanent one."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    attribute = nl.build_attribute(_NDA_DST, address.packed)
    if mac is None:
        return nl.NDMSG.pack(family, ifindex, 0, 0, 0) + attribute
    return (
        nl.NDMSG.pack(family, ifindex, nl.NUD_PERMANENT, 0, 0)
        + attribute
        + nl.build_attribute(nl.NDA_LLADDR, mac)
    )
