"""Flows on a VNIC: its frames, as a capture shows them, added up by addresses, protocol and ports. Sans-IO."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.types import mac_text
from hfi_sim.wire.l4 import EthernetL4
from hfi_sim.wire.lrh16b import Lrh16B
from opavnic.vnic.flow import innermost_ethertype_at

HEADERS: Final = Lrh16B.SIZE + EthernetL4.SIZE
SNAP: Final = 128
"""Bytes of a packet that a flow is known by: 16B and L4 header, Ethernet with VLAN tags, IPv6, ports."""
MAX_FLOWS: Final = 4096
"""Flows that are told apart; the frames of further ones are counted together."""
_MACS: Final = 12
_IPV4, _IPV6, _ARP = 0x0800, 0x86DD, 0x0806
_PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 58: "ICMPv6", 132: "SCTP"}
_WITH_PORTS: Final = frozenset({6, 17, 132})


@dataclass(frozen=True, slots=True)
class Flow:
    """What frames of one flow have in common; `source` is the sender."""

    protocol: str
    """Of the innermost header that is known: TCP, ARP, or the ethertype."""
    source: str
    """Address and port; the MAC address of what is not IP."""
    target: str


OTHERS: Final = Flow("others", "", "")


class FlowTally:
    """Packets and bytes of each flow so far."""

    def __init__(self) -> None:
        self.totals: dict[Flow, tuple[int, int]] = {}
        """Packets, and bytes of 16B packets as links count them."""

    def add(self, packet: bytes, wire_len: int) -> None:
        """Count a 16B packet that carries an Ethernet frame; what is too short for one is left out.

        Args:  packet: its first bytes, SNAP or more where it is as long.
        """
        flow = flow_of_packet(packet)
        if flow is None:
            return
        if flow not in self.totals and len(self.totals) >= MAX_FLOWS:
            flow = OTHERS
        packets, size = self.totals.get(flow, (0, 0))
        self.totals[flow] = packets + 1, size + wire_len


def flow_of_packet(packet: bytes) -> Flow | None:
    """Return the flow of a 16B packet with an Ethernet frame in it; None if it is too short for one."""
    frame = packet[HEADERS:]
    at = innermost_ethertype_at(frame)
    if len(frame) < at + 2:
        return None
    ethertype = int.from_bytes(frame[at : at + 2], "big")
    body = frame[at + 2 :]
    macs = mac_text(frame[6:_MACS]), mac_text(frame[:6])
    if ethertype == _IPV4 and len(body) >= 20:
        return _ip(body[9], body[12:16], body[16:20], body[(body[0] & 15) * 4 :], _is_first(body))
    if ethertype == _IPV6 and len(body) >= 40:
        return _ip(body[6], body[8:24], body[24:40], body[40:], True)
    return Flow("ARP" if ethertype == _ARP else f"{ethertype:#06x}", *macs)


def _is_first(ip: bytes) -> bool:
    """Return whether an IPv4 packet begins with the header of its payload: it is no later fragment."""
    offset: int = struct.unpack_from(">H", ip, 6)[0] & 0x1FFF
    return offset == 0


def _ip(protocol: int, source: bytes, target: bytes, payload: bytes, has_ports: bool) -> Flow:
    ends = [str(ipaddress.ip_address(address)) for address in (source, target)]
    if protocol in _WITH_PORTS and has_ports and len(payload) >= 4:
        ports = struct.unpack_from(">HH", payload)
        ends = [
            f"[{end}]:{port}" if ":" in end else f"{end}:{port}"
            for end, port in zip(ends, ports, strict=True)
        ]
    return Flow(_PROTOCOLS.get(protocol, f"IP protocol {protocol}"), *ends)
