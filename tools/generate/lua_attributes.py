"""The part of opa_mgmt.lua that is made from declarations: the rows of each attribute, and which number has which.

    attributes.port_info = {title = "PortInfo", size = 242, rows = {{"lid", 0, 4, ProtoField...}, ...}}
    local SUBNET = {[0x15] = {attributes.port_info, 248}, ...}

The numbers behind an attribute are the bytes from one to the next. A row is as in `tools.generate.lua`; of one with
`of`, each item is an attribute itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hfi_sim.wire.field import BITS_PER_BYTE, Field, Place, Shown
from hfi_sim.wire.header import Header
from hfi_sim.wire.mad.header import RmppHeader
from hfi_sim.wire.mad.smp_header import DirectedHeader, IbDirectedHeader, LidRoutedHeader
from hfi_sim.wire.sa.message import SaHeader
from opavnic.management.management_attributes import PERFORMANCE, CounterKind, Kind
from opavnic.observe.layer_rows import TABLES, kinds_by_name
from tools.generate.lua import bytes_of, lua_text
from tools.generate.origins import origin
from tools.generate.sections import Section, fill

HEADERS: Final = (
    LidRoutedHeader.HEADER,
    DirectedHeader.HEADER,
    IbDirectedHeader.HEADER,
    RmppHeader.HEADER,
    SaHeader.HEADER,
)
"""What stands before attributes."""
_PREFIX: Final = "opa_mgmt"
_WORDS: Final = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!to[A-Z])[a-z])|(?<=[A-Z])(?=to[A-Z])|[ -]"
)
"""Where a name is taken apart."""


def scripts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the dissector with its section made anew."""
    path = "opavnic/observe/lua/opa_mgmt.lua"
    yield path, fill(root / path, {"attributes": section()})


def section() -> Section:
    """Return the rows of all attributes, and the tables of their numbers."""
    kinds = kinds_by_name(HEADERS, lua_name)
    lines = ["local attributes = {}"]
    for name, kind in kinds.items():
        header = kind.header
        rows = [f"  {_row(kind, place, name)}," for place in header.places]
        lines += [f"attributes.{name} = {{title = {lua_text(header.title)}, size = {header.size}, rows = {{"]
        lines += [*rows, "}}"]
    for table, numbers in TABLES.items():
        lines.append(f"local {table} = {{")
        lines += [
            f"  [0x{number:02X}] = {{attributes.{lua_name(kind.header)}, {kind.stride}}},"
            for number, kind in numbers.items()
        ]
        lines.append("}")
    lines += ["local COUNTERS = {", *map(_counters, PERFORMANCE, PERFORMANCE.values()), "}"]
    return Section("\n".join(lines) + "\n", origin(*(kind.header for kind in kinds.values())))


def _counters(attr_id: int, kind: CounterKind) -> str:
    named = {"question": kind.question, "head": kind.head, "port": kind.port, "vl": kind.vl}
    items = [f"{name} = attributes.{lua_name(header)}" for name, header in named.items() if header]
    for mask in ("port_mask", "vl_mask"):
        if mask in kind.head.names:
            items.append(f"{mask} = {kind.head.place(mask).offset}")
    return f"  [0x{attr_id:02X}] = {{{', '.join(items)}}},"


def lua_name(header: Header) -> str:
    """Return the name of a header in Lua and in filters: `SCtoVL` is sc_to_vl, `IbPathRecord` ib_path_record."""
    return _WORDS.sub("_", header.name).lower()


def _row(kind: Kind, place: Place, name: str) -> str:
    header, field = kind.header, place.field
    size, shift = bytes_of(place, header.order)
    each = size // max(field.count, 1)
    items = [lua_text(place.name), str(place.offset), str(each)]
    items.append(_proto_field(place, f"{_PREFIX}.{name}.{place.name}", each, shift))
    if field.count:
        items.append(f"count = {field.count}")
    inside = field.record or kind.inside.get(place.name)
    if inside is not None:
        items.append(f"of = attributes.{lua_name(inside)}")
    return "{" + ", ".join(items) + "}"


def _proto_field(place: Place, name: str, size: int, shift: int) -> str:
    field, label, meaning = place.field, lua_text(place.name), lua_text(place.meaning)
    if field.shown is Shown.BYTES or field.record is not None:
        return f'ProtoField.bytes("{name}", {label}, base.NONE, {meaning})'
    width = field.bits
    mask = "nil" if size * BITS_PER_BYTE == width else f"0x{((1 << width) - 1) << shift:X}"
    if field.shown is Shown.FLAG:
        return f'ProtoField.bool("{name}", {label}, {size * BITS_PER_BYTE}, nil, {mask}, {meaning})'
    kind = {1: "uint8", 2: "uint16", 3: "uint24", 4: "uint32"}.get(size, "uint64")
    base = "base.HEX" if field.shown is Shown.HEX else "base.DEC"
    return f'ProtoField.{kind}("{name}", {label}, {base}, {_names(field)}, {mask}, {meaning})'


def _names(field: Field) -> str:
    texts: Iterable[str] = (f"[{number:#x}] = {lua_text(text)}" for number, text in field.texts.items())
    return "{" + ", ".join(texts) + "}" if field.texts else "nil"
