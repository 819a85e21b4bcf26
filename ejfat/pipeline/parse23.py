"""The parser of today's pipeline. Everything else is a parser error, and every parser error drops the frame.

Source: the public P4 program of today's load balancer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ejfat.drops import Drop

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_VLAN = 0x8100
ETH_IPV6 = 0x86DD
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
    if ether_type == ETH_IPV4:
        return _ipv4(frame)
    if ether_type == ETH_IPV6:
        return _ipv6(frame)
    if ether_type == ETH_ARP:
        if len(frame) < 42:
            return Drop.PARSER_SHORT_ARP
        return Parsed(Kind.ARP, 0, 14) if frame[14:22] == _ARP_REQUEST else Drop.PARSER_ARP
    if ether_type in (ETH_SLOW, ETH_LLDP):
        return Parsed(Kind.OTHER, 0, 14)
    return Drop.PARSER_ETHER_TYPE


def _ipv4(frame: bytes) -> Parsed | Drop:
    length = len(frame)
    if length < 34:
        return Drop.PARSER_SHORT_IPV4
    first = frame[14]
    if first >> 4 != 4 or first & 15 < 5:
        return Drop.PARSER_INVALID_IP
    header = 4 * (first & 15)
    l4 = 14 + header
    if length < l4:
        return Drop.PARSER_SHORT_IPV4_OPTIONS
    protocol = frame[23]
    if protocol not in (1, 17):
        return Drop.PARSER_PROTOCOL
    if int.from_bytes(frame[20:22], "big") & 0x1FFF:
        return Drop.PARSER_FRAGMENT
    if protocol == 17:
        return _udp(frame, l4, 4, int.from_bytes(frame[16:18], "big") - header)
    if length < l4 + 4:
        return Drop.PARSER_SHORT_ICMP
    if frame[l4 : l4 + 2] != b"\x08\x00":
        return Parsed(Kind.ICMPV4_OTHER, 4, l4)
    return Parsed(Kind.ICMPV4_ECHO, 4, l4) if length >= l4 + 8 else Drop.PARSER_SHORT_ICMP


def _ipv6(frame: bytes) -> Parsed | Drop:
    length = len(frame)
    if length < 54:
        return Drop.PARSER_SHORT_IPV6
    if frame[14] >> 4 != 6:
        return Drop.PARSER_INVALID_IP
    next_header = frame[20]
    if next_header == 17:
        return _udp(frame, 54, 6, int.from_bytes(frame[18:20], "big"))
    if next_header != 58:
        return Drop.PARSER_PROTOCOL
    if length < 58:
        return Drop.PARSER_SHORT_ICMP
    if frame[54] == 1:
        return Parsed(Kind.ICMPV6_OTHER, 6, 54)
    if frame[54:56] == b"\x80\x00":
        return Parsed(Kind.ICMPV6_ECHO, 6, 54) if length >= 62 else Drop.PARSER_SHORT_ICMP
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


def _udp(frame: bytes, l4: int, version: int, ip_length: int) -> Parsed | Drop:
    length = len(frame)
    if length < l4 + 8:
        return Drop.PARSER_SHORT_UDP
    if frame[l4 + 2] >> 6 != 1:
        return Parsed(Kind.UDP, version, l4)
    lb = l4 + 8
    if length < lb + 4:
        return Drop.PARSER_SHORT_UDPLB
    if frame[lb : lb + 2] != b"LB":
        return Drop.PARSER_BAD_MAGIC
    if frame[lb + 2] not in (2, 3):
        return Drop.PARSER_BAD_VERSION
    if length < lb + _LB_SIZE:
        return Drop.PARSER_SHORT_UDPLB
    if ip_length < 8 + _LB_SIZE or int.from_bytes(frame[l4 + 4 : l4 + 6], "big") < 8 + _LB_SIZE:
        return Drop.PARSER_BAD_LENGTH
    return Parsed(Kind.LB, version, l4)
