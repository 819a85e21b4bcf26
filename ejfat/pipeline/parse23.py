"""The parser of the v2/v3 pipeline. Everything else is a parser error, and every parser error drops the frame.

Source: the public P4 program.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ejfat.drops import Drop
from ejfat.pipeline.ip import ICMP, ICMPV6, UDP, UDP_SIZE, Ip, parse_ip

ETH_ARP = 0x0806
ETH_VLAN = 0x8100
ETH_SLOW = 0x8809
ETH_LLDP = 0x88CC
_LB_SIZE = 16
_ARP_REQUEST = bytes.fromhex("0001080006040001")


class Kind(IntEnum):
    """Kinds of frames that the pipeline distinguishes."""

    OTHER = 0
    """LLDP or a slow protocol, without IP."""
    ARP = 1
    ICMPV4_ECHO = 2
    ICMPV4_OTHER = 3
    ICMPV6_ECHO = 4
    ICMPV6_OTHER = 5
    NEIGHBOR_SOLICITATION = 6
    UDP = 7
    """UDP to another port than the load balancer's."""
    LB = 8


class Parsed(NamedTuple):
    """A successfully parsed frame."""

    kind: Kind
    ip: int
    """IP version 4 or 6; 0 for ARP and OTHER."""
    l4: int
    """Offset of the header after IP."""


def parse(frame: bytes, ether_type: int) -> Parsed | Drop:
    """Parse a frame that has no VLAN tag or whose tag was removed.

    Args:    ether_type: type of the payload at byte 14; for a frame whose tag was removed, the inner type, which is
        not the one at byte 12.
    """
    ip = parse_ip(frame, ether_type)
    if isinstance(ip, Drop):
        return ip
    if ip is not None:
        return _behind_ipv4(frame, ip) if ip.version == 4 else _behind_ipv6(frame, ip)
    if ether_type == ETH_ARP:
        if len(frame) < 42:
            return Drop.PARSER_SHORT_ARP
        return Parsed(Kind.ARP, 0, 14) if frame[14:22] == _ARP_REQUEST else Drop.PARSER_ARP
    if ether_type in (ETH_SLOW, ETH_LLDP):
        return Parsed(Kind.OTHER, 0, 14)
    return Drop.PARSER_ETHER_TYPE


def _behind_ipv4(frame: bytes, ip: Ip) -> Parsed | Drop:
    if ip.protocol not in (ICMP, UDP):
        return Drop.PARSER_PROTOCOL
    if ip.is_later_fragment:
        return Drop.PARSER_FRAGMENT
    if ip.protocol == UDP:
        return _udp(frame, ip)
    length, l4 = len(frame), ip.l4
    if length < l4 + 4:
        return Drop.PARSER_SHORT_ICMP
    if frame[l4 : l4 + 2] != b"\x08\x00":
        return Parsed(Kind.ICMPV4_OTHER, 4, l4)
    return Parsed(Kind.ICMPV4_ECHO, 4, l4) if length >= l4 + 8 else Drop.PARSER_SHORT_ICMP


def _behind_ipv6(frame: bytes, ip: Ip) -> Parsed | Drop:
    if ip.protocol == UDP:
        return _udp(frame, ip)
    if ip.protocol != ICMPV6:
        return Drop.PARSER_PROTOCOL
    if len(frame) < 58:
        return Drop.PARSER_SHORT_ICMP
    if frame[54] == 1:
        return Parsed(Kind.ICMPV6_OTHER, 6, 54)
    if frame[54:56] == b"\x80\x00":
        return Parsed(Kind.ICMPV6_ECHO, 6, 54) if len(frame) >= 62 else Drop.PARSER_SHORT_ICMP
    if frame[54:56] == b"\x87\x00":
        return _solicitation(frame)
    return Drop.PARSER_PROTOCOL


def _solicitation(frame: bytes) -> Parsed | Drop:
    return (
        Parsed(Kind.NEIGHBOR_SOLICITATION, 6, 54)
        if len(frame) >= solicitation_end(frame)
        else Drop.PARSER_SHORT_ICMP
    )


def solicitation_end(frame: bytes) -> int:
    """Return the offset after the parsed part of a neighbor solicitation: the target and the first option."""
    end = 78
    if int.from_bytes(frame[18:20], "big") == 24:
        return end
    if len(frame) > end and frame[end] == 1:
        return end + 8
    return end + 2


def _udp(frame: bytes, ip: Ip) -> Parsed | Drop:
    length, l4 = len(frame), ip.l4
    if length < l4 + UDP_SIZE:
        return Drop.PARSER_SHORT_UDP
    if frame[l4 + 2] >> 6 != 1:
        return Parsed(Kind.UDP, ip.version, l4)
    lb = l4 + UDP_SIZE
    if length < lb + 4:
        return Drop.PARSER_SHORT_UDPLB
    if frame[lb : lb + 2] != b"LB":
        return Drop.PARSER_BAD_MAGIC
    if frame[lb + 2] not in (2, 3):
        return Drop.PARSER_BAD_VERSION
    if length < lb + _LB_SIZE:
        return Drop.PARSER_SHORT_UDPLB
    shortest = UDP_SIZE + _LB_SIZE
    if ip.claimed < shortest or int.from_bytes(frame[l4 + 4 : l4 + 6], "big") < shortest:
        return Drop.PARSER_BAD_LENGTH
    return Parsed(Kind.LB, ip.version, l4)
