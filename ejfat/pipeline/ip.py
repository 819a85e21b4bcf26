"""The parse that all of the data plane shares: Ethernet, IP, and where the header behind it begins.

What a frame is (data of a version, a sync message, something else) is decided by what is found here, never by bytes at
fixed offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from ejfat.drops import Drop

ETH_IPV4 = 0x0800
ETH_IPV6 = 0x86DD
ICMP = 1
UDP = 17
ICMPV6 = 58
UDP_SIZE = 8


class Ip(NamedTuple):
    """The IP header of an untagged frame. It is complete, with all options of IPv4."""

    version: int
    """4 or 6."""
    l4: int
    """Offset of the header behind it. Extension headers of IPv6 are not followed."""
    protocol: int
    is_later_fragment: bool
    """Of IPv4: what stands where a header would be is payload."""
    claimed: int
    """Bytes behind the header by its length field, whatever the frame has; below 0 if the field is too small."""

    def source(self, frame: bytes) -> bytes:
        """Return the source address."""
        return frame[26:30] if self.version == 4 else frame[22:38]

    def destination(self, frame: bytes) -> bytes:
        """Return the destination address."""
        return frame[30:34] if self.version == 4 else frame[38:54]

    def has_udp(self, frame: bytes) -> bool:
        """Return whether a complete UDP header follows."""
        return self.protocol == UDP and not self.is_later_fragment and len(frame) >= self.l4 + UDP_SIZE

    def port(self, frame: bytes) -> int:
        """Return the UDP destination port."""
        return int.from_bytes(frame[self.l4 + 2 : self.l4 + 4], "big")

    def payload(self, frame: bytes) -> bytes:
        """Return the UDP payload, cut at the end of the frame."""
        return frame[self.l4 + UDP_SIZE : self.l4 + int.from_bytes(frame[self.l4 + 4 : self.l4 + 6], "big")]


Outer = Ip | Drop | None
"""An IP header; why it is none that can be parsed; None: neither IPv4 nor IPv6."""


def parse_outer(frame: bytes) -> Outer:
    """Parse an untagged frame."""
    return parse_ip(frame, int.from_bytes(frame[12:14], "big"))


def parse_ip(frame: bytes, ether_type: int) -> Outer:
    """Parse the IP header at byte 14.

    Args:    ether_type: for a frame whose VLAN tag was removed, the inner type, which is not the one at byte 12.
    """
    if ether_type == ETH_IPV4:
        if len(frame) < 34:
            return Drop.PARSER_SHORT_IPV4
        first = frame[14]
        header = 4 * (first & 15)
        if first >> 4 != 4 or header < 20:
            return Drop.PARSER_INVALID_IP
        if len(frame) < 14 + header:
            return Drop.PARSER_SHORT_IPV4_OPTIONS
        is_later = bool(int.from_bytes(frame[20:22], "big") & 0x1FFF)
        claimed = int.from_bytes(frame[16:18], "big") - header
        return Ip(4, 14 + header, frame[23], is_later, claimed)
    if ether_type == ETH_IPV6:
        if len(frame) < 54:
            return Drop.PARSER_SHORT_IPV6
        if frame[14] >> 4 != 6:
            return Drop.PARSER_INVALID_IP
        return Ip(6, 54, frame[20], False, int.from_bytes(frame[18:20], "big"))
    return None
