"""The memory of a cable's plugs as a port reads it: what a cable is, invented from what its link is like.

A link's latency is that of its cable, at 5 ns a metre: up to 3 m it is of copper, beyond that optical. Both ends of a
cable bear one serial number.

Source: SFF-8636, tables 6-15 and following (page 0 of QSFP28); for the last bytes, which are the vendor's: cs_cable of
opa-ff, stl_sm_types.h.
"""

from __future__ import annotations

import zlib
from typing import Final

PAGE: Final = 128
MEMORY: Final = 4096
"""Bytes that a port can read of a plug."""
SECONDS_A_METRE: Final = 5e-9
COPPER_MAX_M: Final = 3
_LONGEST_M: Final = 255
_QSFP28: Final = 0x11
_NOT_SEPARABLE: Final = 0x23
_COPPER, _OPTICAL_850_NM = 0xA0, 0x00
_OPTICAL_CABLE: Final = 0x01
_850_NM: Final = (850 * 20).to_bytes(2)


def length_m(latency_s: float) -> int:
    """Return how long a cable with a latency is, in metres; 1 to 255."""
    return min(max(1, round(latency_s / SECONDS_A_METRE)), _LONGEST_M)


def memory(name: str, latency_s: float) -> bytes:
    """Return the memory of a plug: 128 bytes, then the pages from 0 on. Args: name: of the link."""
    metres = length_m(latency_s)
    copper = metres <= COPPER_MAX_M
    page = bytearray(PAGE)
    page[0] = _QSFP28
    page[2] = _NOT_SEPARABLE
    page[12] = 0xFF  # more than 25.4 Gbit/s a lane
    page[18] = metres
    page[19] = _COPPER if copper else _OPTICAL_850_NM
    page[20:36] = b"opavnic".ljust(16)
    page[40:56] = f"EMULATED-{'CU' if copper else 'AOC'}-{metres}M".encode().ljust(16)
    page[56:58] = b"A "
    if not copper:
        page[58:60] = _850_NM
        page[64] = _OPTICAL_CABLE
    page[63] = sum(page[:63]) & 0xFF
    page[68:84] = f"OV{zlib.crc32(name.encode()):08X}".encode().ljust(16)
    page[84:92] = b"260101  "
    page[94] = 103  # times 250 Mbit/s
    page[95] = sum(page[64:95]) & 0xFF
    page[122] = 0xAB  # certified
    page[124] = 2  # for 4 lanes of 25 Gbit/s
    return (bytes([_QSFP28]).ljust(PAGE, b"\0") + bytes(page)).ljust(MEMORY, b"\0")
