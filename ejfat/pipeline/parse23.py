"""What the v2/v3 pipeline finds behind the headers that all share; the rest is a parser error, which drops the frame.

Source: the public P4 program.
"""

from __future__ import annotations

from enum import IntEnum

from ejfat.base.drops import LbDrop
from ejfat.pipeline.packet import ETH_ARP, ICMP, ICMPV6, UDP, Ip, Packet, lb_fault

ETH_SLOW = 0x8809
ETH_LLDP = 0x88CC
_LB_SIZE = 16
_ARP_REQUEST = bytes.fromhex("0001080006040001")


class FrameKind(IntEnum):
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


def parse(packet: Packet) -> FrameKind | LbDrop:
    """Return what a packet is to this pipeline, or why it is nothing."""
    frame, ip, ether_type = packet.frame, packet.ip, packet.inner_type
    if isinstance(ip, LbDrop):
        return ip
    if ip is not None:
        return _behind_ipv4(packet, ip) if ip.version == 4 else _behind_ipv6(packet, ip)
    if ether_type == ETH_ARP:
        if len(frame) < 42:
            return LbDrop.PARSER_SHORT_ARP
        return FrameKind.ARP if frame[14:22] == _ARP_REQUEST else LbDrop.PARSER_ARP
    if ether_type in (ETH_SLOW, ETH_LLDP):
        return FrameKind.OTHER
    return LbDrop.PARSER_ETHER_TYPE


def _behind_ipv4(packet: Packet, ip: Ip) -> FrameKind | LbDrop:
    if ip.protocol not in (ICMP, UDP):
        return LbDrop.PARSER_PROTOCOL
    if ip.is_later_fragment:
        return LbDrop.PARSER_FRAGMENT
    if ip.protocol == UDP:
        return _udp(packet, ip)
    frame, l4 = packet.frame, ip.l4
    length = len(frame)
    if length < l4 + 4:
        return LbDrop.PARSER_SHORT_ICMP
    if frame[l4 : l4 + 2] != b"\x08\x00":
        return FrameKind.ICMPV4_OTHER
    return FrameKind.ICMPV4_ECHO if length >= l4 + 8 else LbDrop.PARSER_SHORT_ICMP


def _behind_ipv6(packet: Packet, ip: Ip) -> FrameKind | LbDrop:
    if ip.protocol == UDP:
        return _udp(packet, ip)
    if ip.protocol != ICMPV6:
        return LbDrop.PARSER_PROTOCOL
    frame = packet.frame
    if len(frame) < 58:
        return LbDrop.PARSER_SHORT_ICMP
    if frame[54] == 1:
        return FrameKind.ICMPV6_OTHER
    if frame[54:56] == b"\x80\x00":
        return FrameKind.ICMPV6_ECHO if len(frame) >= 62 else LbDrop.PARSER_SHORT_ICMP
    if frame[54:56] == b"\x87\x00":
        is_whole = len(frame) >= solicitation_end(frame)
        return FrameKind.NEIGHBOR_SOLICITATION if is_whole else LbDrop.PARSER_SHORT_ICMP
    return LbDrop.PARSER_PROTOCOL


def solicitation_end(frame: bytes) -> int:
    """Return the offset after the parsed part of a neighbor solicitation: the target and the first option."""
    end = 78
    if int.from_bytes(frame[18:20], "big") == 24:
        return end
    if len(frame) > end and frame[end] == 1:
        return end + 8
    return end + 2


def _udp(packet: Packet, ip: Ip) -> FrameKind | LbDrop:
    if packet.port < 0:
        return LbDrop.PARSER_SHORT_UDP
    if packet.port >> 14 != 1:
        return FrameKind.UDP
    return lb_fault(packet, ip, (2, 3), _LB_SIZE, 4) or FrameKind.LB
