"""The header of the reliable connection service: 28 bytes, big-endian, behind the 16B header (L4 0x7A).

    offset  size  field
    0       1     opcode     what the packet does (`RcOpcode`)
    1       1     flags      bit 0 LAST packet of a message, bit 1 ACK_REQ: answer with an acknowledgement
    2       2     tag        REQ: the service asked for; DATA: the kind of the message; otherwise 0
    4       4     dst_conn   the receiver's number of the connection; 0 in a REQ
    8       4     src_conn   the sender's number of the connection
    12      4     psn        DATA: packet sequence number, modulo 2**32; otherwise 0
    16      4     ack        the next psn the sender of this packet expects
    20      8     sack       bit i: packet ack + 1 + i has arrived already
    28      ..    payload    REQ, REP, REJ: private data of the user; DATA: a piece of a message

The project's own format: nothing public describes what hfi1 does for verbs on 16B packets in enough detail.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self

from construct import Int8ub, Int16ub, Int32ub, Int64ub, Struct

from hfi_sim.errors import WireError

LAYOUT: Final = Struct(
    "opcode" / Int8ub,
    "flags" / Int8ub,
    "tag" / Int16ub,
    "dst_conn" / Int32ub,
    "src_conn" / Int32ub,
    "psn" / Int32ub,
    "ack" / Int32ub,
    "sack" / Int64ub,
)
_FAST: Final = struct.Struct(">BBHIIIIQ")

SACK_BITS: Final = 64
"""Packets beyond the next expected one that a single acknowledgement can name."""


class RcOpcode(IntEnum):
    """What a packet of the service does."""

    REQ = 1
    """Ask for a connection; private data follows."""
    REP = 2
    """Accept it; private data follows."""
    REJ = 3
    """Refuse it; private data follows."""
    DATA = 4
    """Carry a piece of a message."""
    ACK = 5
    """Acknowledge only."""
    CLOSE = 6
    """The sender has closed the connection."""
    RESET = 7
    """The sender knows of no such connection."""


class RcFlags(IntFlag):
    """Bits of the flags byte."""

    NONE = 0
    LAST = 1
    """The last packet of its message."""
    ACK_REQ = 2
    """The sender waits for an acknowledgement."""


@dataclass(frozen=True, slots=True)
class RcHeader:
    """One header; the field widths are those of the table at the top of this module."""

    opcode: int
    flags: int = 0
    tag: int = 0
    dst_conn: int = 0
    src_conn: int = 0
    psn: int = 0
    ack: int = 0
    sack: int = 0

    SIZE = _FAST.size

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: shorter than 28 bytes, or an opcode that does not exist.
        """
        if len(data) < cls.SIZE:
            raise WireError("rc header", len(data), f"{len(data)} bytes, {cls.SIZE} are needed")
        header = cls(*_FAST.unpack_from(data))
        if not RcOpcode.REQ <= header.opcode <= RcOpcode.RESET:
            raise WireError("rc opcode", 0, f"unknown opcode {header.opcode:#04x}")
        return header

    def build(self) -> bytes:
        """Return the 28 bytes.

        Raises:  ValueError: a field is wider than its place.
        """
        try:
            return _FAST.pack(
                self.opcode, self.flags, self.tag, self.dst_conn, self.src_conn, self.psn, self.ack, self.sack
            )
        except struct.error as error:
            raise ValueError(f"{self} does not fit the reliable connection header: {error}") from None
