"""From events to packets: cut events into segments and add the headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ejfat.wire.headers import LbHeaderV1, LbHeaderV2, LbHeaderV3, ReHeader, SegmentHeader

_IP_UDP = {4: 28, 6: 48}
MAX_EVENT = (1 << 32) - 1
_LB_SIZE = {1: LbHeaderV1.SIZE, 2: LbHeaderV2.SIZE, 3: LbHeaderV3.SIZE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmenter:
    """Cuts events into the payloads of UDP packets.

    Args:    version: of the LB header, 1 to 3; version 1 uses the 8-byte reassembly header, 2 and 3 use
        the 20-byte one. mtu: bytes of the IP packet.
    """

    version: int = 2
    mtu: int = 1500
    ip_version: int = 4

    def __post_init__(self) -> None:
        if self.version not in _LB_SIZE:
            raise ValueError(f"LB header version {self.version}, expected 1, 2 or 3")
        if self.room < 1:
            raise ValueError(f"an MTU of {self.mtu} leaves no room for payload after the headers")

    @property
    def headers(self) -> int:
        """Total bytes of the LB header and the reassembly header."""
        return _LB_SIZE[self.version] + (SegmentHeader.SIZE if self.version == 1 else ReHeader.SIZE)

    @property
    def room(self) -> int:
        """Event bytes in a full packet."""
        return self.mtu - _IP_UDP[self.ip_version] - self.headers

    def payloads(
        self, event_data: bytes, *, tick: int, data_id: int, event: int, entropy: int = 0
    ) -> Iterator[bytes]:
        """Yield the UDP payloads of an event; an empty event has one packet without data.

        Args:    entropy: 16 bits, the same for all packets of the event, which select the port at the worker.
        Raises:  ValueError: the event is longer than 2**32 - 1 bytes, or a number does not fit its field.
        """
        length = len(event_data)
        if length > MAX_EVENT:
            raise ValueError(f"an event of {length} bytes; the reassembly header allows {MAX_EVENT}")
        front = self._lb(tick, entropy)
        room = self.room
        view = memoryview(event_data)
        for offset in range(0, length, room) or (0,):
            last = offset + room >= length
            header = (
                SegmentHeader(data_id=data_id, offset=offset, first=offset == 0, last=last).build()
                if self.version == 1
                else ReHeader(data_id=data_id, offset=offset, length=length, event=event).build()
            )
            yield b"".join((front, header, view[offset : offset + room]))

    def _lb(self, tick: int, entropy: int) -> bytes:
        if self.version == 1:
            return LbHeaderV1(tick=tick).build()
        if self.version == 2:
            return LbHeaderV2(tick=tick, entropy=entropy).build()
        return LbHeaderV3(tick=tick, slot_select=tick & 0xFFFF, port_select=entropy).build()
