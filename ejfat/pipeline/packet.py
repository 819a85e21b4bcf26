"""The parse that all of the data plane shares: Ethernet, VLAN tag, IP, UDP, once for each frame.

What a frame is (data of a version, a sync message, something else) is decided by what is found here, never by bytes at
fixed offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from ejfat.base.drops import LbDrop
from ejfat.wire.headers import LB_PORT

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_VLAN = 0x8100
ETH_IPV6 = 0x86DD
ICMP = 1
UDP = 17
ICMPV6 = 58
UDP_SIZE = 8
_TAG_SIZE = 4
_V1_START = b"LB\x01"
_SYNC_START = b"LC"


class Ip(NamedTuple):
    """An IP header. It is complete, with all options of IPv4."""

    version: int
    """4 or 6."""
    l4: int
    """Offset of the header behind it. Extension headers of IPv6 are not followed."""
    protocol: int
    is_later_fragment: bool
    """Of IPv4: what stands where a header would be is payload."""
    claimed: int
    """Bytes behind the header by its length field, not by the frame; below 0 if the field is too small."""


class Packet(NamedTuple):
    """A frame and what its headers say, up to UDP."""

    raw: bytes
    """As it came."""
    frame: bytes
    """Without its VLAN tag; the EtherType of the tag stays at byte 12."""
    ether_type: int
    """As at byte 12."""
    inner_type: int
    """That behind the tag if there is one."""
    ip: Ip | LbDrop | None
    """The IP header; why it is none that can be parsed; None: neither IPv4 nor IPv6."""
    port: int
    """Destination port; -1: no complete UDP header."""

    @property
    def vlan_id(self) -> int:
        """Number of the VLAN; 0 if there is no tag."""
        return int.from_bytes(self.raw[14:16], "big") & 0xFFF if self.ether_type == ETH_VLAN else 0

    @property
    def untagged(self) -> Ip | None:
        """The IP header of a frame without a tag; version 1, sync messages and the node know no others."""
        return self.ip if isinstance(self.ip, Ip) and self.ether_type != ETH_VLAN else None

    @property
    def source(self) -> bytes:
        """Source address; the packet has an IP header."""
        return self.frame[26:30] if self._version == 4 else self.frame[22:38]

    @property
    def destination(self) -> bytes:
        """Destination address; the packet has an IP header."""
        return self.frame[30:34] if self._version == 4 else self.frame[38:54]

    @property
    def has_v1_header(self) -> bool:
        """Whether this is UDP to port 19522 with a version 1 load balancer header."""
        return self.port == LB_PORT and self._begins(_V1_START)

    def is_sync(self, ports: range) -> bool:
        """Return whether this is UDP to one of the ports and begins like a sync message."""
        return self.port in ports and self._begins(_SYNC_START)

    @property
    def payload(self) -> bytes:
        """UDP payload, cut at the end of the frame; the packet has a UDP header."""
        l4 = self.ip.l4 if isinstance(self.ip, Ip) else 0
        return self.frame[l4 + UDP_SIZE : l4 + int.from_bytes(self.frame[l4 + 4 : l4 + 6], "big")]

    @property
    def _version(self) -> int:
        return self.ip.version if isinstance(self.ip, Ip) else 0

    def _begins(self, start: bytes) -> bool:
        ip = self.untagged
        return ip is not None and self.frame.startswith(start, ip.l4 + UDP_SIZE)


def parse_packet(raw: bytes) -> Packet:
    """Parse a frame, which may be any bytes."""
    ether_type = inner_type = int.from_bytes(raw[12:14], "big")
    if len(raw) < 14:
        return Packet(raw, raw, ether_type, inner_type, LbDrop.PARSER_SHORT_ETHERNET, -1)
    frame = raw
    if ether_type == ETH_VLAN:
        if len(raw) < 14 + _TAG_SIZE:
            return Packet(raw, raw, ether_type, inner_type, LbDrop.PARSER_SHORT_VLAN, -1)
        inner_type = int.from_bytes(raw[16:18], "big")
        frame = raw[:14] + raw[18:]
    ip = _parse_ip(frame, inner_type)
    port = -1
    if isinstance(ip, Ip) and ip.protocol == UDP and not ip.is_later_fragment:
        l4 = ip.l4
        if len(frame) >= l4 + UDP_SIZE:
            port = int.from_bytes(frame[l4 + 2 : l4 + 4], "big")
    return Packet(raw, frame, ether_type, inner_type, ip, port)


def _parse_ip(frame: bytes, ether_type: int) -> Ip | LbDrop | None:
    if ether_type == ETH_IPV4:
        if len(frame) < 34:
            return LbDrop.PARSER_SHORT_IPV4
        first = frame[14]
        header = 4 * (first & 15)
        if first >> 4 != 4 or header < 20:
            return LbDrop.PARSER_INVALID_IP
        if len(frame) < 14 + header:
            return LbDrop.PARSER_SHORT_IPV4_OPTIONS
        is_later = bool(int.from_bytes(frame[20:22], "big") & 0x1FFF)
        claimed = int.from_bytes(frame[16:18], "big") - header
        return Ip(4, 14 + header, frame[23], is_later, claimed)
    if ether_type == ETH_IPV6:
        if len(frame) < 54:
            return LbDrop.PARSER_SHORT_IPV6
        if frame[14] >> 4 != 6:
            return LbDrop.PARSER_INVALID_IP
        return Ip(6, 54, frame[20], False, int.from_bytes(frame[18:20], "big"))
    return None


def lb_fault(packet: Packet, ip: Ip, versions: tuple[int, ...], size: int, first: int) -> LbDrop | None:
    """Return why a UDP packet has no load balancer header; None: it has one.

    Args:    versions: those that count. size: of the header, in bytes. first: bytes that are there, or it is too short,
        before its beginning is looked at.
    """
    frame, udp, at = packet.frame, ip.l4, ip.l4 + UDP_SIZE
    if len(frame) < at + first:
        return LbDrop.PARSER_SHORT_UDPLB
    if frame[at : at + 2] != b"LB":
        return LbDrop.PARSER_BAD_MAGIC
    if frame[at + 2] not in versions:
        return LbDrop.PARSER_BAD_VERSION
    if len(frame) < at + size:
        return LbDrop.PARSER_SHORT_UDPLB
    shortest = UDP_SIZE + size
    if ip.claimed < shortest or int.from_bytes(frame[udp + 4 : udp + 6], "big") < shortest:
        return LbDrop.PARSER_BAD_LENGTH
    return None


class Verdict(NamedTuple):
    """The outgoing frame, or the reason for dropping it."""

    frame: bytes | None
    drop: LbDrop | None = None
    is_reply: bool = False
    """The frame is the load balancer's own answer to one that arrived."""
    to_host: bool = False
    """The frame goes to the host (a link-local protocol), not back out of the port where it arrived."""

    @property
    def comes_back(self) -> bool:
        """Whether the frame is forwarded to the load balancer itself, to another of its instances."""
        forwarded = None if self.is_reply or self.to_host else self.frame
        return forwarded is not None and forwarded[:6] == forwarded[6:12]
