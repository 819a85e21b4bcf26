"""The hash that spreads flows: over default ports (seed 000) and, as entropy, over the paths of the fabric.

All packets of a flow have the same hash, 32 bits, so they keep their order. The hash is the CRC-32 of zlib over

    source MAC (6), destination MAC (6), the innermost ethertype (2),
    IPv4: source (4), destination (4), protocol (1);  IPv6: source (16), destination (16), next header (1),
    TCP and UDP: both ports (4), unless the IPv4 packet is a fragment.

Any number of VLAN tags (0x8100, 0x88a8) is skipped to find the ethertype. For IPv6, only the first next header
counts. Parts that the frame is too short for are left out, as are the ports if the IPv4 header length is under 5
words. The native datapath computes the same.

Source: the hash is used where the driver uses the skb hash of the kernel, whose values change from boot to boot; the
function itself is this project's. The driver of 2017, and Intel's own (IFS 10.11), scale the hash to 2**15 buckets;
Linux since 2018 (its commit 1c8c5a9d38f6, 4.18) uses all 32 bits.
"""

from __future__ import annotations

import zlib
from typing import Final

QUIRK_HASH_SHIFT: Final = 32 - 15
"""Low bits of the hash that the driver of 2017 leaves out of the entropy; so do VNICs with `driver_quirks`."""
VLAN_TPIDS: Final = frozenset({b"\x81\x00", b"\x88\xa8"})
"""The ethertypes of VLAN tags."""
IPV4: Final = b"\x08\x00"
IPV6: Final = b"\x86\xdd"
_IP_AT: Final = 14
_IPV4_SIZE: Final = 20
_IPV6_SIZE: Final = 40
_PORTS_SIZE: Final = 4
_LOOKED_AT: Final = 15 * 4 + _PORTS_SIZE
"""Bytes from the IP header on: the longest IPv4 header, and ports."""
_WITH_PORTS: Final = frozenset({6, 17})
"""TCP and UDP."""
_FRAGMENT: Final = 0x3F
"""More-fragments flag and the high bits of the fragment offset, in the first byte of the two."""


def innermost_ethertype_at(frame: bytes) -> int:
    """Return the offset of the ethertype behind all VLAN tags; 12 if there is no tag."""
    at = 12
    while frame[at : at + 2] in VLAN_TPIDS and at + 6 <= len(frame):
        at += 4
    return at


def without_tags(frame: bytes) -> bytes:
    """Return the beginning of a frame as if it had no VLAN tags: addresses, ethertype, the headers of IP and ports."""
    at = innermost_ethertype_at(frame)
    return frame[:12] + frame[at : at + 2 + _LOOKED_AT]


def flow_key(frame: bytes) -> bytes:
    """Return the bytes of `frame` (14 or more, padded to 60) that identify its flow."""
    if frame[12:14] in VLAN_TPIDS:
        frame = without_tags(frame)
    ethertype = frame[12:14]
    key = frame[6:12] + frame[:6] + ethertype
    if ethertype == IPV4 and len(frame) >= _IP_AT + _IPV4_SIZE:
        key += frame[26:34] + frame[23:24]
        ports = _IP_AT + (frame[14] & 0xF) * 4
        if frame[20] & _FRAGMENT or frame[21] or ports < _IP_AT + _IPV4_SIZE:
            return key
        protocol = frame[23]
    elif ethertype == IPV6 and len(frame) >= _IP_AT + _IPV6_SIZE:
        key += frame[22:54] + frame[20:21]
        ports = _IP_AT + _IPV6_SIZE
        protocol = frame[20]
    else:
        return key
    if protocol in _WITH_PORTS and len(frame) >= ports + _PORTS_SIZE:
        return key + frame[ports : ports + _PORTS_SIZE]
    return key


def flow_hash(frame: bytes) -> int:
    """Return the hash of the flow of a frame (14 bytes or more, padded to 60), 32 bits."""
    return zlib.crc32(flow_key(frame))


def entropy_of(flow_hash: int) -> int:
    """Return the entropy of a packet, 8 bits: the four bytes of its hash, XORed.

    Source: the public driver's opa_vnic_calc_entropy(), that of 2017 included: there the upper two bytes are 0.
    """
    halves = flow_hash >> 16 ^ flow_hash
    return (halves >> 8 ^ halves) & 0xFF
