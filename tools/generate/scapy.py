"""The scapy layers that are made from declarations: the fields of each layer, and which attribute has which layer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ejfat.wire import headers as ejfat
from hfi_sim.wire.field import BITS_PER_BYTE, Code, Field, Place, Shown
from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.l4 import L4, EthernetL4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.attributes import PmAttrId, SubnetAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method, RmppHeader, VendorHeader
from hfi_sim.wire.mad.sa_attributes import SaAttrId
from hfi_sim.wire.mad.smp_header import DirectedHeader, IbDirectedHeader, LidRoutedHeader
from hfi_sim.wire.sa.message import SaHeader
from opavnic.management.management_attributes import PERFORMANCE, Kind
from tools.generate.ema import layout
from tools.generate.management import TABLES, kinds_by_name
from tools.generate.origins import origin
from tools.generate.sections import Section, fill
from vema.attributes.attr_id import VALUE_KINDS, AttrId

OPA: Final = "opavnic/observe/opa_scapy.py"
EJFAT: Final = "ejfat/wire/layers.py"
ETHERNET: Final[Mapping[int, Header]] = {number: layout(kind) for number, kind in VALUE_KINDS.items()}
"""The attributes of Ethernet management; lists with as many items as fit."""
_LISTS: Final = {"entries": "num_entries", "macs": "num_macs"}
"""Lists whose length another field holds."""
_NAMES: Final = {8: "ByteField", 16: "ShortField", 32: "IntField", 64: "LongField"}
_TEXTS: Final = {"L4_TYPES": L4, "CLASSES": MadClass, "METHODS": Method}
_ATTRIBUTES: Final[Mapping[MadClass, type[Code]]] = {
    MadClass.EMA: AttrId,
    MadClass.SUBN_LID: SubnetAttrId,
    MadClass.SUBN_DIRECTED: SubnetAttrId,
    MadClass.SUBN_ADM: SaAttrId,
    MadClass.PERFORMANCE: PmAttrId,
}


def modules(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules of layers with their sections made anew."""
    for path, sections in ((OPA, _opa()), (EJFAT, _ejfat())):
        yield path, formatted(fill(root / path, sections))


def formatted(source: str) -> str:
    """Return Python as `make format` leaves it."""
    command = [sys.executable, "-m", "ruff", "format", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def _opa() -> dict[str, Section]:
    mad = {"mgmt_class": MadClass.EMA, "method": Method.GET, "attr_id": None}
    headers: dict[str, list[tuple[str, Header]]] = {
        "ethernet-l4": [("", EthernetL4.HEADER)],
        "fm": [("", FmHeader.HEADER)],
        "mad": [("", MadHeader.HEADER)],
        "vendor": [("rmpp_", RmppHeader.HEADER), ("", VendorHeader.HEADER)],
        "smp": [("", LidRoutedHeader.HEADER)],
        "directed-smp": [("", DirectedHeader.HEADER)],
        "ib-directed-smp": [("", IbDirectedHeader.HEADER)],
        "sa": [("rmpp_", RmppHeader.HEADER), ("sa_", SaHeader.HEADER)],
    }
    defaults: dict[str, dict[str, Any]] = {"mad": mad, "fm": {"dest_qp": 1, "src_qp": 1}}
    sections = {
        name: _section(_fields(parts, defaults.get(name, {})), *(header for _, header in parts))
        for name, parts in headers.items()
    }
    return sections | {"lrh16b": _lrh16b(), "codes": _codes(), "attributes": _attributes()}


def _ejfat() -> dict[str, Section]:
    named: dict[str, type[WireHeader]] = {
        "lb-v1": ejfat.LbHeaderV1, "lb-v2": ejfat.LbHeaderV2, "lb-v3": ejfat.LbHeaderV3,
        "segment": ejfat.SegmentHeader, "re": ejfat.ReHeader, "sync": ejfat.SyncHeader,
    }  # fmt: skip
    return {name: _section(_fields([("", kind.HEADER)]), kind.HEADER) for name, kind in named.items()}


def _section(fields: str, *headers: Header) -> Section:
    return Section(f"    fields_desc = [{fields}]\n", origin(*headers))


def _lrh16b() -> Section:
    header = Lrh16B.HEADER
    places = {
        name: [
            (place.offset_bits, place.width_bits, place.shift)
            for place in header.places
            if place.field_name == name
        ]
        for name in header.names
    }
    fields = ", ".join(
        _number(name, field, _default(header, name, {"length_qw": None}))
        for name, field in header.fields.items()
    )
    mask = int.from_bytes(header.variable_mask(), "little")
    text = f"    places = {places!r}\n    variable_mask = {mask:#x}\n    header_fields = [{fields}]\n"
    return Section(text, origin(header))


def _codes() -> Section:
    lines = [f"{name} = {_texts({int(code): code.text for code in codes})}" for name, codes in _TEXTS.items()]
    attributes = {int(kind): {int(item): item.text for item in ids} for kind, ids in _ATTRIBUTES.items()}
    lines.append(
        f"ATTRIBUTES = {{{', '.join(f'{kind:#x}: {_texts(ids)}' for kind, ids in attributes.items())}}}"
    )
    return Section(
        "\n".join(lines) + "\n",
        "hfi_sim/wire/mad/attributes.py, hfi_sim/wire/mad/header.py, hfi_sim/wire/l4.py",
    )


def attribute_layers() -> dict[str, Kind]:
    """Return the attribute behind each layer, those within another one before it."""
    return kinds_by_name(ETHERNET.values(), class_name)


def _attributes() -> Section:
    kinds = attribute_layers()
    lines = []
    for name, kind in kinds.items():
        fields = _fields([("", kind.header)], inside=kind.inside)
        lines += [
            f"class {name}(OPAAttribute):",
            f'    """{kind.header.title}, {_size(kind.header)} bytes."""',
            f"    name = {kind.header.title!r}",
            f"    size = {_size(kind.header)}",
            f"    fields_desc = [{fields}]",
        ]
    lines.append(_table("ETHERNET", {number: class_name(header) for number, header in ETHERNET.items()}))
    for table, numbers in TABLES.items():
        rows = {number: f"({class_name(kind.header)}, {kind.stride})" for number, kind in numbers.items()}
        lines.append(_table(table, rows))
    rows = {
        number: ", ".join(class_name(part) if part else "None" for part in kind.parts)
        for number, kind in PERFORMANCE.items()
    }
    lines.append(_table("COUNTERS", {number: f"({row})" for number, row in rows.items()}))
    return Section("\n".join(lines) + "\n", origin(*(kind.header for kind in kinds.values())))


def _table(name: str, rows: Mapping[int, str]) -> str:
    return (
        f"{name}: dict[int, Any] = {{{', '.join(f'{number:#04x}: {row}' for number, row in rows.items())}}}"
    )


def class_name(header: Header) -> str:
    """Return the name of the layer of an attribute: `OPAPortInfo`."""
    words = re.split(r"[ _-]", header.name.removeprefix("pm_"))
    return "OPA" + "".join(word[:1].upper() + word[1:] for word in words)


def _size(header: Header) -> int:
    """Return the bytes of an attribute without its list."""
    return (
        sum(place.size for place in header.places if place.name not in _LISTS)
        if _is_list(header)
        else header.size
    )


def _is_list(header: Header) -> bool:
    return any(name in _LISTS and _LISTS[name] in header.fields for name in header.fields)


def _fields(
    parts: Iterable[tuple[str, Header]],
    defaults: Mapping[str, Any] | None = None,
    inside: Mapping[str, Header] | None = None,
) -> str:
    """Return the scapy fields of headers that follow each other. Args: parts: a prefix for the names, and a header."""
    return ", ".join(
        _field(prefix, header, place, defaults or {}, inside or {})
        for prefix, header in parts
        for place in header.places
    )


def _field(
    prefix: str, header: Header, place: Place, defaults: Mapping[str, Any], inside: Mapping[str, Header]
) -> str:
    field, own = place.field, place.name
    name = own if own.startswith(prefix) else prefix + own
    default = _default(header, own, defaults)
    if own in _LISTS and _is_list(header):
        how = f"count_from=lambda pkt: list_length(pkt, pkt.{_LISTS[own]}), max_count={field.count}"
        if field.record is not None:
            return f'PacketListField("{name}", [], {class_name(field.record)}, {how})'
        return f'FieldListField("{name}", [], MACField("", None), {how})'
    if own in _LISTS.values() and _is_list(header):
        listed = next(item for item, count in _LISTS.items() if count == own)
        return f'FieldLenField("{name}", None, count_of="{listed}", fmt="!H")'
    if own in inside:
        return f'PacketField("{name}", {class_name(inside[own])}(), {class_name(inside[own])})'
    if field.record is not None:
        record = class_name(field.record)
        count = f"count_from=lambda pkt: {field.count}, max_count={field.count}"
        return f'PacketListField("{name}", [{record}() for _ in range({field.count})], {record}, {count})'
    if field.count:
        item = _number("", field, 0)
        default = repr(list(default)) if default and any(default) else f"[0] * {field.count}"
        count = f"count_from=lambda pkt: {field.count}, max_count={field.count}"
        return f'FieldListField("{name}", {default}, {item}, {count})'
    if field.shown is Shown.MAC:
        return f'MACField("{name}", "00:00:00:00:00:00")'
    if not field.is_number:
        size = field.bits // BITS_PER_BYTE
        return (
            f'XStrFixedLenField("{name}", {default!r}, {size})'
            if default and any(default)
            else (f'XStrFixedLenField("{name}", bytes({size}), {size})')
        )
    return _number(name, field, default, little=header.order == "little", at=place.offset_bits)


def _default(header: Header, name: str, defaults: Mapping[str, Any]) -> Any:
    return defaults[name] if name in defaults else header.defaults.get(name, 0)


def _number(name: str, field: Field, default: Any, *, little: bool = False, at: int = 0) -> str:
    """Return the scapy field of a number. Args: at: its first bit in the header."""
    shown = None if default is None else int(default)
    kind = None if at % BITS_PER_BYTE else _NAMES.get(field.bits)
    if field.texts:
        plain = kind.replace("Field", "EnumField") if kind else "BitEnumField"
    else:
        plain = ("X" if field.shown is Shown.HEX else "") + ("LE" if little else "") + (kind or "BitField")
    arguments = [repr(name), repr(shown)]
    if kind is None:
        arguments.append(str(field.bits))
    if field.texts:
        arguments.append(_texts(field.texts))
    return f"{plain}({', '.join(arguments)})"


def _texts(texts: Mapping[int, str]) -> str:
    return f"{{{', '.join(f'{value:#x}: {text!r}' for value, text in texts.items())}}}"
