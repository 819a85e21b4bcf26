"""Helpers for the construct declarations of this floor: bit fields in document order, and their offsets.

The documents count bits from the least significant one of a little-endian quad word. construct counts from
the most significant one, so `low_bits_first` and `little_bits` turn the stream round: a declaration reads
from top to bottom as the table in the document does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import construct

BITS_PER_BYTE: Final = 8
BITS_PER_QUAD_WORD: Final = 64


@dataclass(frozen=True, slots=True)
class LayoutField:
    """One field of a declaration: where it starts, how wide it is (both in bits), and what it means."""

    name: str
    offset_bits: int
    width_bits: int
    meaning: str


def _from_bits(bits: bytes, _context: object) -> int:
    return sum(bit << position for position, bit in enumerate(bits))


def little_bits(width: int) -> Any:
    """Return a construct field of `width` bits whose first bit on the stream is the least significant."""

    def to_bits(value: int, _context: object) -> bytes:
        if not 0 <= value < 1 << width:
            raise construct.IntegerError(f"{value:#x} does not fit {width} bits")
        return bytes(value >> position & 1 for position in range(width))

    return construct.ExprAdapter(construct.Bytes(width), _from_bits, to_bits)


def low_bits_first(*fields: Any) -> Any:
    """Return a struct of `little_bits` fields, listed from bit 0 upwards."""
    return construct.BitsSwapped(construct.BitStruct(*fields))


def _unwrap(declaration: Any) -> tuple[Any, int]:
    """Return the innermost Struct of `declaration` and the bits that one unit of its size stands for."""
    unit = BITS_PER_BYTE
    while not isinstance(declaration, construct.Struct):
        if isinstance(declaration, construct.Transformed | construct.Restreamed):
            unit = 1
        declaration = declaration.subcon
    return declaration, unit


def layout_fields(declaration: Any) -> Iterator[LayoutField]:
    """Yield the fields of a construct declaration of fixed size, in order.

    Args:    declaration: a Struct, or what `low_bits_first` returned.
    """
    struct, unit = _unwrap(declaration)
    offset = 0
    for field in struct.subcons:
        width = field.sizeof() * unit
        yield LayoutField(field.name, offset, width, field.docs)
        offset += width


def bytes_where(start: int, end: int) -> str:
    """Return how people name the bytes from `start` up to, not including, `end`: `byte 4-7`."""
    return f"byte {start}" if end - start <= 1 else f"byte {start}-{end - 1}"


def byte_where(offset: int, item: LayoutField) -> str:
    """Return the position of a field of whole bytes, in a declaration that starts at byte `offset`."""
    start = offset + item.offset_bits // BITS_PER_BYTE
    return bytes_where(start, start + item.width_bits // BITS_PER_BYTE)


def quad_word_where(offset: int, item: LayoutField) -> str:
    """Return the position of a field as quad word and bits, in a declaration that starts at byte `offset`."""
    quad_word, bit = divmod(offset * BITS_PER_BYTE + item.offset_bits, BITS_PER_QUAD_WORD)
    return (
        f"QW{quad_word} {bit}" if item.width_bits == 1 else f"QW{quad_word} {bit}-{bit + item.width_bits - 1}"
    )
