"""The ICRC of a 16B packet: a CRC-32 over everything that must not change on the way.

The polynomial and coverage of the hardware's 16B ICRC are not public. Ours is the CRC-32 of the InfiniBand
architecture (polynomial 0x04C11DB7, reflected, initial value and final xor all ones), over

1. the 16 header bytes with SC, FECN, BECN and age set to ones, since switches may change those;
2. the L4 header, the payload and the pad bytes as they are;
3. one more byte: the pad count, which is the last byte of the packet masked to its low three bits. Without it
   a damaged pad count would lengthen or shorten the frame unnoticed.

The ICRC field itself and the remaining bits of the last byte are not covered. Byte order: the value is stored
little-endian in bits 24-55 of the last quad word, that is in the four bytes before the last one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

import crcmod

from hfi_sim.wire.lrh16b import Lrh16B

_Crc32 = Callable[[bytes | bytearray | memoryview, int], int]


def load_fast_crc32() -> tuple[str, _Crc32]:
    """Return the name and the function of the fastest CRC-32 of this machine."""
    try:
        from isal import isal_zlib
    except ImportError:
        return "zlib", zlib.crc32
    return "isal", isal_zlib.crc32


BACKEND, _fast_crc32 = load_fast_crc32()

IBA_POLYNOMIAL: Final = 0x04C11DB7
"""The polynomial of the IBA's CRC-32, without its leading x^32; Ethernet and zlib use the same."""

ICRC_SIZE: Final = 4
TAIL_SIZE: Final = 1
TRAILER_SIZE: Final = ICRC_SIZE + TAIL_SIZE
"""Bytes after the pad: ICRC and tail."""
PAD_COUNT_MASK: Final = 0x07
"""The bits of the last byte that hold the number of pad bytes."""

_QUAD_WORDS: Final = Struct("<QQ")
VARIABLE_QW0, VARIABLE_QW1 = _QUAD_WORDS.unpack(Lrh16B.HEADER.variable_mask())
"""The bits of the header's quad words that may change on the way: BECN, SC and FECN; age."""

_PAD_COUNT_BYTE: Final = tuple(bytes([count]) for count in range(8))


class Icrc:
    """Computes and checks ICRCs with one polynomial; without state, so one instance serves a whole fabric."""

    __slots__ = ("_crc32", "polynomial")

    def __init__(self, polynomial: int = IBA_POLYNOMIAL) -> None:
        """Choose the polynomial.

        Args:    polynomial: 32 bits, most significant term first, without x^32.
        Raises:  ValueError: no polynomial of degree 32 that ends in + 1.
        """
        if not 0 < polynomial < 1 << 32 or not polynomial & 1:
            raise ValueError(f"ICRC polynomial {polynomial:#x} is not an odd number of at most 32 bits")
        self.polynomial = polynomial
        self._crc32: _Crc32 = _fast_crc32 if polynomial == IBA_POLYNOMIAL else define_crc32(polynomial)

    def __repr__(self) -> str:
        return f"Icrc(polynomial={self.polynomial:#010x})"

    def compute(self, head: bytes | bytearray | memoryview, pad_count: int) -> int:
        """Return the ICRC, a 32-bit number.

        Args:    head: the packet without its last five bytes: header, L4, payload and pad. pad_count: 0-7.
        Raises:  ValueError: fewer than 16 bytes, or another pad count.
        """
        if len(head) < _QUAD_WORDS.size or not 0 <= pad_count <= PAD_COUNT_MASK:
            raise ValueError(f"cannot compute an ICRC over {len(head)} bytes with pad count {pad_count}")
        qw0, qw1 = _QUAD_WORDS.unpack_from(head)
        return self.compute_parts(qw0, qw1, head[_QUAD_WORDS.size :], pad_count)

    def compute_parts(self, qw0: int, qw1: int, rest: bytes | bytearray | memoryview, pad_count: int) -> int:
        """Return the ICRC for a header whose quad words are at hand; the datapath's way, without checks.

        Args:    rest: L4 header, payload and pad. pad_count: 0-7.
        """
        crc32 = self._crc32
        value = crc32(_QUAD_WORDS.pack(qw0 | VARIABLE_QW0, qw1 | VARIABLE_QW1), 0)
        return crc32(_PAD_COUNT_BYTE[pad_count], crc32(rest, value))

    def compute_9b(self, masked: bytes | bytearray) -> int:
        """Return the ICRC of a 9B packet without its ICRC, from the LRH on, what may change set to ones."""
        return self._crc32(masked, 0)

    def check(self, packet: bytes | bytearray | memoryview) -> bool:
        """Return whether the ICRC of a whole packet matches; False where it is too short to have one."""
        if len(packet) < _QUAD_WORDS.size + TRAILER_SIZE:
            return False
        value = self.compute(packet[:-TRAILER_SIZE], packet[-1] & PAD_COUNT_MASK)
        return value == int.from_bytes(packet[-TRAILER_SIZE:-TAIL_SIZE], "little")


def define_crc32(polynomial: int) -> Callable[[bytes | bytearray | memoryview, int], int]:
    """Return the CRC-32 of any polynomial as crcmod defines it: reflected, all ones at both ends.

    It is the reference that the fast functions are held to, and slower than they are.
    """
    crc = crcmod.mkCrcFun(1 << 32 | polynomial, initCrc=0, rev=True, xorOut=0xFFFFFFFF)

    def crc32(data: bytes | bytearray | memoryview, value: int) -> int:
        result: int = crc(bytes(data), value)
        return result

    return crc32
