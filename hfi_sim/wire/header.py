"""How a header is declared: once, as a dataclass, in the order of its document.

    @declared("ethernet_l4", "Ethernet L4 header", "little", source="seed 000, quad word 2 of the packet table")
    @dataclass(frozen=True, slots=True)
    class EthernetL4(WireHeader):
        reserved: Annotated[int, Field(16, "0; given on as received", HEX)] = 0
        vesw_id: Annotated[int, Field(16, "virtual Ethernet switch id, 12 bits used")] = 0

Fields follow each other and skip the bits that another field claims with `at` or `split`. Bits are counted in wire
order: from the least significant bit in little-endian headers, from the most significant bit in big-endian ones.

`parse` and `build` come from the declaration. A class on a hot path may override them with hand-written code;
tests/unit/test_wire_formats.py checks every class against `Header.read` and `Header.write`, the reference codec.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar, get_type_hints

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import BITS_PER_BYTE, Field, Order, Place, Shown

WireBytes = bytes | bytearray | memoryview
T = TypeVar("T", bound="WireHeader")

_LETTERS: Final = {8: "B", 16: "H", 32: "I", 64: "Q"}


class Header:
    """The declaration of a header of fixed size, and the codecs that follow from it."""

    def __init__(
        self,
        name: str,
        title: str,
        order: Order,
        fields: Mapping[str, Field],
        *,
        module: str,
        source: str = "",
        names_itself: bool = False,
    ) -> None:
        """Place the fields.

        Args:    name: what a `WireError` calls the header. title: what people call it. module: where it is declared.
                 source: the document that defines it. names_itself: the error of a value that does not fit
                 begins with `name`.
        Raises:  ValueError: fields overlap, leave a gap, or do not end with a byte.
        """
        self.name = name
        self.title = title
        self.order: Final = order
        self.fields: Final = dict(fields)
        self.source = source
        self.module = module
        self.names_itself = names_itself
        self.places: Final = _place(name, self.fields)
        self.bits: Final = sum(place.width_bits for place in self.places)
        self.size: Final = self.bits // BITS_PER_BYTE
        """Bytes of the header."""
        self.names: Final = tuple(self.fields)
        self._codec = _codec(order, self.places)
        self._convert = [
            (index, convert)
            for index, field in enumerate(self.fields.values())
            if (convert := _reader(field, order)) is not None
        ]
        self._pack = self._packer()

    @property
    def codec(self) -> struct.Struct:
        """The struct of all fields in order, for codecs by hand.

        Raises:  ValueError: a field is not of whole bytes, or stands elsewhere than in the order of declaration.
        """
        if self._codec is None:
            raise ValueError(f"{self.name} has fields that struct cannot read in their order")
        return self._codec

    def place(self, name: str) -> Place:
        """Return where a field stands; of a split one, `slid_low` or `slid_high`."""
        return next(place for place in self.places if place.name == name)

    def check_size(self, data: WireBytes) -> None:
        """Check that `data` hold a whole header.

        Raises:  WireError: they end inside it.
        """
        if len(data) < self.size:
            raise WireError(self.name, len(data), f"{len(data)} bytes, the {self.title} needs {self.size}")

    def faults(self, values: Any, path: str = "") -> list[str]:
        """Return a sentence for each field whose value in `values`, an object or a mapping, does not fit."""
        get = values.__getitem__ if isinstance(values, Mapping) else lambda name: getattr(values, name)
        return [
            fault for name, field in self.fields.items() for fault in field.faults(path + name, get(name))
        ]

    def misfit(self, values: Any) -> ValueError:
        """Return the error that says which `values` do not fit."""
        said = "; ".join(self.faults(values)) or f"{values} does not fit the {self.title}"
        return ValueError(f"{self.name}: {said}" if self.names_itself else said)

    # The reference codec: any declaration, bit by bit.

    def read(self, data: WireBytes) -> dict[str, Any]:
        """Return the values of the header at the start of `data`.

        Raises:  WireError: the data end inside it.
        """
        self.check_size(data)
        whole = int.from_bytes(data[: self.size], self.order)
        bits = dict.fromkeys(self.fields, 0)
        for place in self.places:
            part = whole >> self._lowest(place) & (1 << place.width_bits) - 1
            bits[place.field_name] |= part << place.shift
        return {name: field.from_bits(bits[name], self.order) for name, field in self.fields.items()}

    def write(self, values: Any) -> bytes:
        """Return the bytes of `values`, an object or a mapping.

        Raises:  ValueError: a value does not fit its field.
        """
        if self.faults(values):
            raise self.misfit(values)
        get = values.__getitem__ if isinstance(values, Mapping) else lambda name: getattr(values, name)
        bits = {name: field.to_bits(get(name), self.order) for name, field in self.fields.items()}
        whole = 0
        for place in self.places:
            part = bits[place.field_name] >> place.shift & (1 << place.width_bits) - 1
            whole |= part << self._lowest(place)
        return whole.to_bytes(self.size, self.order)

    def _lowest(self, place: Place) -> int:
        """Return the bit of the header, taken as one number, that the lowest of a place is."""
        if self.order == "little":
            return place.offset_bits
        return self.bits - place.offset_bits - place.width_bits

    # The codec of the datapath: through struct where all fields are whole bytes.

    def unpack(self, data: WireBytes) -> tuple[Any, ...]:
        """Return the values in the order of the fields; the same values as `read`, but faster."""
        if len(data) < self.size:
            self.check_size(data)
        if self._codec is None:
            return tuple(self.read(data).values())
        values = self._codec.unpack_from(data)
        if not self._convert:
            return values
        converted = list(values)
        for index, convert in self._convert:
            converted[index] = convert(converted[index])
        return tuple(converted)

    def unpack_all(self, data: bytes) -> Iterable[tuple[Any, ...]]:
        """Yield what `unpack` returns of each header, where whole ones follow each other."""
        if self._codec is not None and not self._convert:
            return self._codec.iter_unpack(data)
        return (self.unpack(data[at:]) for at in range(0, len(data), self.size))

    def pack(self, value: object) -> bytes:
        """Return the bytes of an object; the same as `write`, but faster."""
        try:
            return self._pack(value)
        except (struct.error, TypeError):
            raise self.misfit(value) from None

    def _packer(self) -> Callable[[object], bytes]:
        """Return the function behind `pack`.

        It is compiled, as the methods of a dataclass are: `operator.attrgetter` takes several times as long. struct
        cuts bytes that are too long and fills up those that are too short, so their lengths are compared first.
        """
        if self._codec is None:
            return self.write
        known: dict[str, Any] = {"pack": self._codec.pack, "write": self.write}
        values, fits = [], []
        for name, field in self.fields.items():
            value = f"value.{name}"
            if _is_plain_bytes(field):
                fits.append(f"len({value}) == {field.bits // BITS_PER_BYTE}")
            elif field.count and _is_plain_number(field):
                known[f"pack_{name}"] = _items(field, self.order).pack
                value = f"pack_{name}(*{value})"
            elif not _is_plain_number(field):
                return self.write
            values.append(value)
        packed = f"pack({', '.join(values)})"
        source = f"lambda value: {packed} if {' and '.join(fits)} else write(value)" if fits else None
        pack: Callable[[object], bytes] = eval(source or f"lambda value: {packed}", known)  # noqa: S307
        return pack

    def variable_mask(self) -> bytes:
        """Return a mask of the header's size, with ones at the bits that a switch may change on the way."""
        whole = sum(
            ((1 << place.width_bits) - 1) << self._lowest(place)
            for place in self.places
            if place.field.may_change
        )
        return whole.to_bytes(self.size, self.order)


class WireHeader:
    """A header as a value; a dataclass below this one declares its fields."""

    __slots__ = ()

    HEADER: ClassVar[Header]
    """The declaration."""
    SIZE: ClassVar[int]
    """Bytes on the wire."""

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Read the header at the start of `data`; what follows it is not looked at.

        Raises:  WireError: the data end inside it. No value of the fields is refused.
        """
        header = cls.HEADER
        return cls(**dict(zip(header.names, header.unpack(data), strict=True)))

    def build(self) -> bytes:
        """Return the bytes of the header.

        Raises:  ValueError: a value does not fit its field.
        """
        return self.HEADER.pack(self)


def annotated(cls: type) -> dict[str, Field]:
    """Return the fields that the attributes of a dataclass are annotated with, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        item.name: note
        for item in dataclasses.fields(cls)
        for note in getattr(hints[item.name], "__metadata__", ())
        if isinstance(note, Field)
    }


def declared(
    name: str, title: str, order: Order, *, source: str = "", names_itself: bool = False
) -> Callable[[type[T]], type[T]]:
    """Make the declaration of a dataclass whose attributes are annotated with `Field`; see `Header`."""

    def declare(cls: type[T]) -> type[T]:
        cls.HEADER = Header(
            name,
            title,
            order,
            annotated(cls),
            module=cls.__module__,
            source=source,
            names_itself=names_itself,
        )
        cls.SIZE = cls.HEADER.size
        return cls

    return declare


def _is_plain_bytes(field: Field) -> bool:
    """Return whether struct takes and gives the value of a field as bytes, without a conversion."""
    return not field.count and field.record is None and field.shown in (Shown.BYTES, Shown.MAC)


def _is_plain_number(field: Field) -> bool:
    """Return whether struct has a number of this width; it may be repeated."""
    is_bytes = field.shown in (Shown.BYTES, Shown.MAC)
    return field.record is None and not is_bytes and field.bits in _LETTERS


def _items(field: Field, order: Order) -> struct.Struct:
    """Return the struct of a field of several plain numbers."""
    letter = _LETTERS[field.bits]
    letter = letter.lower() if field.signed else letter
    return struct.Struct(f"{'>' if order == 'big' else '<'}{field.count}{letter}")


def _reader(field: Field, order: Order) -> Callable[[bytes], Any] | None:
    """Return what makes the value of a field of what struct gives; None where that is the value."""
    if _is_plain_bytes(field) or (_is_plain_number(field) and not field.count):
        return None
    if _is_plain_number(field):
        return _items(field, order).unpack
    return functools.partial(field.from_bytes, order=order)


def _place(header: str, fields: Mapping[str, Field]) -> tuple[Place, ...]:
    """Return the places of the fields in wire order."""
    places = [place for name, field in fields.items() for place in _claimed(name, field)]
    taken = {
        bit for place in places for bit in range(place.offset_bits, place.offset_bits + place.width_bits)
    }
    bit = 0
    for name, field in fields.items():
        if field.at is None and field.split is None:
            while bit in taken:
                bit += 1
            places.append(Place(name, name, field, bit, field.width))
            bit += field.width
    places.sort(key=lambda place: place.offset_bits)
    end = 0
    for place in places:
        if place.offset_bits != end:
            begins = f"{place.name} begins at bit {place.offset_bits}"
            raise ValueError(f"{header}: {begins}, the fields before it end at bit {end}")
        end += place.width_bits
    if end % BITS_PER_BYTE:
        raise ValueError(f"{header}: its fields add up to {end} bits, not to whole bytes")
    return tuple(places)


def _claimed(name: str, field: Field) -> Iterable[Place]:
    """Yield the places of a field that declares its own position."""
    if field.split is not None:
        (low, low_width), (high, high_width) = field.split
        if low_width + high_width != field.bits:
            raise ValueError(f"{name} has {field.bits} bits, its places have {low_width} and {high_width}")
        yield Place(f"{name}_low", name, field, low, low_width)
        yield Place(f"{name}_high", name, field, high, high_width, low_width)
    elif field.at is not None:
        yield Place(name, name, field, field.at, field.width)


def _codec(order: Order, places: Iterable[Place]) -> struct.Struct | None:
    """Return the struct of a header whose fields are whole bytes in declaration order; None for any other header."""
    letters = []
    for place in places:
        field = place.field
        if (
            field.at is not None
            or place.offset_bits % BITS_PER_BYTE
            or place.width_bits % BITS_PER_BYTE
            or field.split
        ):
            return None
        letter = _LETTERS.get(field.bits) if field.is_number else None
        letters.append(f"{place.size}s" if letter is None else letter.lower() if field.signed else letter)
    return struct.Struct((">" if order == "big" else "<") + "".join(letters))
