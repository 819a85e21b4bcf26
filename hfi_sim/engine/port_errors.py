"""The drops of each port, with the first packet dropped for each reason, as a performance agent reports them.

An element counts its drops for conservation; a switch has one counter for all its ports. Here each port counts them
again, and keeps the header of the first packet until it is cleared. Only drops cost anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.wire.lrh16b import SIZE

NOTHING_NOTED: Final = b""


class PortError(NamedTuple):
    """What a port has dropped for one reason."""

    packets: int
    first: bytes
    """The first 16 bytes, or all of a shorter packet, of the first packet since the last `forget`; empty: none."""


class PortErrors:
    """The drops of one port, or of one port of a switch."""

    def __init__(self) -> None:
        self._by_reason: dict[Drop, PortError] = {}

    def note(self, reason: Drop, packet: bytes) -> None:
        """Note a packet that the port drops."""
        packets, first = self._by_reason.get(reason, (0, NOTHING_NOTED))
        self._by_reason[reason] = PortError(packets + 1, first or packet[:SIZE])

    def all(self) -> Mapping[Drop, PortError]:
        """Return what was dropped, by reason."""
        return dict(self._by_reason)

    def forget(self, reasons: Iterable[Drop]) -> None:
        """Forget the first packet dropped for each of these reasons; the next one takes its place."""
        for reason in reasons:
            if (error := self._by_reason.get(reason)) is not None:
                self._by_reason[reason] = error._replace(first=NOTHING_NOTED)
