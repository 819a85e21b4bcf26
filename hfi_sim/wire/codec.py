"""The fast codec of a header: struct for its words, shifts for the fields that share one.

A word is one field of whole bytes, or several fields that end with a byte together. The functions are compiled from
the declaration on first use, as the methods of a dataclass are. Tests hold them equal to the reference, the header's
construct; see `hfi_sim.wire.constructs`.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from hfi_sim.wire.field import BITS_PER_BYTE, Field, Order, Place, Shown

_LETTERS: Final = {8: "B", 16: "H", 32: "I", 64: "Q"}


class Codec:
    """The words of a header, and the functions that make values of them and back."""

    def __init__(self, fields: Mapping[str, Field], places: Iterable[Place], order: Order) -> None:
        self._fields = fields
        self._order: Final = order
        self._words = list(_words(places))
        letters = [_letter(word, order) for word in self._words]
        self.struct: Final = struct.Struct((">" if order == "big" else "<") + "".join(letters))
        names = [word[0].field_name if _is_field(word) else "" for word in self._words]
        self.is_in_order: Final = names == list(self._fields)
        """Whether the words are the fields, in the order of their declaration."""
        self.is_plain: Final = self.is_in_order and all(map(_is_plain, self._fields.values()))
        """Whether, in addition, struct takes and returns the values as they are."""

    def reader(self, result: str) -> Callable[..., Any]:
        """Compile a function of bytes and `made`; it raises struct.error if there are too few bytes.

        Args:    result: an expression with `{name}` for the value of each field; it may call `made`.
        """
        known: dict[str, Any] = {"from_bytes": int.from_bytes, "unpack_from": self.struct.unpack_from}
        values = dict[str, str]()
        for index, word in enumerate(self._words):
            field, name = word[0].field, word[0].field_name
            if _is_field(word):
                values[name] = f"w{index}" if _is_plain(field) else f"read_{name}(w{index})"
                known[f"read_{name}"] = _reader(field, self._order)
                continue
            number = f"w{index}" if _bits(word) in _LETTERS else f"from_bytes(w{index}, {self._order!r})"
            for place, lowest in self._within(word):
                part = _moved(number, lowest, place, place.shift)
                values[place.field_name] = " | ".join(filter(None, (values.get(place.field_name), part)))
        for name, field in self._fields.items():
            if field.shown is Shown.FLAG:
                values[name] = f"({values[name]}) != 0"
            elif field.signed and not _is_plain(field):
                half = 1 << field.bits - 1
                values[name] = f"(({values[name]}) ^ {half}) - {half}"
        words = "".join(f"w{index}, " for index in range(len(self._words)))
        lines = (
            "def read(data, made=None):",
            f"({words}) = unpack_from(data)",
            f"return {result.format_map(values)}",
        )
        exec("\n ".join(lines), known)  # noqa: S102
        read: Callable[..., Any] = known["read"]
        return read

    def writer(self, access: str, parameters: str = "value") -> Callable[..., bytes]:
        """Compile a function from a value to its bytes.

        It raises struct.error, ValueError, OverflowError or TypeError if a field does not fit.

        Args:    access: an expression for a field of the `parameters`, with `{}` for its name.
        """
        known: dict[str, Any] = {"_pack": self.struct.pack, "_refuse": _refuse, "_len": len}
        words, fits = [], []
        for word in self._words:
            field, name = word[0].field, word[0].field_name
            value = access.format(name)
            if numbers := _numbers(field, self._order):
                known[f"_write_{name}"] = numbers.pack
                words.append(f"_write_{name}(*{value})")
                continue
            if _is_field(word):
                known[f"_write_{name}"] = _writer(field, self._order)
                words.append(value if _is_plain(field) else f"_write_{name}({value})")
                if field.count or not field.is_number:
                    fits.append(f"_len({value}) == {field.count or field.bits // BITS_PER_BYTE}")
                continue
            parts = []
            for place, lowest in self._within(word):
                value, field = access.format(place.field_name), place.field
                half = 1 << field.bits - 1
                fits.append(
                    f"-{half} <= {value} < {half}" if field.signed else f"not {value} >> {field.bits}"
                )
                parts.append(_moved(value, place.shift, place, lowest))
            number = " | ".join(parts)
            size = _bits(word) // BITS_PER_BYTE
            words.append(
                number if _bits(word) in _LETTERS else f"({number}).to_bytes({size}, {self._order!r})"
            )
        packed = f"_pack({', '.join(words)})"
        checked = f"{packed} if {' and '.join(dict.fromkeys(fits))} else _refuse()" if fits else packed
        write: Callable[..., bytes] = eval(f"lambda {parameters}: {checked}", known)  # noqa: S307
        return write

    def _within(self, word: list[Place]) -> Iterator[tuple[Place, int]]:
        """Yield the places of a word, and the bit of the word that the lowest of each is."""
        start = word[0].offset_bits
        for place in word:
            before = place.offset_bits - start
            yield place, before if self._order == "little" else _bits(word) - before - place.width_bits


def _moved(number: str, down: int, place: Place, up: int) -> str:
    """Return an expression for the bits of a place, moved `down` to bit 0 and from there `up`."""
    bits = f"{number} >> {down}" if down else number
    masked = f"{bits} & {(1 << place.width_bits) - 1:#x}"
    return f"({masked}) << {up}" if up else masked


def _refuse() -> bytes:
    raise ValueError("a field does not fit")


def _words(places: Iterable[Place]) -> Iterator[list[Place]]:
    """Yield the places of each word."""
    word: list[Place] = []
    for place in places:
        word.append(place)
        if (place.offset_bits + place.width_bits) % BITS_PER_BYTE == 0:
            yield word
            word = []


def _bits(word: list[Place]) -> int:
    return sum(place.width_bits for place in word)


def _is_field(word: list[Place]) -> bool:
    """Return whether a word is a whole field that is not a number of some odd number of bytes."""
    first = word[0]
    return (
        len(word) == 1
        and first.field.split is None
        and (first.field.bits in _LETTERS or not first.field.is_number)
    )


def _is_plain(field: Field) -> bool:
    """Return whether struct takes and returns a field of whole bytes as it is."""
    if field.count or field.record is not None or field.shown is Shown.FLAG:
        return False
    return not field.is_number or field.bits in _LETTERS


def _letter(word: list[Place], order: Order) -> str:
    letter = _LETTERS.get(_bits(word)) if word[0].field.is_number else None
    if letter is None:
        return f"{_bits(word) // BITS_PER_BYTE}s"
    return letter.lower() if word[0].field.signed and _is_field(word) else letter


def _item(field: Field) -> Field:
    return dataclasses.replace(field, count=0)


def _numbers(field: Field, order: Order) -> struct.Struct | None:
    """Return the struct of a field of several plain numbers."""
    if not field.count or not _is_plain(item := _item(field)) or not item.is_number:
        return None
    letter = _LETTERS[field.bits].lower() if field.signed else _LETTERS[field.bits]
    return struct.Struct(f"{'>' if order == 'big' else '<'}{field.count}{letter}")


def _reader(field: Field, order: Order) -> Callable[[bytes], Any]:
    """Return a function from the bytes of a field to its value."""
    if numbers := _numbers(field, order):
        return numbers.unpack
    if field.count:
        read, size = _reader(_item(field), order), field.bits // BITS_PER_BYTE
        return lambda data: tuple(read(data[at : at + size]) for at in range(0, len(data), size))
    if (record := field.record) is not None:
        return lambda data: dict(zip(record.names, record.unpack(data), strict=True))
    if not field.is_number:
        return bytes
    return functools.partial(int.from_bytes, byteorder=order, signed=field.signed)


def _writer(field: Field, order: Order) -> Callable[[Any], bytes]:
    """Return a function from the value of a field to its bytes."""
    if field.count:
        write = _writer(_item(field), order)
        return lambda value: b"".join(map(write, value))
    if field.record is not None:
        pack: Callable[[Any], bytes] = field.record.pack_values
        return pack
    if not field.is_number:
        return bytes
    size = field.bits // BITS_PER_BYTE
    return lambda value: int(value).to_bytes(size, order, signed=field.signed)
