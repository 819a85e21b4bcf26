"""Counters of a direction of a link: of each virtual lane; and multicast, congestion marks, and errors of its wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.types import LID_MULTICAST_FIRST, is_multicast_lid
from hfi_sim.wire.lrh16b import BECN_BYTE3, FECN_BYTE7, SIZE, dlid_of

DISCARDS = frozenset({Drop.LINK_OVERFLOW, Drop.LINK_DOWN, Drop.LINK_HOQ})
"""Drops that count as discards of the port, in addition to exceeding the MTU; faults are not discards."""


@dataclass(frozen=True, slots=True)
class VlCounters:
    """One VL of one direction: what the near end sent, and the far end received."""

    packets: int
    """Packets that have arrived: PortVLXmitPkts of the near end, PortVLRcvPkts of the far end."""
    bytes: int
    """Bytes of these packets, from which PortVLXmitData and PortVLRcvData count flits."""
    wait_ns: int
    """PortVLXmitWait, as a time: how long the VL had packets to send and sent none, because credits were missing or the
    wire was busy with other VLs. It does not wait while its own packet is being sent. 0 on a link without credits,
    whose one queue is never idle while something waits.

    Source:  InfiniBand architecture 16.1.3.5, PortXmitWait: data to transmit, and none sent "because of
             insufficient credits or because of lack of arbitration"; OPA counts it for each VL as well, in flit
             times.
    """
    discards: int
    """PortVLXmitDiscards: packets that were not sent because the queue was full, the link down, the MTU of the VL too
    small, or the head-of-queue lifetime over.
    """
    overflows: int = 0
    """Discards because the queue was full: SwPortVLCongestion of a switch."""
    fecn: int = 0
    """Packets that have arrived with FECN: PortVLRcvFECN of the far end."""
    becn: int = 0
    """Packets that have arrived with BECN: PortVLRcvBECN of the far end."""


class VlTally:
    """The counters of each VL that are kept as packets pass."""

    def __init__(self, vls: int) -> None:
        self.packets = [0] * vls
        self.bytes = [0] * vls
        self.discards = [0] * vls
        self.overflows = [0] * vls
        self.fecn = [0] * vls
        self.becn = [0] * vls

    def grow(self, vls: int) -> None:
        """Extend to this many VLs."""
        for column in (self.packets, self.bytes, self.discards, self.overflows, self.fecn, self.becn):
            column += [0] * (vls - len(column))

    def carried(self, vl: int, packet: bytes) -> None:
        """Count a packet that has arrived."""
        self.packets[vl] += 1
        self.bytes[vl] += len(packet)
        if len(packet) >= SIZE:
            self.fecn[vl] += packet[7] & FECN_BYTE7 != 0
            self.becn[vl] += packet[3] & BECN_BYTE3 != 0

    def discarded(self, vl: int, drop: Drop | None) -> None:
        """Count a packet that was not sent; VLs are taken modulo their number. Args: drop: None: it exceeded the
        MTU.
        """
        vl %= len(self.discards)
        self.discards[vl] += 1
        self.overflows[vl] += drop is Drop.LINK_OVERFLOW

    def rows(self, waits: Sequence[int]) -> list[Row]:
        """Return the counters. Args: waits: of each VL in nanoseconds; empty: none."""
        waits = waits or [0] * len(self.packets)
        columns = (self.packets, self.bytes, waits, self.discards, self.overflows, self.fecn, self.becn)
        return list(zip(*columns, strict=True))


Row = tuple[int, ...]
"""The counters of one VL, in the order of `VlCounters`."""


class Uncounted(NamedTuple):
    """Totals of a direction over all its VLs that its `PacketCounters` lack."""

    too_long: int
    """Packets longer than the MTU of their VL."""
    fecn: int
    becn: int


def vl_counters(total: PacketCounters, more: Uncounted, rows: Sequence[Row]) -> tuple[VlCounters, ...]:
    """Return the counters of each VL.

    Args:  total, more: of the direction. rows: of each VL; for VL 0 only the wait is used, as its other counters
           are the totals less those of the other VLs.
    """
    whole = VlCounters(
        total.out_packets,
        total.out_bytes,
        rows[0][2],
        more.too_long + sum(total.drops.get(drop, 0) for drop in DISCARDS),
        total.drops.get(Drop.LINK_OVERFLOW, 0),
        more.fecn,
        more.becn,
    )
    others = [VlCounters(*row) for row in rows[1:]]
    first = VlCounters(
        whole.packets - sum(vl.packets for vl in others),
        whole.bytes - sum(vl.bytes for vl in others),
        whole.wait_ns,
        whole.discards - sum(vl.discards for vl in others),
        whole.overflows - sum(vl.overflows for vl in others),
        whole.fecn - sum(vl.fecn for vl in others),
        whole.becn - sum(vl.becn for vl in others),
    )
    return (first, *others)


WINDOW_NS: Final = 10 * NS_PER_S
"""Errors count as recent for one to two of these windows."""
GROUP_BYTE9: Final = LID_MULTICAST_FIRST >> 16
"""Byte 9 of a header, the upper bits of both LIDs, has at least this value if the DLID is that of a group."""


@dataclass(frozen=True, slots=True)
class WireCounters:
    """One direction: what the near end sent, and the far end received."""

    multicast: int
    """Packets that have arrived and are for a group: PortMulticastXmitPkts of the near end, RcvPkts of the far end."""
    fecn: int
    """Packets that have arrived with FECN: PortRcvFECN of the far end."""
    becn: int
    """Packets that have arrived with BECN: PortRcvBECN of the far end."""
    errors: int
    """Packets that faults have damaged or lost on the wire: LocalLinkIntegrityErrors of the far end."""
    recent_errors: int
    """Those of the last 10 to 20 s, from which the far end rates the quality of the link."""


class WireTally:
    """The counters that are kept as packets pass."""

    def __init__(self) -> None:
        self.multicast = 0
        self.fecn = 0
        self.becn = 0
        self.errors = 0
        self._window = 0
        """The number of the window of the last error."""
        self._latest = 0
        """Errors in that window."""
        self._before = 0
        """Errors in the window before that one."""

    def note(self, packet: bytes) -> None:
        """Count a packet that has arrived."""
        if len(packet) < SIZE:
            return
        if packet[9] >= GROUP_BYTE9 and is_multicast_lid(dlid_of(packet)):
            self.multicast += 1
        if packet[7] & FECN_BYTE7:
            self.fecn += 1
        if packet[3] & BECN_BYTE3:
            self.becn += 1

    def failed(self, now: int) -> None:
        """Count an error of the wire."""
        self.errors += 1
        self._turn(now)
        self._latest += 1

    def _turn(self, now: int) -> None:
        """Move on to the window of `now`."""
        window = now // WINDOW_NS
        if window > self._window:
            self._before = self._latest if window == self._window + 1 else 0
            self._latest = 0
            self._window = window

    def counters(self, now: int) -> WireCounters:
        """Return the counters."""
        self._turn(now)
        return WireCounters(self.multicast, self.fecn, self.becn, self.errors, self._latest + self._before)
