"""Records by which packets travel from one machine's engine to another's: the packet and a tag behind it.

The tag has 16 bits, big-endian. Bit 15: the packet has no ICRC, and has not changed since it was built; bit 14: the
checksums of the frame inside are known to be right; bits 13 to 0: switches that the packet has visited.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.icrc import TRAILER_SIZE, Icrc
from hfi_sim.wire.packet import seal_packet

TAG_SIZE: Final = 2
UNSEALED: Final = 1 << 15
SUMMED: Final = 1 << 14
MAX_HOPS: Final = SUMMED - 1


def record_of(packet: bytes, hops: int) -> bytes:
    """Return the record of a packet that has its ICRC. Args: hops: more than 16383 count as 16383."""
    return packet + min(hops, MAX_HOPS).to_bytes(TAG_SIZE)


def packet_of(record: bytes, icrc: Icrc) -> tuple[bytes, int]:
    """Return the packet of a record, with its ICRC, and the number of switches that it has visited."""
    packet, tag = record[:-TAG_SIZE], int.from_bytes(record[-TAG_SIZE:])
    if tag & UNSEALED and len(packet) > TRAILER_SIZE:
        packet = seal_packet(packet[:-TRAILER_SIZE], icrc)
    return packet, tag & MAX_HOPS
