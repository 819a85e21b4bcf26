"""Bridges, their ports and what they have learnt, and the other links that lead out of a namespace: requests, notices.

Linux tells of an address that a bridge learns when it is new, when it has moved to another port, and when it is gone;
not when it is seen again.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr, mac_text
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.routes import RTPROT_DHCP, RouteClient

BRIDGE: Final = "bridge"
VETH: Final = "veth"
_AF_BRIDGE_MESSAGES: Final = frozenset({nl.RTM_NEWNEIGH, nl.RTM_DELNEIGH})
_NDA_VLAN: Final = 5
_NDA_MASTER: Final = 9
_VETH_INFO_PEER: Final = 1
_IFLA_INFO_DATA: Final = 2
_ANYWHERE: Final = ipaddress.IPv4Network("0.0.0.0/0")


@dataclass(frozen=True, slots=True)
class FdbEntry:
    """An address in the forwarding database of a bridge, or its end."""

    bridge: int
    """Interface index of the bridge."""
    port: int
    """Interface index of its port; that of the bridge for the addresses of the bridge itself."""
    mac: MacAddr
    vlan: int
    gone: bool = False
    local: bool = False
    """The bridge's own, or that of one of its ports; not one that it has learnt."""


class BridgeClient(RouteClient):
    """Requests about bridges and ways out of one namespace. A request that the kernel refuses raises NetdevError."""

    def add_bridge(self, name: str, mac: MacAddr) -> None:
        """Make a bridge with an address of its own, without spanning tree."""
        self._add(name, mac, BRIDGE)

    def add_veth(self, name: str, mac: MacAddr, peer: str, peer_mac: MacAddr, peer_namespace: int) -> None:
        """Make a pair of interfaces, one here, the other in the namespace behind a descriptor."""
        attrs = {
            nl.IFLA_IFNAME: peer.encode() + b"\0",
            nl.IFLA_ADDRESS: peer_mac,
            nl.IFLA_NET_NS_FD: nl.U32.pack(peer_namespace),
        }
        self._add(name, mac, VETH, nl.build_attribute(_VETH_INFO_PEER, nl.link_body(0, attrs=attrs)))

    def _add(self, name: str, mac: MacAddr, kind: str, data: bytes = b"") -> None:
        info = nl.build_attribute(nl.IFLA_INFO_KIND, kind.encode() + b"\0")
        if data:
            info += nl.build_attribute(_IFLA_INFO_DATA | nl.NLA_F_NESTED, data)
        attrs = {
            nl.IFLA_IFNAME: name.encode() + b"\0",
            nl.IFLA_ADDRESS: mac,
            nl.IFLA_LINKINFO | nl.NLA_F_NESTED: info,
        }
        body = nl.link_body(0, attrs=attrs)
        self._exchange(nl.RTM_NEWLINK, nl.NLM_F_CREATE_EXCL | nl.NLM_F_ACK, body, f"make {kind} {name}")

    def delete(self, ifindex: int) -> None:
        """Remove an interface."""
        self._exchange(nl.RTM_DELLINK, nl.NLM_F_ACK, nl.link_body(ifindex), f"remove interface #{ifindex}")

    def set_master(self, ifindex: int, bridge: int) -> None:
        """Make an interface the port of a bridge; 0: of none."""
        self._set(ifindex, f"master #{bridge}", attrs={nl.IFLA_MASTER: nl.U32.pack(bridge)})

    def listen_to(self, ifindex: int, mac: MacAddr, on: bool) -> None:
        """Add an address to the list of those that an interface listens to, as `bridge fdb add MAC dev DEV self` does.

        Harmless where that is so already.
        """
        entry = nl.NDMSG.pack(nl.AF_BRIDGE, ifindex, nl.NUD_PERMANENT, nl.NTF_SELF, 0)
        body = entry + nl.build_attribute(nl.NDA_LLADDR, mac)
        kind, flags = (nl.RTM_NEWNEIGH, nl.NLM_F_CREATE_EXCL) if on else (nl.RTM_DELNEIGH, 0)
        try:
            self._exchange(
                kind, flags | nl.NLM_F_ACK, body, f"address {mac_text(mac)} of interface #{ifindex}"
            )
        except NetdevError as error:
            if error.errno not in (errno.EEXIST, errno.ENOENT):
                raise

    def forwarding(self, bridge: int) -> list[FdbEntry]:
        """Return the forwarding database of a bridge."""
        body = nl.NDMSG.pack(nl.AF_BRIDGE, 0, 0, 0, 0)
        answers = self._exchange(nl.RTM_GETNEIGH, nl.NLM_F_DUMP, body, "read forwarding databases")
        entries = (fdb_entry(kind, data) for kind, data in answers)
        return [entry for entry in entries if entry is not None and entry.bridge == bridge]

    def add_default_route(self, gateway: ipaddress.IPv4Address) -> None:
        """Send what has no route of its own to a gateway. Raises NetdevError, EEXIST where there is such a route."""
        self.add_route(_ANYWHERE, [gateway], 0, None, RTPROT_DHCP)

    def ipv4_routes(self) -> Iterator[tuple[ipaddress.IPv4Network, int]]:
        """Yield the IPv4 routes of the namespace: the destination, and the interface index or 0."""
        for route in self.all_routes([socket.AF_INET]):
            if isinstance(route.to, ipaddress.IPv4Network):
                yield route.to, next(iter(route.ifindexes), 0)


def fdb_entry(kind: int, message: bytes) -> FdbEntry | None:
    """Read a message of neighbours: None where it tells nothing of the forwarding database of a bridge."""
    if kind not in _AF_BRIDGE_MESSAGES or message[nl.HEADER.size] != nl.AF_BRIDGE:
        return None
    _, ifindex, state, flags, _ = nl.NDMSG.unpack_from(message, nl.HEADER.size)
    found = dict(nl.attributes(message, nl.NDMSG.size))
    mac = found.get(nl.NDA_LLADDR, b"")
    vlan, master = (int.from_bytes(found.get(one, b""), sys.byteorder) for one in (_NDA_VLAN, _NDA_MASTER))
    if not master or len(mac) != 6 or flags & nl.NTF_SELF:
        return None
    return FdbEntry(
        master,
        ifindex,
        MacAddr(mac),
        vlan,
        gone=kind == nl.RTM_DELNEIGH,
        local=bool(state & nl.NUD_PERMANENT),
    )


def unused_link_network(
    taken: list[ipaddress.IPv4Network], pool: ipaddress.IPv4Network
) -> ipaddress.IPv4Network | None:
    """Return the first network of four addresses in a pool that overlaps none of those taken; None: there is none."""
    return next(
        (net for net in pool.subnets(new_prefix=30) if not any(net.overlaps(other) for other in taken)), None
    )
