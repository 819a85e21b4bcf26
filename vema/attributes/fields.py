"""How the declarations of the attributes are written: access and meaning of a field, and their tables."""

from __future__ import annotations

from typing import Any, Final

import construct

from hfi_sim.errors import WireError
from hfi_sim.wire.layout import BITS_PER_BYTE, layout_fields

READ_WRITE: Final = "RW"
"""The EM sets it, and reads back what it set."""
READ_ONLY: Final = "RO"
"""The agent's: ignored in a Set."""
KEPT: Final = "kept"
"""Reserved, but stored and given back as the EM sent it."""
ZERO: Final = "zero"
"""Reserved: zero in every response."""

_SEPARATOR: Final = " | "


def note(access: str, meaning: str) -> str:
    """Return the documentation of a field: who may write it, and what it means (with its unit)."""
    return f"{access}{_SEPARATOR}{meaning}"


def reserved(first: int, size: int, access: str = KEPT) -> Any:
    """Declare `size` reserved bytes at offset `first`, by which the field is named."""
    return f"reserved_{first}" / construct.Bytes(size) * note(access, "reserved")


def check_size(attribute: str, data: bytes, size: int) -> None:
    """Refuse truncated data.

    Raises:  WireError: fewer than `size` bytes.
    """
    if len(data) < size:
        raise WireError(attribute, len(data), f"{len(data)} bytes, {attribute} needs {size}")


def offset_table(declaration: Any) -> str:
    """Return the fields of a declaration as a Markdown table: offset, bytes, field, access, meaning."""
    lines = ["| offset | bytes | field | access | meaning |", "|---:|---:|---|---|---|"]
    for field in layout_fields(declaration):
        access, _, meaning = field.meaning.partition(_SEPARATOR)
        offset, width = field.offset_bits // BITS_PER_BYTE, field.width_bits // BITS_PER_BYTE
        lines.append(f"| {offset} | {width} | `{field.name}` | {access} | {meaning} |")
    return "\n".join(lines) + "\n"
