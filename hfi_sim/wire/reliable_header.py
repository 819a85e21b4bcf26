"""The header of the reliable connection service: 28 bytes, big-endian, behind the 16B header (L4 0x7A).

Behind it stands what the packet carries: private data of the user in REQ, REP and REJ, a piece of a message in DATA.

The project's own format: nothing public describes what hfi1 does for verbs on 16B packets in enough detail.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated, Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import WireBytes, WireHeader, declared

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


_FLAG_PARTS: Final = {
    "last": (RcFlags.LAST, "the last packet of its message"),
    "ack_req": (RcFlags.ACK_REQ, "the sender waits for an acknowledgement"),
}


@declared("rc_header", "reliable connection header", "big")
@dataclass(frozen=True, slots=True)
class RcHeader(WireHeader):
    """One header of the service."""

    opcode: Annotated[int, Field(8, "what the packet does", codes=RcOpcode)]
    flags: Annotated[int, Field(8, "what the receiver is to know of the packet", HEX, parts=_FLAG_PARTS)] = 0
    tag: Annotated[
        int, Field(16, "REQ: the service asked for; DATA: the kind of the message; otherwise 0")
    ] = 0
    dst_conn: Annotated[int, Field(32, "the receiver's number of the connection; 0 in a REQ", HEX)] = 0
    src_conn: Annotated[int, Field(32, "the sender's number of the connection", HEX)] = 0
    psn: Annotated[int, Field(32, "DATA: packet sequence number, modulo 2**32; otherwise 0")] = 0
    ack: Annotated[int, Field(32, "the next psn that the sender of this packet expects")] = 0
    sack: Annotated[int, Field(64, "bit i: packet ack + 1 + i has arrived already", HEX)] = 0

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: shorter than 28 bytes, or an opcode that does not exist.
        """
        header = cls.HEADER.make(cls, data)
        if not RcOpcode.REQ <= header.opcode <= RcOpcode.RESET:
            raise WireError("rc_opcode", 0, f"unknown opcode {header.opcode:#04x}")
        return header
