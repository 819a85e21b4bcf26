"""Messages on the raw MAD socket of a lab, the same in both directions. Big-endian.

docs/reference/mad-socket.md explains them.

| offset | bytes | field |
|---|---|---|
| 0 | 4 | length of what follows: 8 + the MAD |
| 4 | 4 | LID of the other end: destination or source of the MAD |
| 8 | 2 | P_Key; 0 to the socket: the port's own |
| 10 | 1 | service level, 0 to 31 |
| 11 | 1 | outcome: see `Outcome`; 0 to the socket |
| 12 | .. | the MAD, 24 to 2048 bytes; empty: a query for the agents' LIDs above this LID |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import MAD_SIZE

_HEADER: Final = struct.Struct(">IIHBB")
_LENGTH: Final = struct.Struct(">I")
_FIXED: Final = _HEADER.size - _LENGTH.size
MAX_MESSAGE: Final = _FIXED + MAD_SIZE
"""The largest value of the length field."""


class Outcome(IntEnum):
    """The outcome of a request."""

    OK = 0
    """The MAD in the message is the response, or a trap."""
    NO_RESPONSE = 1
    """No response came after all retries; the message holds the request."""
    REFUSED = 2
    """Not sent: not a MAD, or an invalid LID, service level or P_Key; the message holds the request."""


@dataclass(frozen=True, slots=True)
class MadMessage:
    """One message."""

    lid: int
    """32 bits, although a LID has 24."""
    mad: bytes
    pkey: int = 0
    sl: int = 0
    outcome: int = Outcome.OK

    def build(self) -> bytes:
        """Return the bytes. Raises ValueError: a value does not fit its field, or the MAD is too long."""
        if len(self.mad) > MAD_SIZE:
            raise ValueError(f"MAD of {len(self.mad)} bytes, at most {MAD_SIZE}")
        try:
            head = _HEADER.pack(_FIXED + len(self.mad), self.lid, self.pkey, self.sl, self.outcome)
        except struct.error as error:
            raise ValueError(f"MAD message: {error}") from None
        return head + self.mad


WHERE: Final = 0xFFFFFFFE
"""The LID of a message without a MAD that asks for the LIDs of the port itself and of its subnet administration."""


class MessageReader:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[MadMessage]:
        """Add bytes of the stream and yield the messages that are complete.

        Raises:  WireError: an impossible length; the stream cannot be used any further.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer)
            if not _FIXED <= length <= MAX_MESSAGE:
                raise WireError("length", 0, f"length {length} is not {_FIXED} to {MAX_MESSAGE}")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return
            _, lid, pkey, sl, outcome = _HEADER.unpack_from(buffer)
            mad = bytes(buffer[_HEADER.size : end])
            del buffer[:end]
            yield MadMessage(lid, mad, pkey, sl, outcome)
