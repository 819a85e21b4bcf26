"""A declared header as a `construct`: the reference codec, and a format for people who build or probe MADs.

    from vema.attributes.vesw_port_info import VeswPortInfo
    VeswPortInfo.HEADER.construct.build({"vesw_id": 2, "pkey": 0x8002})     # the rest has its default
    VeswPortInfo.HEADER.construct.parse(data).pkey

A header of whole bytes is a Struct. Where fields share a byte, the header is a BitStruct. construct counts bits from
the most significant one, so a little-endian header is a ByteSwapped BitStruct with its fields in reverse order. A split
field also has its two parts, `slid_low` and `slid_high`; to build, give the whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from construct import (
    Array,
    BitsInteger,
    BitStruct,
    Bytes,
    BytesInteger,
    ByteSwapped,
    Bytewise,
    Computed,
    Container,
    Default,
    Flag,
    Hex,
    ListContainer,
    Rebuild,
    Struct,
)

from hfi_sim.wire.field import BITS_PER_BYTE, Field, Order, Place, Shown


def construct_of(
    fields: Mapping[str, Field], places: Sequence[Place], order: Order, defaults: Mapping[str, Any]
) -> Any:
    """Return the construct of a header."""
    if all(_is_whole(place) for place in places):
        return Struct(*(_named(defaults, place, _bytes(place.field, order)) for place in places))
    ordered = places if order == "big" else places[::-1]
    bits = [_named(defaults, place, _bits(place, order)) for place in ordered]
    wholes = [
        name / Computed(_joined([place for place in ordered if place.field_name == name]))
        for name, field in fields.items()
        if field.split is not None
    ]
    whole = BitStruct(*bits, *wholes)
    return whole if order == "big" else ByteSwapped(whole)


def values_of(parsed: Any) -> Any:
    """Return what construct has parsed as the values of our headers: dicts, tuples, plain numbers."""
    if isinstance(parsed, Container):
        return {name: values_of(value) for name, value in parsed.items() if not name.startswith("_")}
    if isinstance(parsed, ListContainer):
        return tuple(map(values_of, parsed))
    return parsed


def _is_whole(place: Place) -> bool:
    """Return whether a place is a field of whole bytes."""
    return place.field.split is None and not (place.offset_bits | place.width_bits) % BITS_PER_BYTE


def _named(defaults: Mapping[str, Any], place: Place, form: Any) -> Any:
    """Return the construct of a field with its name, meaning and default."""
    if place.field.split is None and place.name in defaults:
        form = Default(form, defaults[place.name])
    return place.name / form * place.meaning


def _bytes(field: Field, order: Order) -> Any:
    """Return the construct of a field of whole bytes."""
    item: Any = BytesInteger(field.bits // BITS_PER_BYTE, field.signed, swapped=order == "little")
    if field.record is not None:
        item = field.record.construct
    elif field.shown in (Shown.BYTES, Shown.MAC):
        item = Bytes(field.bits // BITS_PER_BYTE)
    elif field.shown is Shown.HEX:
        item = Hex(item)
    return Array(field.count, item) if field.count else item


def _bits(place: Place, order: Order) -> Any:
    """Return the construct of a place among bits whose most significant one comes first."""
    field = place.field
    if _is_whole(place):
        form = _bytes(field, order)
        return Bytewise(form if order == "big" else ByteSwapped(form))
    if field.shown is Shown.FLAG:
        return Flag
    number = BitsInteger(place.width_bits, signed=field.signed)
    if field.split is not None:
        return Rebuild(number, _part(place))
    return number


def _joined(parts: list[Place]) -> Callable[[Any], int]:
    return lambda found: sum(found[part.name] << part.shift for part in parts)


def _part(place: Place) -> Callable[[Any], int]:
    """Return what takes a part out of a split field; of the upper one it leaves what does not fit, to be refused."""
    ones = -1 if place.shift else (1 << place.width_bits) - 1
    return lambda given: given[place.field_name] >> place.shift & ones
