"""The declaration of one field: its width, meaning, presentation and place.

Everything else that knows the field is made from this declaration: codec, scapy layer, `opavnic decode`, the tables
of docs/, the Wireshark dissectors, the constants of native/. See `hfi_sim.wire.header` for whole headers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, Literal, Self

BITS_PER_BYTE: Final = 8
BITS_PER_QUAD_WORD: Final = 64

Order = Literal["little", "big"]


class Shown(Enum):
    """How a field is displayed; this also determines the type of its values."""

    DECIMAL = "decimal"
    HEX = "hex"
    FLAG = "flag"
    """One bit: a bool."""
    BYTES = "bytes"
    MAC = "mac"


DECIMAL: Final = Shown.DECIMAL
HEX: Final = Shown.HEX
FLAG: Final = Shown.FLAG
BYTES: Final = Shown.BYTES
MAC: Final = Shown.MAC


class Code(IntEnum):
    """Code points of a field, each with a short description: `FORWARDING = 3, "forwarding"`."""

    text: str

    def __new__(cls, value: int, text: str = "") -> Self:
        """Make the member `value`, described by `text`."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member

    @classmethod
    def text_of(cls, value: int, unknown: str = "") -> str:
        """Return the text of a code point, or `unknown` where there is none with this value."""
        return next((member.text for member in cls if member == value), unknown)


@dataclass(frozen=True, slots=True)
class Field:
    """The declaration of a field, except for its name and its default, which the dataclass holds."""

    bits: int
    """The width; that of one item if there are several."""
    meaning: str
    """A short description of the value, with its unit."""
    shown: Shown = Shown.DECIMAL
    codes: type[IntEnum] | Mapping[int, str] | None = None
    """Known values and their meanings; for an enumeration without texts, the names of its members."""
    parts: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    """Named groups of bits within a number: mask and meaning of each."""
    at: int | None = None
    """First bit of the field; None places it after the field declared before it."""
    split: tuple[tuple[int, int], tuple[int, int]] | None = None
    """First bit and width of the two places of a split field: its low bits, then its high bits."""
    may_change: bool = False
    """Whether switches may change it on the way; if so, the ICRC does not cover it."""
    signed: bool = False
    count: int = 0
    """The number of items if the value is a tuple; 0 if it is a single value."""
    record: Any = None
    """The `Header` of an item that is itself a header; the value of the item is a dict."""
    access: str = ""
    """Access to the field (who may write it), for attributes that specify it."""

    @property
    def width(self) -> int:
        """The bits of all items."""
        return self.bits * max(self.count, 1)

    @property
    def is_number(self) -> bool:
        """Whether a value is a single number."""
        return not self.count and self.record is None and self.shown not in (Shown.BYTES, Shown.MAC)

    @property
    def zero(self) -> Any:
        """The value whose bits are all 0, of a field without a record."""
        zero: Any = bytes(self.bits // BITS_PER_BYTE) if self.shown in (Shown.BYTES, Shown.MAC) else 0
        return (zero,) * self.count if self.count else zero

    @property
    def texts(self) -> Mapping[int, str]:
        """The known values and their meanings."""
        if isinstance(self.codes, type):
            return {int(code): getattr(code, "text", code.name) for code in self.codes}
        return self.codes or {}

    def text_of(self, value: int | bytes) -> str:
        """Return the meaning of `value`; empty for a value that is not a known one."""
        number = int.from_bytes(value) if isinstance(value, bytes) else value
        return self.texts.get(number, "")

    def faults(self, name: str, value: Any) -> list[str]:
        """Return a sentence for each item of `value` that does not fit the field."""
        if not self.count:
            return self._item_faults(name, value)
        if not isinstance(value, tuple | list) or len(value) != self.count:
            given = str(len(value)) if isinstance(value, tuple | list) else repr(value)
            return [f"{name} has {self.count} items, not {given}"]
        return [
            fault for index, item in enumerate(value) for fault in self._item_faults(f"{name}[{index}]", item)
        ]

    def _item_faults(self, name: str, value: Any) -> list[str]:
        if self.record is not None:
            found: list[str] = self.record.faults(value, f"{name}.")
            return found
        if self.shown in (Shown.BYTES, Shown.MAC):
            size = self.bits // BITS_PER_BYTE
            if isinstance(value, bytes) and len(value) == size:
                return []
            given = f"{len(value)}" if isinstance(value, bytes) else repr(value)
            return [f"{name} has {size} bytes, not {given}"]
        if not isinstance(value, int):
            return [f"{name} {value!r} is not a number"]
        first, last = (-1 << self.bits - 1, 1 << self.bits - 1) if self.signed else (0, 1 << self.bits)
        if first <= value < last:
            return []
        kind = "signed bits" if self.signed else "bits"
        return [f"{name} {value:#x} does not fit {self.bits} {kind} ({first} to {last - 1})"]


@dataclass(frozen=True, slots=True)
class Place:
    """The place in a header of a field, or of one of the two parts of a split field."""

    name: str
    """The name of the field; for a part, `slid_low` or `slid_high`."""
    field_name: str
    field: Field
    offset_bits: int
    width_bits: int
    shift: int = 0
    """The lowest bit of the field's value that stands here."""

    @property
    def meaning(self) -> str:
        """The meaning of the field; for a part, also which bits of the value stand here."""
        if self.field.split is None:
            return self.field.meaning
        return f"{self.field.meaning}, bits {self.shift + self.width_bits - 1}:{self.shift}"

    @property
    def offset(self) -> int:
        """The first byte that the place touches."""
        return self.offset_bits // BITS_PER_BYTE

    @property
    def size(self) -> int:
        """The bytes of a place of whole bytes."""
        return self.width_bits // BITS_PER_BYTE

    @property
    def in_slice(self) -> slice:
        """The bytes of a place of whole bytes, in a header that starts at byte 0."""
        return slice(self.offset, self.offset + self.size)

    def in_bytes(self, start: int) -> str:
        """Return the position as bytes, in a header that starts at byte `start`: `byte 4-7`."""
        return bytes_where(start + self.offset, start + self.offset + self.size)

    def in_quad_words(self, start: int) -> str:
        """Return the position as quad word and bits, in a header that starts at byte `start`: `QW0 20-30`."""
        quad_word, bit = divmod(start * BITS_PER_BYTE + self.offset_bits, BITS_PER_QUAD_WORD)
        last = bit + self.width_bits - 1
        return f"QW{quad_word} {bit}" if last == bit else f"QW{quad_word} {bit}-{last}"


def bytes_where(start: int, end: int) -> str:
    """Return how people name the bytes from `start` up to, not including, `end`: `byte 4-7`."""
    return f"byte {start}" if end - start <= 1 else f"byte {start}-{end - 1}"
