"""The 16B header: what every switch and port on the fabric reads. Two little-endian quad words.

Source: seed 000, table "The Omni-Path encapsulated Ethernet packet format", quad words 0 and 1. Age takes the
low eight of the 16 bits that the table calls reserved.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from hfi_sim.errors import WireError
from hfi_sim.wire.layout import little_bits, low_bits_first

L2_16B: Final = 2
"""The L2 field of a 16B packet."""
LT_HEAD: Final = 1
"""The LT bit of a head flit."""

LAYOUT: Final = low_bits_first(
    # quad word 0
    "slid_low" / little_bits(20) * "source LID, bits 19:0",
    "length_qw" / little_bits(11) * "whole packet in 8-byte units: header, L4, payload, pad, ICRC, tail",
    "becn" / little_bits(1) * "backward explicit congestion notification; may change on the way",
    "dlid_low" / little_bits(20) * "destination LID, bits 19:0",
    "sc" / little_bits(5) * "service class (service channel); may change on the way",
    "rc" / little_bits(3) * "routing control",
    "fecn" / little_bits(1) * "forward explicit congestion notification; may change on the way",
    "l2" / little_bits(2) * "packet format: 2 is 16B",
    "lt" / little_bits(1) * "link transfer: 1 is a head flit",
    # quad word 1
    "l4" / little_bits(8) * "what follows the header: 0x78 Ethernet, 0x08 management",
    "slid_high" / little_bits(4) * "source LID, bits 23:20",
    "dlid_high" / little_bits(4) * "destination LID, bits 23:20; 0xF is multicast",
    "pkey" / little_bits(16) * "partition key; bit 15 says full member",
    "entropy" / little_bits(16) * "spreads flows over paths; a VNIC uses the low 8 bits",
    "age" / little_bits(8) * "age of the packet; may change on the way",
    "reserved" / little_bits(8) * "0; given on as received",
)
"""The layout in document order; the codec below does the same with shifts, and a test holds both equal."""

_QUAD_WORDS: Final = struct.Struct("<QQ")

_WIDTHS: Final[dict[str, int]] = {
    "slid": 24,
    "dlid": 24,
    "length_qw": 11,
    "becn": 1,
    "sc": 5,
    "rc": 3,
    "fecn": 1,
    "l2": 2,
    "lt": 1,
    "l4": 8,
    "pkey": 16,
    "entropy": 16,
    "age": 8,
    "reserved": 8,
}


@dataclass(frozen=True, slots=True)
class Lrh16B:
    """One 16B header. LIDs are whole 24-bit values here; the wire splits them 20 + 4."""

    slid: int
    """Source LID, 24 bits."""
    dlid: int
    """Destination LID, 24 bits."""
    length_qw: int = 0
    """Length of the whole packet in 8-byte units, 11 bits; `build_packet` fills it."""
    becn: bool = False
    sc: int = 0
    """Service class, 5 bits."""
    rc: int = 0
    """Routing control, 3 bits."""
    fecn: bool = False
    l2: int = L2_16B
    lt: int = LT_HEAD
    l4: int = 0
    """Type of what follows, 8 bits: see `L4`; unknown values are kept."""
    pkey: int = 0xFFFF
    entropy: int = 0
    """16 bits."""
    age: int = 0
    """8 bits."""
    reserved: int = 0
    """The 8 bits above age."""

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the header at the start of `data`; what follows it is not looked at.

        Raises:  WireError: fewer than 16 bytes. No value of the fields is refused.
        """
        if len(data) < SIZE:
            raise WireError("lrh16b", len(data), f"{len(data)} bytes, the 16B header needs {SIZE}")
        qw0, qw1 = _QUAD_WORDS.unpack_from(data)
        return cls(
            slid=(qw0 & 0xFFFFF) | (qw1 >> 8 & 0xF) << 20,
            dlid=(qw0 >> 32 & 0xFFFFF) | (qw1 >> 12 & 0xF) << 20,
            length_qw=qw0 >> 20 & 0x7FF,
            becn=bool(qw0 >> 31 & 1),
            sc=qw0 >> 52 & 0x1F,
            rc=qw0 >> 57 & 0x7,
            fecn=bool(qw0 >> 60 & 1),
            l2=qw0 >> 61 & 0x3,
            lt=qw0 >> 63,
            l4=qw1 & 0xFF,
            pkey=qw1 >> 16 & 0xFFFF,
            entropy=qw1 >> 32 & 0xFFFF,
            age=qw1 >> 48 & 0xFF,
            reserved=qw1 >> 56,
        )

    def build(self, length_qw: int | None = None) -> bytes:
        """Return the 16 bytes of the header.

        Args:    length_qw: stands for the Length of this header where it is given.
        Raises:  ValueError: a value does not fit its field.
        """
        length = self.length_qw if length_qw is None else length_qw
        if (
            (self.slid | self.dlid) >> 24
            | (self.pkey | self.entropy) >> 16
            | length >> 11
            | (self.l4 | self.age | self.reserved) >> 8
            | self.sc >> 5
            | self.rc >> 3
            | self.l2 >> 2
            | (self.lt | self.becn | self.fecn) >> 1
        ):
            raise ValueError(self._misfit(length))
        qw0 = (
            (self.slid & 0xFFFFF)
            | length << 20
            | self.becn << 31
            | (self.dlid & 0xFFFFF) << 32
            | self.sc << 52
            | self.rc << 57
            | self.fecn << 60
            | self.l2 << 61
            | self.lt << 63
        )
        qw1 = (
            self.l4
            | (self.slid >> 20) << 8
            | (self.dlid >> 20) << 12
            | self.pkey << 16
            | self.entropy << 32
            | self.age << 48
            | self.reserved << 56
        )
        return _QUAD_WORDS.pack(qw0, qw1)

    def _misfit(self, length_qw: int) -> str:
        """Return a sentence about the first value that does not fit its field."""
        values = {name: getattr(self, name) for name in _WIDTHS} | {"length_qw": length_qw}
        name = next(name for name, width in _WIDTHS.items() if values[name] >> width)
        return f"{name} {values[name]:#x} does not fit {_WIDTHS[name]} bits"


SIZE: Final = 16
"""Bytes of the header."""


# Fast readers of single fields, for packets of at least 16 bytes: what a switch or a port asks of each one.


def slid_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the 24-bit source LID."""
    return (packet[0] | packet[1] << 8 | (packet[2] & 0xF) << 16) | (packet[9] & 0xF) << 20


def dlid_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the 24-bit destination LID."""
    return (packet[4] | packet[5] << 8 | (packet[6] & 0xF) << 16) | (packet[9] >> 4) << 20


def length_qw_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the Length field: the whole packet in 8-byte units."""
    return packet[2] >> 4 | (packet[3] & 0x7F) << 4


def sc_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the service class."""
    return packet[6] >> 4 | (packet[7] & 1) << 4


def l2_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the L2 field: 2 says 16B."""
    return packet[7] >> 5 & 0x3


def l4_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the L4 type."""
    return packet[8]


def pkey_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the partition key."""
    return packet[10] | packet[11] << 8


def entropy_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the entropy."""
    return packet[12] | packet[13] << 8


# The congestion marks, set on the way: the ICRC does not cover them.

FECN_BYTE7: Final = 0x10
"""FECN within byte 7 of the header."""
BECN_BYTE3: Final = 0x80
"""BECN within byte 3 of the header."""


def with_fecn(packet: bytes) -> bytes:
    """Return the packet with its FECN bit set."""
    return packet[:7] + bytes((packet[7] | FECN_BYTE7,)) + packet[8:]


def with_becn(packet: bytes) -> bytes:
    """Return the packet with its BECN bit set."""
    return packet[:3] + bytes((packet[3] | BECN_BYTE3,)) + packet[4:]


def fecn_of(packet: bytes | bytearray | memoryview) -> bool:
    """Return the FECN bit."""
    return bool(packet[7] & FECN_BYTE7)


def becn_of(packet: bytes | bytearray | memoryview) -> bool:
    """Return the BECN bit."""
    return bool(packet[3] & BECN_BYTE3)
