"""Additional counters of one direction of a link: multicast, congestion marks, and errors of its wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.types import LID_MULTICAST_FIRST, is_multicast_lid
from hfi_sim.wire.lrh16b import BECN_BYTE3, FECN_BYTE7, SIZE, dlid_of

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
