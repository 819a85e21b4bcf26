"""What scapy layers are made of, from the declarations: rows of plain values, which a file of layers can also hold.

The row of a field is the name of scapy's class and its arguments: `("XShortField", "pkey", 0xFFFF)`. Fields that name
another layer, or another field, have a word of ours in front:

    ("record", name, layer)                    an attribute within this one
    ("records", name, layer, count)            a fixed number of them
    ("array", name, values, item row)          a fixed number of numbers
    ("list", name, count field, layer, most)   as many as another field says; layer None: MAC addresses
    ("count", name, list field)                that other field
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hfi_sim.wire.field import BITS_PER_BYTE, Code, Field, Place, Shown
from hfi_sim.wire.header import Header
from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method, RmppHeader, VendorHeader
from hfi_sim.wire.mad.smp_header import DirectedHeader, IbDirectedHeader, LidRoutedHeader
from hfi_sim.wire.sa.message import SaHeader
from opavnic.decode.meanings import ATTRIBUTES
from opavnic.management.management_attributes import (
    ADMINISTRATION,
    ADMINISTRATION_IB,
    PERFORMANCE,
    SUBNET,
    SUBNET_IB,
    Kind,
)
from vema.attributes.attr_id import VALUE_KINDS, Value

Row = tuple[Any, ...]

TABLES: Final[Mapping[str, Mapping[int, Kind]]] = {
    "SUBNET": SUBNET,
    "SUBNET_IB": SUBNET_IB,
    "ADMINISTRATION": ADMINISTRATION,
    "ADMINISTRATION_IB": ADMINISTRATION_IB,
}
"""Attributes by their number, in the order that dissectors have."""
_LISTS: Final = {"entries": "num_entries", "macs": "num_macs"}
"""Lists whose length another field holds."""
_NAMES: Final = {8: "ByteField", 16: "ShortField", 32: "IntField", 64: "LongField"}


def layout(kind: type[Value]) -> Header:
    """Return the declaration of a whole attribute of Ethernet management; a list has as many items as fit."""
    declared: Header = getattr(kind, "LAYOUT", kind.HEADER)
    return declared


def kinds_by_name(headers: Iterable[Header], name: Callable[[Header], str]) -> dict[str, Kind]:
    """Return the layout of every attribute by its name, each behind those that stand in it.

    Args:  headers: come before the attributes of TABLES and PERFORMANCE. name: of a header; the first of a name counts.
    """
    kinds: dict[str, Kind] = {}

    def collect(kind: Kind) -> None:
        within = [field.record for field in kind.header.fields.values() if field.record is not None]
        for header in (*within, *kind.inside.values()):
            collect(Kind(header, header.size))
        kinds.setdefault(name(kind.header), kind)

    for header in headers:
        collect(Kind(header, header.size))
    for numbers in TABLES.values():
        for kind in numbers.values():
            collect(kind)
    for counters in PERFORMANCE.values():
        for header in filter(None, counters.parts):
            collect(Kind(header, header.size))
    return kinds


def attribute_layers() -> dict[str, Kind]:
    """Return the attribute behind each layer, those within another one before it."""
    return kinds_by_name(_ethernet().values(), layer_name)


def layer_name(header: Header) -> str:
    """Return the name of the layer of an attribute: `OPAPortInfo`."""
    words = re.split(r"[ _-]", header.name.removeprefix("pm_"))
    return "OPA" + "".join(word[:1].upper() + word[1:] for word in words)


def field_rows(
    header: Header,
    prefix: str = "",
    defaults: Mapping[str, Any] | None = None,
    inside: Mapping[str, Header] | None = None,
) -> list[Row]:
    """Return the rows of a header's fields.

    Args:  prefix: of the fields' names. defaults: other ones than the declaration's. inside: attributes within it.
    """
    return [_row(prefix, header, place, defaults or {}, inside or {}) for place in header.places]


def layer_rows() -> dict[str, Any]:
    """Return what `opavnic.observe.opa_scapy` makes its layers of: codes, headers, attributes and tables."""
    kinds = attribute_layers()
    tables: dict[str, dict[int, Any]] = {
        "ETHERNET": {number: layer_name(header) for number, header in _ethernet().items()}
    }
    for name, numbers in TABLES.items():
        tables[name] = {
            int(number): (layer_name(kind.header), kind.stride) for number, kind in numbers.items()
        }
    tables["COUNTERS"] = {
        int(number): tuple(layer_name(part) if part else None for part in kind.parts)
        for number, kind in PERFORMANCE.items()
    }
    return {
        "codes": {
            "L4_TYPES": _codes(L4),
            "CLASSES": _codes(MadClass),
            "METHODS": _codes(Method),
            "ATTRIBUTES": {
                int(kind): _codes(ids) for kind, ids in ATTRIBUTES.items() if kind in set(MadClass)
            },
        },
        "places": {
            name: [
                (place.offset_bits, place.width_bits, place.shift)
                for place in Lrh16B.HEADER.places
                if place.field_name == name
            ]
            for name in Lrh16B.HEADER.names
        },
        "variable_mask": int.from_bytes(Lrh16B.HEADER.variable_mask(), "little"),
        "headers": {
            "lrh16b": [
                _number(name, field, _default(Lrh16B.HEADER, name, {"length_qw": None}))
                for name, field in Lrh16B.HEADER.fields.items()
            ],
            "ethernet-l4": field_rows(EthernetL4.HEADER),
            "fm": field_rows(FmHeader.HEADER, defaults={"dest_qp": 1, "src_qp": 1}),
            "mad": field_rows(
                MadHeader.HEADER, defaults={"mgmt_class": MadClass.EMA, "method": Method.GET, "attr_id": None}
            ),
            "vendor": field_rows(RmppHeader.HEADER, "rmpp_") + field_rows(VendorHeader.HEADER),
            "smp": field_rows(LidRoutedHeader.HEADER),
            "directed-smp": field_rows(DirectedHeader.HEADER),
            "ib-directed-smp": field_rows(IbDirectedHeader.HEADER),
            "sa": field_rows(RmppHeader.HEADER, "rmpp_") + field_rows(SaHeader.HEADER, "sa_"),
        },
        "attributes": {
            name: (kind.header.title, _size(kind.header), field_rows(kind.header, inside=kind.inside))
            for name, kind in kinds.items()
        },
        "tables": tables,
    }


def _ethernet() -> dict[int, Header]:
    """Return the attributes of Ethernet management; lists with as many items as fit."""
    return {int(number): layout(kind) for number, kind in VALUE_KINDS.items()}


def _size(header: Header) -> int:
    """Return the bytes of an attribute without its list."""
    if not _is_list(header):
        return header.size
    return sum(place.size for place in header.places if place.name not in _LISTS)


def _is_list(header: Header) -> bool:
    return any(name in _LISTS and _LISTS[name] in header.fields for name in header.fields)


def _row(
    prefix: str, header: Header, place: Place, defaults: Mapping[str, Any], inside: Mapping[str, Header]
) -> Row:
    field, own = place.field, place.name
    name = own if own.startswith(prefix) else prefix + own
    default = _default(header, own, defaults)
    if own in _LISTS and _is_list(header):
        item = None if field.record is None else layer_name(field.record)
        return ("list", name, _LISTS[own], item, field.count)
    if own in _LISTS.values() and _is_list(header):
        return ("count", name, next(item for item, count in _LISTS.items() if count == own))
    if own in inside:
        return ("record", name, layer_name(inside[own]))
    if field.record is not None:
        return ("records", name, layer_name(field.record), field.count)
    if field.count:
        values = list(default) if default and any(default) else [0] * field.count
        return ("array", name, values, _number("", field, 0))
    if field.shown is Shown.MAC:
        return ("MACField", name, "00:00:00:00:00:00")
    if not field.is_number:
        size = field.bits // BITS_PER_BYTE
        return ("XStrFixedLenField", name, default if default and any(default) else bytes(size), size)
    return _number(name, field, default, little=header.order == "little", at=place.offset_bits)


def _default(header: Header, name: str, defaults: Mapping[str, Any]) -> Any:
    return defaults[name] if name in defaults else header.defaults.get(name, 0)


def _number(name: str, field: Field, default: Any, *, little: bool = False, at: int = 0) -> Row:
    """Return the row of a number. Args: at: its first bit in the header."""
    kind = None if at % BITS_PER_BYTE else _NAMES.get(field.bits)
    if field.texts:
        plain = kind.replace("Field", "EnumField") if kind else "BitEnumField"
    else:
        plain = ("X" if field.shown is Shown.HEX else "") + ("LE" if little else "") + (kind or "BitField")
    bits = () if kind else (field.bits,)
    texts = (_texts(field.texts),) if field.texts else ()
    return (plain, name, None if default is None else int(default), *bits, *texts)


def _texts(texts: Mapping[int, str]) -> dict[int, str]:
    return {int(value): str(text) for value, text in texts.items()}


def _codes(codes: type[Code]) -> dict[int, str]:
    return _texts({int(code): code.text for code in codes})
