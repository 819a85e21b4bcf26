"""The 16B header, which every switch and port on the fabric reads: two little-endian quad words; and what follows it.

That is the Ethernet L4 header (little-endian), or the FM header of MADs (big-endian).

Source: seed 000, table "The Omni-Path encapsulated Ethernet packet format", quad words 0 to 2. Age takes the low eight
of the 16 bits that the table calls reserved. For the FM header, the public hfi1 driver: two words, destination and
source queue pair, 24 bits of each used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared


class L4(Code):
    """The L4 types of a 16B packet that have a name here; others stay plain ints."""

    FM = 0x08, "management: FM header and MAD"
    IB_LOCAL = 0x09, "InfiniBand, no global route header"
    IB_GLOBAL = 0x0A, "InfiniBand with global route header"
    ETHERNET = 0x78, "Ethernet of a virtual switch"
    EEPH = 0x79, "encapsulated Ethernet of another kind"
    VENDOR_RC = 0x7A, "this project's reliable connections"


QP_TEXTS: Final = {0: "the subnet manager's QP", 1: "the management QP"}
"""The queue pairs that have a name."""


@declared("ethernet_l4", "Ethernet L4 header", "little", source="seed 000, the packet table, quad word 2")
@dataclass(frozen=True, slots=True)
class EthernetL4(WireHeader):
    """The 4 bytes between the 16B header and the Ethernet frame."""

    vesw_id: Annotated[int, Field(16, "virtual Ethernet switch id, 12 bits used", at=16)]
    reserved: Annotated[int, Field(16, "0; given on as received", HEX)] = 0


@declared("fm_header", "FM header", "big", source="the public hfi1 driver: two words, 24 bits of each used")
@dataclass(frozen=True, slots=True)
class FmHeader(WireHeader):
    """The 8 bytes between the 16B header and a MAD."""

    dest_qp: Annotated[
        int,
        Field(24, "destination queue pair: 0 the subnet manager's, 1 everything else", codes=QP_TEXTS, at=8),
    ]
    src_qp: Annotated[int, Field(24, "source queue pair", codes=QP_TEXTS, at=40)]
    dest_reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0
    src_reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0


L2_16B: Final = 2
"""The L2 field of a 16B packet."""
L2_9B: Final = 3
"""The L2 field of the head of a 9B packet (`hfi_sim.wire.packet_9b`), which has this layout too."""
LT_HEAD: Final = 1
"""The LT bit of a head flit."""

_L2_TEXTS: Final = {0: "not 16B", 1: "not 16B", L2_16B: "16B", L2_9B: "head of a 9B packet"}
_LT_TEXTS: Final = {0: "not a head flit", LT_HEAD: "head flit"}


@declared("lrh16b", "16B header", "little", source="seed 000, the packet table, quad words 0 and 1")
@dataclass(frozen=True, slots=True)
class Lrh16B(WireHeader):
    """One 16B header. A LID is one 24-bit value here; the wire splits it 20 + 4."""

    slid: Annotated[int, Field(24, "source LID", HEX, split=((0, 20), (72, 4)))]
    dlid: Annotated[int, Field(24, "destination LID", HEX, split=((32, 20), (76, 4)))]
    length_qw: Annotated[
        int, Field(11, "whole packet in 8-byte units: header, L4, payload, pad, ICRC, tail")
    ] = 0
    becn: Annotated[bool, Field(1, "backward explicit congestion notification", FLAG, may_change=True)] = (
        False
    )
    sc: Annotated[int, Field(5, "service channel", may_change=True)] = 0
    rc: Annotated[int, Field(3, "routing control")] = 0
    fecn: Annotated[bool, Field(1, "forward explicit congestion notification", FLAG, may_change=True)] = False
    l2: Annotated[int, Field(2, "packet format: 2 is 16B, 3 the head of a 9B packet", codes=_L2_TEXTS)] = (
        L2_16B
    )
    lt: Annotated[int, Field(1, "link transfer: 1 is a head flit", codes=_LT_TEXTS)] = LT_HEAD
    l4: Annotated[int, Field(8, "what follows the header: 0x78 Ethernet, 0x08 management", HEX, L4)] = 0
    pkey: Annotated[int, Field(16, "partition key; bit 15 says full member", HEX)] = 0xFFFF
    entropy: Annotated[int, Field(16, "spreads flows over paths; a VNIC uses the low 8 bits", HEX)] = 0
    age: Annotated[int, Field(8, "age of the packet", may_change=True)] = 0
    reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0


SIZE: Final = Lrh16B.SIZE
"""Bytes of the header."""


L4_BYTE: Final = 8
"""The byte that is the L4 type."""
_L2_SHIFT: Final = 5
_L2_MASK: Final = 3
"""Of the L2 field in byte 7."""

# Fast readers of the fields that switches and ports need of every packet, which has at least 16 bytes.


def slid_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the 24-bit source LID."""
    return (packet[0] | packet[1] << 8 | (packet[2] & 0xF) << 16) | (packet[9] & 0xF) << 20


def dlid_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the 24-bit destination LID."""
    return (packet[4] | packet[5] << 8 | (packet[6] & 0xF) << 16) | (packet[9] >> 4) << 20


def length_qw_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the Length field: the whole packet in 8-byte units."""
    return packet[2] >> 4 | (packet[3] & 0x7F) << 4


def is_16b(packet: bytes | bytearray | memoryview) -> bool:
    """Return whether L2 names the 16B format."""
    return packet[7] >> _L2_SHIFT & _L2_MASK == L2_16B


def is_9b(packet: bytes | bytearray | memoryview) -> bool:
    """Return whether L2 names the 9B format."""
    return packet[7] >> _L2_SHIFT & _L2_MASK == L2_9B


def sc_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the service channel."""
    return packet[6] >> 4 | (packet[7] & 1) << 4


def l4_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the L4 type."""
    return packet[L4_BYTE]


def pkey_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the partition key."""
    return packet[10] | packet[11] << 8


def entropy_of(packet: bytes | bytearray | memoryview) -> int:
    """Return the entropy."""
    return packet[12] | packet[13] << 8


# Fields that change in transit, and so are not covered by the ICRC: the service channel and the congestion marks.

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


def with_sc(packet: bytes, sc: int) -> bytes:
    """Return the packet on another service channel, 0 to 31."""
    return packet[:6] + bytes((packet[6] & 0x0F | (sc & 0xF) << 4, packet[7] & 0xFE | sc >> 4)) + packet[8:]


def with_length_qw(packet: bytes, length_qw: int) -> bytes:
    """Return the packet, or its header, with another Length, 0 to 2047."""
    length = bytes((packet[2] & 0x0F | (length_qw & 0xF) << 4, packet[3] & 0x80 | length_qw >> 4))
    return packet[:2] + length + packet[4:]
