"""Counters of each virtual lane of one direction of a link, for those who ask, such as a performance agent.

Most directions have one VL, and its counters are those of the direction. Only those with more VLs, or whose port has an
SC to VL table, count each VL from 1 on; VL 0 has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfi_sim.counters import Drop, PacketCounters

DISCARDS = frozenset({Drop.LINK_OVERFLOW, Drop.LINK_DOWN})
"""Reasons for which a port drops what it was to send, beside the MTU; faults are no discards."""


@dataclass(frozen=True, slots=True)
class VlCounters:
    """One VL of one direction: what the near end sent, and the far end received."""

    packets: int
    """Packets that have arrived: PortVLXmitPkts of the near end, PortVLRcvPkts of the far end."""
    bytes: int
    """Bytes of these packets, from which PortVLXmitData and PortVLRcvData count flits."""
    wait_ns: int
    """PortVLXmitWait, as a time: how long the VL had packets to send and sent none, because credits were missing or
    the wire was busy with other VLs. While its own packet is being sent it does not wait. 0 on a link without credits:
    its one queue is never idle while something waits.

    Source:  InfiniBand architecture 16.1.3.5, PortXmitWait: data to transmit, and none sent "because of insufficient
    credits or because of lack of arbitration"; OPA counts it for each VL as well, in flit times.
    """
    discards: int
    """PortVLXmitDiscards: packets that were not sent because the queue was full, the link down, or the MTU of the VL
    too small."""


class VlTally:
    """What is counted for each VL as it happens."""

    __slots__ = ("bytes", "discards", "packets")

    def __init__(self, vls: int) -> None:
        self.packets = [0] * vls
        self.bytes = [0] * vls
        self.discards = [0] * vls

    def carried(self, vl: int, size: int) -> None:
        """Count a packet that has arrived."""
        self.packets[vl] += 1
        self.bytes[vl] += size

    def rows(self, waits: Sequence[int]) -> list[Row]:
        """Return what was counted. Args: waits: of each VL in nanoseconds; empty: none."""
        waits = waits or [0] * len(self.packets)
        return list(zip(self.packets, self.bytes, waits, self.discards, strict=True))


Row = tuple[int, int, int, int]
"""Packets, bytes, nanoseconds waited, discards of one VL."""


def vl_counters(total: PacketCounters, too_long: int, rows: Sequence[Row]) -> tuple[VlCounters, ...]:
    """Return the counters of each VL.

    Args:  total: of the direction. too_long: packets longer than the MTU of their VL. rows: of each VL; of VL 0 only
           the time waited is looked at, as it has all that the others have not.
    """
    others = rows[1:]
    packets, size, _, discards = (sum(column) for column in zip((0, 0, 0, 0), *others, strict=True))
    discarded = too_long + sum(total.drops.get(drop, 0) for drop in DISCARDS)
    first = VlCounters(total.out_packets - packets, total.out_bytes - size, rows[0][2], discarded - discards)
    return (first, *(VlCounters(*row) for row in others))
