"""A management datagram as this process hands it on: the header as values, and what follows it as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hfi_sim.wire.mad.header import TID, MadHeader


@dataclass(frozen=True, slots=True)
class Mad:
    """One MAD. Its header is read once, when it arrives, or built once, when it leaves."""

    header: MadHeader
    data: bytes
    """What follows the 24 bytes of the header, at most 2024 bytes; of base version 1 at least 232 are sent."""

    @classmethod
    def parse(cls, mad: bytes | bytearray | memoryview) -> Self:
        """Take the bytes of a MAD apart.

        Raises:  WireError: fewer than 24 bytes. No value of the fields is refused.
        """
        return cls(MadHeader.parse(mad), bytes(mad[MadHeader.SIZE :]))

    def build(self, tid: int | None = None) -> bytes:
        """Return the bytes, under another transaction id than that of the header where one is given.

        Raises:  ValueError: a value does not fit its field of the header.
        """
        mad = self.header.build() + self.data
        if tid is None:
            return mad
        return mad[: TID.start] + tid.to_bytes(TID.stop - TID.start, "big") + mad[TID.stop :]
