"""What follows the 16B header: the Ethernet L4 header (little-endian), the FM header of MADs (big-endian).

Source: seed 000, quad word 2 of the packet table; for the FM header, the public hfi1 driver: two words,
destination and source queue pair, 24 bits of each used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

import construct

from hfi_sim.errors import WireError
from hfi_sim.wire.layout import little_bits, low_bits_first


class L4(IntEnum):
    """The L4 types of a 16B packet that have a name here; others stay plain ints."""

    FM = 0x08
    """Management: FM header, then a MAD."""
    IB_LOCAL = 0x09
    """InfiniBand without a global route header."""
    IB_GLOBAL = 0x0A
    """InfiniBand with a global route header."""
    ETHERNET = 0x78
    """Ethernet L4 header, then an Ethernet frame."""
    EEPH = 0x79
    """Encapsulated Ethernet of another kind; not handled."""
    VENDOR_RC = 0x7A
    """Reliable connections of this project's own; no hardware speaks it."""


ETHERNET_LAYOUT: Final = low_bits_first(
    "reserved" / little_bits(16) * "0; given on as received",
    "vesw_id" / little_bits(16) * "virtual Ethernet switch id, 12 bits used",
)
"""The first half of quad word 2."""

FM_LAYOUT: Final = construct.BitStruct(
    "dest_reserved" / construct.BitsInteger(8) * "0; given on as received",
    "dest_qp"
    / construct.BitsInteger(24)
    * "destination queue pair: 0 the subnet manager's, 1 everything else",
    "src_reserved" / construct.BitsInteger(8) * "0; given on as received",
    "src_qp" / construct.BitsInteger(24) * "source queue pair",
)
"""Two big-endian 32-bit words."""

_ETHERNET: Final = struct.Struct("<HH")
_FM: Final = struct.Struct(">II")


def _check_width(name: str, value: int, width: int) -> None:
    if not 0 <= value < 1 << width:
        raise ValueError(f"{name} {value:#x} does not fit {width} bits")


@dataclass(frozen=True, slots=True)
class EthernetL4:
    """The 4 bytes between the 16B header and the Ethernet frame."""

    SIZE: ClassVar[int] = 4

    vesw_id: int
    """Virtual Ethernet switch id: 12 bits are used, the field has 16."""
    reserved: int = 0
    """The 16 bits before it."""

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 4 bytes.
        """
        if len(data) < cls.SIZE:
            raise WireError(
                "ethernet_l4", len(data), f"{len(data)} bytes, the Ethernet L4 header needs {cls.SIZE}"
            )
        reserved, vesw_id = _ETHERNET.unpack_from(data)
        return cls(vesw_id, reserved)

    def build(self) -> bytes:
        """Return the 4 bytes.

        Raises:  ValueError: a value does not fit 16 bits.
        """
        _check_width("vesw_id", self.vesw_id, 16)
        _check_width("reserved", self.reserved, 16)
        return _ETHERNET.pack(self.reserved, self.vesw_id)


@dataclass(frozen=True, slots=True)
class FmHeader:
    """The 8 bytes between the 16B header and a MAD."""

    SIZE: ClassVar[int] = 8

    dest_qp: int
    """Destination queue pair, 24 bits."""
    src_qp: int
    """Source queue pair, 24 bits."""
    dest_reserved: int = 0
    """The 8 bits above dest_qp."""
    src_reserved: int = 0
    """The 8 bits above src_qp."""

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 8 bytes.
        """
        if len(data) < cls.SIZE:
            raise WireError("fm_header", len(data), f"{len(data)} bytes, the FM header needs {cls.SIZE}")
        dest, src = _FM.unpack_from(data)
        return cls(dest & 0xFFFFFF, src & 0xFFFFFF, dest >> 24, src >> 24)

    def build(self) -> bytes:
        """Return the 8 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        _check_width("dest_qp", self.dest_qp, 24)
        _check_width("src_qp", self.src_qp, 24)
        _check_width("dest_reserved", self.dest_reserved, 8)
        _check_width("src_reserved", self.src_reserved, 8)
        return _FM.pack(self.dest_reserved << 24 | self.dest_qp, self.src_reserved << 24 | self.src_qp)
