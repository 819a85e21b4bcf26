"""The checksum of kib_msg, in both forms that exist.

o2iblnd adds the bytes as plain `char`. On x86 that is signed in kernels before 6.2 and unsigned since, so two hosts
with different kernels compute different sums of the same message as soon as one of its bytes is 0x80 or more. On
receipt both are right here; which one is sent is a setting.

Source: the public kiblnd_cksum(); the kernel's change to -funsigned-char in 6.2.
"""

from __future__ import annotations

from enum import StrEnum


class Char(StrEnum):
    """How the sender takes a byte."""

    SIGNED = "signed"
    """-128 to 127, as x86 kernels before 6.2."""
    UNSIGNED = "unsigned"
    """0 to 255, as kernels since 6.2, and any kernel on Arm."""


def cksum(data: bytes, char: Char) -> int:
    """Return o2iblnd's checksum, 32 bits: rotate left by one, add the byte; never 0, which means "none"."""
    high = 0x80 if char is Char.SIGNED else 0x100
    total = 0
    for byte in data:
        value = byte if byte < high else byte - 0x100
        total = (((total << 1) & 0xFFFFFFFF) | total >> 31) + value & 0xFFFFFFFF
    return total or 1


def is_cksum(total: int, data: bytes) -> bool:
    """Return whether `total` is the checksum of `data` in either form."""
    return any(cksum(data, char) == total for char in Char)
