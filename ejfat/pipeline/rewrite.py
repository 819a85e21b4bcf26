"""What both pipelines do to a packet for a member: other MACs, addresses and port, a lower TTL, no header."""

from __future__ import annotations

from ejfat.pipeline.packet import UDP_SIZE
from hfi_sim.wire.internet_checksum import update, update_udp


def rewrite(
    frame: bytes, l4: int, macs: bytes, addresses: bytes, port: int, *, removed: int, hops: int
) -> bytes:
    """Return the packet as it leaves, with checksums updated by difference. Big-endian.

    Args:    l4: offset of UDP. macs: destination and source. addresses: source and destination, of the IP version that
        the packet has. removed: bytes behind UDP that it loses. hops: what is subtracted from the TTL or hop limit.
    """
    destination_port, rest = port.to_bytes(2, "big"), frame[l4 + UDP_SIZE + removed :]
    is_ipv4 = len(addresses) == 8
    before = frame[26:34] if is_ipv4 else frame[22:54]
    length = frame[l4 + 4 : l4 + 6]
    new_length = _shorter(length, removed)
    # the length counts twice: in the pseudo header and in the UDP header
    old = b"".join((before, length, frame[l4 + 2 : l4 + 6], frame[l4 + UDP_SIZE : l4 + UDP_SIZE + removed]))
    new = b"".join((addresses, new_length, destination_port, new_length))
    udp_sum = update_udp(int.from_bytes(frame[l4 + 6 : l4 + 8], "big"), old, new).to_bytes(2, "big")
    udp = (frame[l4 : l4 + 2], destination_port, new_length, udp_sum)
    if not is_ipv4:
        limit = bytes((frame[21] - hops,))
        size = _shorter(frame[18:20], removed)
        return b"".join((macs, frame[12:18], size, frame[20:21], limit, addresses, *udp, rest))
    total, ttl = _shorter(frame[16:18], removed), bytes((frame[22] - hops, frame[23]))
    ip_sum = update(
        int.from_bytes(frame[24:26], "big"), before + frame[16:18] + frame[22:24], addresses + total + ttl
    ).to_bytes(2, "big")
    options = frame[34:l4]
    return b"".join((macs, frame[12:16], total, frame[18:22], ttl, ip_sum, addresses, options, *udp, rest))


def _shorter(length: bytes, removed: int) -> bytes:
    return (int.from_bytes(length, "big") - removed).to_bytes(2, "big")
