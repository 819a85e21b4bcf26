"""What records of subnet administration have in common: components, and which records a request asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import WireHeader


def gid(meaning: str) -> Field:
    """Declare a GID."""
    return Field(128, meaning, BYTES)


def reserved(bits: int) -> Field:
    """Declare reserved bits."""
    return Field(bits, "0", HEX)


def inside(size: int, meaning: str) -> Field:
    """Declare an attribute of `size` bytes, or a table, inside of a record."""
    return Field(size * 8, meaning, BYTES)


class SaRecord(WireHeader):
    """A record; a dataclass below this one declares its fields."""

    __slots__ = ()

    IB: ClassVar[bool] = False
    """Whether it is InfiniBand's form of the record, for class version 2."""
    COMPONENTS: ClassVar[tuple[str, ...]] = ()
    """The field that each bit of the component mask stands for; empty: a bit that selects nothing.

    A field of an attribute inside the record is `node_info.node_type`; see `INSIDE`.
    """
    INSIDE: ClassVar[dict[str, type[WireHeader]]] = {}
    """The attributes inside the record, by the field that holds their bytes."""

    @classmethod
    def mask(cls, *components: str) -> int:
        """Return the component mask that names some fields.

        Raises:  ValueError: a field that has no component of its own.
        """
        return sum(1 << cls.COMPONENTS.index(name) for name in dict.fromkeys(components))

    @classmethod
    def names(cls, mask: int) -> set[str]:
        """Return the fields that a component mask names."""
        return {name for bit, name in enumerate(cls.COMPONENTS) if name and mask >> bit & 1}

    @classmethod
    def selects(cls, asked: bytes, mask: int) -> Callable[[SaRecord], bool]:
        """Return what says of a record whether the components in `mask` are those of `asked`, the bytes of a record.

        Bits that stand for nothing select nothing; what is missing of `asked` is 0.
        """
        bits = sum(_ones(cls, name) for name in cls.names(mask))
        wanted = int.from_bytes(asked[: cls.SIZE].ljust(cls.SIZE, b"\0")) & bits
        return lambda record: not bits or int.from_bytes(record.build()) & bits == wanted


def _ones(kind: type[SaRecord], name: str) -> int:
    """Return a record, taken as one number, with ones in a component and zeros elsewhere."""
    outer, _, inner = name.partition(".")
    place = kind.HEADER.place(outer)
    offset, width = place.offset_bits, place.width_bits
    if inner:
        within = kind.INSIDE[outer].HEADER.place(inner)
        offset, width = offset + within.offset_bits, within.width_bits
    return ((1 << width) - 1) << kind.HEADER.bits - offset - width
