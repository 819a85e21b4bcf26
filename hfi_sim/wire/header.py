"""How a header is declared: once, as a dataclass, in the order of its document.

    @declared("ethernet_l4", "Ethernet L4 header", "little", source="seed 000, quad word 2 of the packet table")
    @dataclass(frozen=True, slots=True)
    class EthernetL4(WireHeader):
        reserved: Annotated[int, Field(16, "0; given on as received", HEX)] = 0
        vesw_id: Annotated[int, Field(16, "virtual Ethernet switch id, 12 bits used")] = 0

Fields follow each other and skip the bits that another field claims with `at` or `split`. Bits are counted in wire
order: from the least significant bit in little-endian headers, from the most significant bit in big-endian ones.

`parse` and `build` are compiled from the declaration (`hfi_sim.wire.codec`). The reference codec is `Header.construct`,
which `Header.read` and `Header.write` use; tests/unit/test_wire_formats.py checks every header against it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Self, TypeVar, get_type_hints

from hfi_sim.base.errors import WireError
from hfi_sim.wire.codec import Codec
from hfi_sim.wire.field import BITS_PER_BYTE, BYTES, Field, Order, Place

WireBytes = bytes | bytearray | memoryview
T = TypeVar("T")
Declared = TypeVar("Declared", bound="WireHeader")

_MISFITS: Final = (struct.error, TypeError, ValueError, OverflowError)
"""What the fast codec raises for values that do not fit."""


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
        within: str = "",
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Place the fields.

        Args:    name: what a `WireError` calls the header. title: what people call it. module: where it is declared.
                 source: the document that defines it. names_itself: the error of a value that does not fit
                 begins with `name`. within: the messages that it is part of; the error of data that end inside the
                 header gives the path from there: "FUSE request -> fuse_read_in -> size". defaults: values of fields
                 that need not be given, to build a header.
        Raises:  ValueError: fields overlap, leave a gap, or do not end with a byte.
        """
        self.name = name
        self.title = title
        self.order: Final = order
        self.fields: Final = dict(fields)
        self.source = source
        self.module = module
        self.names_itself = names_itself
        self.within = within
        self.places: Final = _place(name, self.fields)
        self.bits: Final = sum(place.width_bits for place in self.places)
        self.size: Final = self.bits // BITS_PER_BYTE
        """Bytes of the header."""
        self.names: Final = tuple(self.fields)
        self.defaults: Final = dict(defaults or {})
        """The values of fields that need not be given, to build a header."""

    @cached_property
    def construct(self) -> Any:
        """The header as a construct, to build and parse by hand; see `hfi_sim.wire.constructs`."""
        from hfi_sim.wire.constructs import construct_of  # only then is construct imported

        return construct_of(self.fields, self.places, self.order, self.defaults)

    @cached_property
    def _codec(self) -> Codec:
        return Codec(self.fields, self.places, self.order)

    @property
    def codec(self) -> struct.Struct:
        """The struct of all fields in order, for codecs by hand.

        Raises:  ValueError: a field is not of whole bytes, or stands elsewhere than in the order of declaration.
        """
        if not self._codec.is_in_order:
            raise ValueError(f"{self.name} has fields that struct cannot read in their order")
        return self._codec.struct

    def place(self, name: str) -> Place:
        """Return where a field stands; of a split one, `slid_low` or `slid_high`."""
        return next(place for place in self.places if place.name == name)

    def check_size(self, data: WireBytes) -> None:
        """Check that `data` hold a whole header. Raises: WireError: they end inside it."""
        if len(data) < self.size:
            bits = len(data) * BITS_PER_BYTE
            cut = next(place.name for place in self.places if place.offset_bits + place.width_bits > bits)
            path = f"{self.within} -> {self.name} -> {cut}" if self.within else self.name
            raise WireError(path, len(data), f"{len(data)} bytes, the {self.title} needs {self.size}")

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

    # The reference codec: construct.

    def read(self, data: WireBytes) -> dict[str, Any]:
        """Return the values of the header at the start of `data`.

        Raises:  WireError: the data end inside it.
        """
        from hfi_sim.wire.constructs import values_of

        self.check_size(data)
        found = values_of(self.construct.parse(bytes(data[: self.size])))
        return {name: found[name] for name in self.names}

    def write(self, values: Any) -> bytes:
        """Return the bytes of `values`, an object or a mapping.

        Raises:  ValueError: a value does not fit its field.
        """
        if self.faults(values):
            raise self.misfit(values)
        get = values.__getitem__ if isinstance(values, Mapping) else lambda name: getattr(values, name)
        return bytes(self.construct.build({name: get(name) for name in self.names}))

    # The fast codec: struct, and shifts within its words.

    @cached_property
    def _unpack(self) -> Callable[..., tuple[Any, ...]]:
        if self._codec.is_plain:
            return self._codec.struct.unpack_from
        return self._codec.reader("".join(f"{{{name}}}, " for name in self.names).join("()"))

    @cached_property
    def _make(self) -> Callable[[WireBytes, Callable[..., T]], T]:
        return self._codec.reader(f"made({', '.join(f'{name}={{{name}}}' for name in self.names)})")

    @cached_property
    def _pack(self) -> Callable[[Any], bytes]:
        return self._codec.writer("value.{}")

    @cached_property
    def _pack_values(self) -> Callable[[Any], bytes]:
        return self._codec.writer("value['{}']")

    @cached_property
    def _build(self) -> Callable[..., bytes]:
        names = (f"{name}={self.defaults[name]!r}" if name in self.defaults else name for name in self.names)
        return self._codec.writer("{}", f"*, {', '.join(names)}")

    def unpack(self, data: WireBytes) -> tuple[Any, ...]:
        """Return the values in the order of the fields; the same values as `read`, but faster."""
        try:
            return self._unpack(data)
        except struct.error:
            self.check_size(data)
            raise

    def parse(self, data: WireBytes) -> Any:
        """Return the values as attributes, for headers without a class.

        Raises:  WireError: the data end inside the header.
        """
        return self.make(SimpleNamespace, data)

    def unpack_all(self, data: bytes) -> Iterable[tuple[Any, ...]]:
        """Yield what `unpack` returns of each header, where whole ones follow each other."""
        if self._codec.is_plain:
            return self._codec.struct.iter_unpack(data)
        return (self.unpack(data[at:]) for at in range(0, len(data), self.size))

    def make(self, made: Callable[..., T], data: WireBytes) -> T:
        """Return what `made` returns for the values, given by name.

        Raises:  WireError: the data end inside the header.
        """
        try:
            return self._make(data, made)
        except struct.error:
            self.check_size(data)
            raise

    def pack(self, value: object) -> bytes:
        """Return the bytes of an object; the same as `write`, but faster."""
        try:
            return self._pack(value)
        except _MISFITS:
            raise self.misfit(value) from None

    def pack_values(self, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of values by name, as `pack` does."""
        try:
            return self._pack_values(values)
        except _MISFITS:
            raise self.misfit(values) from None

    def build(self, **values: Any) -> bytes:
        """Return the bytes of values by name; those left out have their default.

        Raises:  ValueError: a value does not fit its field, has no field, or is left out without a default.
        """
        try:
            return self._build(**values)
        except _MISFITS:
            raise self.misfit(dict.fromkeys(self.names) | self.defaults | values) from None

    def variable_mask(self) -> bytes:
        """Return a mask of the header's size, with ones at the bits that a switch may change on the way."""
        changing = [place for place in self.places if place.field.may_change]
        whole = sum((1 << place.width_bits) - 1 << self._lowest(place) for place in changing)
        return whole.to_bytes(self.size, self.order)

    def _lowest(self, place: Place) -> int:
        """Return the bit of the header, taken as one number, that the lowest of a place is."""
        if self.order == "little":
            return place.offset_bits
        return self.bits - place.offset_bits - place.width_bits


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
        return cls.HEADER.make(cls, data)

    def build(self) -> bytes:
        """Return the bytes of the header. Raises: ValueError: a value does not fit its field."""
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
) -> Callable[[type[Declared]], type[Declared]]:
    """Make the declaration of a dataclass whose attributes are annotated with `Field`; see `Header`."""

    def declare(cls: type[Declared]) -> type[Declared]:
        cls.HEADER = Header(
            name,
            title,
            order,
            annotated(cls),
            module=cls.__module__,
            source=source,
            names_itself=names_itself,
            defaults={
                item.name: item.default
                for item in dataclasses.fields(cls)  # type: ignore[arg-type]
                if item.default is not dataclasses.MISSING
            },
        )
        cls.SIZE = cls.HEADER.size
        return cls

    return declare


def layout(name: str, title: str, fields: Mapping[str, Field], *, module: str, source: str) -> Header:
    """Declare a big-endian header without a class; to build it, fields that are left out are 0."""
    zeros = {field: item.zero for field, item in fields.items()}
    return Header(name, title, "big", fields, module=module, source=source, names_itself=True, defaults=zeros)


def structure(name: str, fields: str, order: Order, module: str, *, within: str = "") -> Header:
    """Declare a structure of a public C header as it stands there; to build it, fields that are left out are 0.

    Args:  fields: `u64 fh; u32 size, flags; s32 error; u8 gid[16]`; several u8 are bytes. within: see `Header`.
    """
    declared = dict[str, Field]()
    for kind, names in (group.split(maxsplit=1) for group in fields.split(";")):
        bits, signed = int(kind[1:]), kind[0] == "s"
        for one in names.split(","):
            field, _, count = one.strip(" ]").partition("[")
            if bits == BITS_PER_BYTE and count:
                declared[field] = Field(bits * int(count), "", BYTES)
            else:
                declared[field] = Field(bits, "", signed=signed, count=int(count or 0))
    zeros = {field: item.zero for field, item in declared.items()}
    return Header(name, name, order, declared, module=module, within=within, defaults=zeros)


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
