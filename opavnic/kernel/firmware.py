"""Firmware that hfi1 loads into the 8051 of a virtual HFI: a file in the driver's format, with nothing in it.

The driver loads one for each implementation of the chip but a functional simulator, and a simulator's link cannot be
taken down (docs/how-to/hfi1.md). The device accepts any signature, and runs none of it: what the 8051 does is a part
of the model (source/opa_virtual_hfi/dc.c).

Source: firmware.c struct css_header, struct augmented_firmware_file, verify_css_header.
"""

from __future__ import annotations

import struct
from typing import Final

NAME: Final = "hfi_dc8051.bin"
"""What hfi1 asks for where the chip is simulated."""
_HEADER: Final = struct.Struct("<10I88x")
_MODULE_TYPE: Final = 6
_VERSION: Final = 0x10000
_INTEL: Final = 0x8086
_MADE: Final = 0x20150101
_KEY: Final = 256
_EXPONENT: Final = 4
_SIGNED: Final = _HEADER.size + _KEY + _EXPONENT + _KEY
"""Of header, modulus, exponent, signature."""
_ADDED: Final = _KEY + 8
"""Of what is added for the chip, and not counted by the header: r2, mu."""
_PROGRAM: Final = bytes(8)


def firmware() -> bytes:
    """Return the file."""
    sizes = (_SIGNED + len(_PROGRAM), _KEY, _KEY, _EXPONENT)
    header = (_MODULE_TYPE, _SIGNED // 4, _VERSION, 0, _INTEL, _MADE, *(size // 4 for size in sizes))
    return _HEADER.pack(*header).ljust(_SIGNED + _ADDED, b"\0") + _PROGRAM
