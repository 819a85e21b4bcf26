"""The fields of a construct declaration and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import construct

BITS_PER_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class LayoutField:
    """One field of a declaration: where it starts, how wide it is (both in bits), and what it means."""

    name: str
    offset_bits: int
    width_bits: int
    meaning: str


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
