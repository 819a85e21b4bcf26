"""Find the UDP header in a frame, which the load balancer and sync headers follow."""

from __future__ import annotations

from typing import NamedTuple

_IPV4 = b"\x08\x00"
_IPV6 = b"\x86\xdd"
_UDP = 17


class Udp(NamedTuple):
    """A datagram in an untagged frame."""

    ip: int
    """IP version, 4 or 6."""
    at: int
    """Offset of the UDP header, which is complete."""

    def source(self, frame: bytes) -> bytes:
        """Return the source IP address."""
        return frame[26:30] if self.ip == 4 else frame[22:38]

    def destination(self, frame: bytes) -> bytes:
        """Return the destination IP address."""
        return frame[30:34] if self.ip == 4 else frame[38:54]

    def port(self, frame: bytes) -> int:
        """Return the destination port."""
        return int.from_bytes(frame[self.at + 2 : self.at + 4], "big")

    def payload(self, frame: bytes) -> bytes:
        """Return the payload, cut at the end of the frame."""
        return frame[self.at + 8 : self.at + int.from_bytes(frame[self.at + 4 : self.at + 6], "big")]


def find_udp(frame: bytes) -> Udp | None:
    """Return the UDP datagram in a frame: after the IPv4 header with its options, or after the IPv6 header.

    Returns: None if it is not UDP, is a fragment after the first, or is too short. Like in the pipelines, extension
        headers of IPv6 are not followed.
    """
    ether_type = frame[12:14]
    if ether_type == _IPV4:
        if len(frame) < 34 or frame[14] >> 4 != 4 or frame[14] & 15 < 5 or frame[23] != _UDP:
            return None
        if int.from_bytes(frame[20:22], "big") & 0x1FFF:
            return None
        udp = Udp(4, 14 + 4 * (frame[14] & 15))
    elif ether_type == _IPV6:
        if len(frame) < 54 or frame[14] >> 4 != 6 or frame[20] != _UDP:
            return None
        udp = Udp(6, 54)
    else:
        return None
    return udp if len(frame) >= udp.at + 8 else None
