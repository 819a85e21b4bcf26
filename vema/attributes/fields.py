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


def misfit(attribute: str, declaration: Any, value: object) -> ValueError:
    """Return the error that names the fields of `value`, an attribute, which do not fit their declarations."""
    wrong: list[str] = []
    for field in declaration.subcons:
        if not hasattr(value, field.name):
            continue
        given, inner = getattr(value, field.name), field
        while isinstance(inner, construct.Renamed):
            inner = inner.subcon
        items = {field.name: given}
        if isinstance(inner, construct.Array) and isinstance(given, tuple):
            if len(given) != inner.count:
                wrong.append(f"{field.name} has {inner.count} items, not {len(given)}")
            items = {f"{field.name}[{index}]": item for index, item in enumerate(given)}
            inner = inner.subcon
        if isinstance(inner, construct.FormatField):
            limit = (1 << BITS_PER_BYTE * inner.sizeof()) - 1
            for name, item in items.items():
                if not isinstance(item, int) or not 0 <= item <= limit:
                    wrong.append(f"{name} is 0 to {limit}, not {item!r}")
    return ValueError(f"{attribute}: {'; '.join(wrong)}")


def offset_table(declaration: Any) -> str:
    """Return the fields of a declaration as a Markdown table: offset, bytes, field, access, meaning."""
    lines = ["| offset | bytes | field | access | meaning |", "|---:|---:|---|---|---|"]
    for field in layout_fields(declaration):
        access, _, meaning = field.meaning.partition(_SEPARATOR)
        offset, width = field.offset_bits // BITS_PER_BYTE, field.width_bits // BITS_PER_BYTE
        lines.append(f"| {offset} | {width} | `{field.name}` | {access} | {meaning} |")
    return "\n".join(lines) + "\n"
