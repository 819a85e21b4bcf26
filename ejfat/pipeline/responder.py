"""The load balancer's own replies: ARP, ICMP echo and neighbor discovery, made from the request.

Source: the public P4 program.
"""

from __future__ import annotations

from ejfat.base.drops import LbDrop
from ejfat.pipeline.parse23 import solicitation_end
from hfi_sim.wire.internet_checksum import checksum, update

_ALL_NODES = bytes.fromhex("ff020000000000000000000000000001")
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_UNSPECIFIED = bytes(16)
_SOLICITED = 0x40


def answer_arp(frame: bytes, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the reply to an ARP request for the own address `ip` (16 bytes, IPv4 in the last four)."""
    if frame[38:42] != ip[12:]:
        return LbDrop.ARP_TARGET
    requester = frame[6:12]
    return b"".join(
        (requester, mac, frame[12:20], b"\x00\x02", mac, ip[12:], frame[22:28], frame[28:32], frame[42:])
    )


def answer_echo4(frame: bytes, l4: int, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the ICMPv4 echo reply. The TTL is kept, and swapping the addresses does not change the IP checksum."""
    if frame[30:34] != ip[12:]:
        return LbDrop.ICMPV4_TARGET
    icmp_sum = update(int.from_bytes(frame[l4 + 2 : l4 + 4], "big"), b"\x08\x00", b"\x00\x00")
    return b"".join(
        (
            frame[6:12],
            mac,
            frame[12:26],
            ip[12:],
            frame[26:30],
            frame[34:l4],
            b"\x00\x00",
            icmp_sum.to_bytes(2, "big"),
            frame[l4 + 4 :],
        )
    )


def answer_echo6(frame: bytes, mac: bytes, ip: bytes) -> bytes:
    """Return the ICMPv6 echo reply, always from the own unicast address `ip`."""
    source, dest = frame[22:38], frame[38:54]
    icmp_sum = update(
        int.from_bytes(frame[56:58], "big"), source + dest + b"\x80\x00", ip + source + b"\x81\x00"
    )
    return b"".join(
        (frame[6:12], mac, frame[12:22], ip, source, b"\x81\x00", icmp_sum.to_bytes(2, "big"), frame[58:])
    )


def answer_solicitation(frame: bytes, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the neighbor advertisement for the own address; bytes after the parsed part of the request are kept."""
    target = frame[62:78]
    if target != ip:
        return LbDrop.ND_TARGET
    source = frame[22:38]
    end = solicitation_end(frame)
    if source == _UNSPECIFIED:
        dest, dest_mac, flags = _ALL_NODES, _ALL_NODES_MAC, 0
    else:
        dest, flags = source, _SOLICITED
        dest_mac = frame[80:86] if end == 86 else frame[6:12]
    body = b"".join((bytes((flags, 0, 0, 0)), target, b"\x02\x01", mac))
    payload_length = b"\x00\x20"
    icmp_sum = checksum(
        b"".join((ip, dest, b"\x00\x00", payload_length, b"\x00\x00\x00\x3a\x88\x00\x00\x00", body))
    )
    return b"".join(
        (
            dest_mac,
            mac,
            frame[12:18],
            payload_length,
            b"\x3a\xff",
            ip,
            dest,
            b"\x88\x00",
            icmp_sum.to_bytes(2, "big"),
            body,
            frame[end:],
        )
    )
