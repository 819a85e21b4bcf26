"""The parts of the Wireshark dissectors that say what stands where: rows of fields, and names of code points.

A row is name, first byte, bytes, ProtoField: `{"tid", 8, 8, ProtoField.uint64("ema.tid", ...)}`. A field that is a
part of its bytes also has `shift` and `bits`; `count` repeats it; `parts` are the ProtoFields of its named bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

from ejfat.wire.headers import (
    LB_MAGIC,
    LB_PORT,
    SYNC_MAGIC,
    LbHeaderV1,
    LbHeaderV2,
    LbHeaderV3,
    ReHeader,
    SegmentHeader,
    SyncHeader,
)
from hfi_sim.wire.field import BITS_PER_BYTE, Code, Field, Order, Place, Shown
from hfi_sim.wire.header import Header
from hfi_sim.wire.lrh16b import L2_16B, L4, LT_HEAD, EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad.attributes import CommonAttrId, PmAttrId, SaAttrId, SaStatus, SubnetAttrId
from hfi_sim.wire.mad.header import EMA_OUI, MadClass, MadHeader, MadStatus, Method, RmppHeader, VendorHeader
from hfi_sim.wire.mad.pma_attributes import PmStatus
from hfi_sim.wire.packet import Trailer
from hfi_sim.wire.reliable_header import RcHeader, RcOpcode
from lnet.base.nid import NetType
from lnet.wire import layouts
from lnet.wire.codes import LnetMsgType, MsgType, RejectReason
from lnet.wire.msg import MAGIC as KIB_MAGIC
from tools.generate import ema
from tools.generate.origins import module_file, origin
from tools.generate.sections import Section, fill
from vema.attributes.attr_id import AttrId
from vema.base.types import ConfigState, TrapOpcode

_BASES = {Shown.DECIMAL: "base.DEC", Shown.HEX: "base.HEX", Shown.FLAG: "base.DEC"}
_MAD_CODES: Final[tuple[type[IntEnum], ...]] = (
    MadClass,
    Method,
    MadStatus,
    SaStatus,
    PmStatus,
    AttrId,
    SubnetAttrId,
    SaAttrId,
    PmAttrId,
    CommonAttrId,
    ConfigState,
    TrapOpcode,
)
_INTEGERS = {1: "uint8", 2: "uint16", 3: "uint24", 4: "uint32", 8: "uint64"}


_RDMA = {"kib_desc": "kib.rdma", "kib_frag": "kib.rdma", "kib_rej": "kib.rej"}
"""What the names of filters begin with, where a name of kib_msg is used again."""


def scripts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each dissector with its sections made anew."""
    lua = "opavnic/observe/lua"
    sections = {
        "l4": codes(L4),
        "lrh16b": rows(
            "header",
            Lrh16B.HEADER,
            "opa",
            {"reserved": "header.reserved"},
            {"L2_16B": L2_16B, "LT_HEAD": LT_HEAD},
        ),
        "ethernet-l4": rows("ethernet_l4", EthernetL4.HEADER, "opa", {"reserved": "ethernet.reserved"}),
        "fm": rows("fm", FmHeader.HEADER, "opa"),
        "trailer": rows("trailer", Trailer.HEADER, "opa", {"lt": "tail.lt"}),
    }
    yield f"{lua}/opa16b.lua", fill(root / lua / "opa16b.lua", sections)
    sections = {
        "codes": _together(*map(codes, _MAD_CODES)),
        "headers": _together(
            rows("mad", MadHeader.HEADER, "ema"),
            rows("rmpp", RmppHeader.HEADER, "ema.rmpp"),
            rows("vendor", VendorHeader.HEADER, "ema", constants={"OUI_EMA": int.from_bytes(EMA_OUI)}),
        ),
        "attributes": attributes(),
    }
    yield f"{lua}/opa_ema.lua", fill(root / lua / "opa_ema.lua", sections)
    sections = {"rc": _together(codes(RcOpcode), rows("header", RcHeader.HEADER, "opa_rc"))}
    yield f"{lua}/opa_rc.lua", fill(root / lua / "opa_rc.lua", sections)
    sections = {
        "headers": _together(
            rows(
                "lb_v1", LbHeaderV1.HEADER, "ejfat_lb", constants={"LB_MAGIC": LB_MAGIC, "LB_PORT": LB_PORT}
            ),
            rows("lb_v2", LbHeaderV2.HEADER, "ejfat_lb"),
            rows("lb_v3", LbHeaderV3.HEADER, "ejfat_lb"),
            rows("re_header", ReHeader.HEADER, "ejfat_re"),
            rows("segment", SegmentHeader.HEADER, "ejfat_seg"),
            rows(
                "sync_message",
                SyncHeader.HEADER,
                "ejfat_sync",
                {"rate_hz": "rate"},
                constants={"SYNC_MAGIC": SYNC_MAGIC},
            ),
        )
    }
    yield "ejfat/lua/ejfat.lua", fill(root / "ejfat/lua/ejfat.lua", sections)
    tables = {
        "kib_connparams": layouts.CONN_PARAMS,
        "kib_cookie": layouts.COOKIE,
        "kib_putack": layouts.COOKIES,
        "kib_completion": layouts.COMPLETION,
        "kib_desc": layouts.RDMA_DESC,
        "kib_frag": layouts.RDMA_FRAG,
        "kib_rej": layouts.KIB_REJ,
    }
    sections = {
        "headers": _together(
            *map(codes, (MsgType, RejectReason, LnetMsgType, NetType)),
            rows("kib_msg", layouts.KIB_MSG["<"], "kib", constants={"KIB_MAGIC": KIB_MAGIC}),
            *(rows(table, layout["<"], _RDMA.get(table, "kib")) for table, layout in tables.items()),
            rows("lnet_put", layouts.LNET_PUT, "lnet_hdr"),
            rows("lnet_get", layouts.LNET_GET, "lnet_hdr"),
        )
    }
    yield "lnet/lua/lnet.lua", fill(root / "lnet/lua/lnet.lua", sections)


def attributes() -> Section:
    """Return the rows of all EM attributes and of the items of lists; which attribute has which."""
    made: dict[str, Section] = {}
    items: dict[str, str] = {}
    for kind in ema.KINDS:
        name, item = ema.table_name(kind), ema.item(kind)
        made[name] = rows(name, kind.HEADER, f"ema.{name}")
        records = ema.records(kind)
        made |= {record: rows(record, header, f"ema.{record}") for record, header in records.items()}
        if item is not None:
            items[name] = next((record for record in records if records[record] is item), f"{name}_item")
            if items[name] not in made:
                made[items[name]] = rows(items[name], item, f"ema.{name}")
    lines = [f"local attribute_rows = {{{', '.join(made)}}}", "local ATTRIBUTES = {"]
    for attr_id in AttrId:
        name = ema.table_name(attr_id.row.kind)
        listed = f", list = {items[name]}" if name in items else ""
        of_port = ", of_port = true" if attr_id.row.of_port else ""
        lines.append(f"  [ATTR_ID.{attr_id.name}] = {{rows = {name}{listed}{of_port}}},")
    text = "\n".join([*lines, "}"]) + "\n"
    return _together(*made.values(), Section(text, module_file(AttrId.__module__)))


def _together(*sections: Section) -> Section:
    """Return one section of several."""
    origins = sorted({origin for section in sections for origin in section.origin.split(", ")})
    return Section("".join(section.text for section in sections), ", ".join(origins))


def rows(
    table: str,
    declared: Header,
    prefix: str,
    filters: Mapping[str, str] | None = None,
    constants: Mapping[str, int] | None = None,
) -> Section:
    """Return the rows of a header as a Lua table, and its size as `TABLE_SIZE`.

    Args:    prefix: what the names of filters begin with. filters: the rest of such a name, where it is not that of
             the field. constants: values of fields that the dissector looks for.
    """
    names = {
        place.name: f"{prefix}.{(filters or {}).get(place.name, place.name)}" for place in declared.places
    }
    lines = [f"local {table.upper()}_SIZE = {declared.size}"]
    lines += [f"local {name} = 0x{value:X}" for name, value in (constants or {}).items()]
    lines.append(f"local {table} = {{")
    lines += [f"  {_row(declared, place, names[place.name])}," for place in declared.places]
    lines.append("}")
    if any(field.split for field in declared.fields.values()):
        lines += _wholes(table, declared, prefix)
    if any(declared.variable_mask()):
        mask = ", ".join(f"0x{byte:02X}" for byte in declared.variable_mask())
        lines += ["-- the bits that may change on the way", f"local {table}_may_change = {{{mask}}}"]
    return Section("\n".join(lines) + "\n", origin(declared))


def codes(kind: type[IntEnum]) -> Section:
    """Return the code points as a Lua table from name to value, and one from value to text."""
    name = _constant(kind)
    values = [f"  {code.name} = 0x{code:02X}," for code in kind]
    texts = [f"  [0x{number:02X}] = {lua_text(text)}," for number, text in _texts(kind).items()]
    lines = [f"local {name} = {{", *values, "}", f"local {name}_NAMES = {{", *texts, "}"]
    return Section("\n".join(lines) + "\n", module_file(kind.__module__))


def _texts(kind: type[IntEnum]) -> dict[int, str]:
    return {int(code): code.text if isinstance(code, Code) else code.name for code in kind}


def _constant(kind: type[IntEnum]) -> str:
    """Return the Lua name of an enumeration: MadClass is MAD_CLASS."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper()


def lua_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _row(header: Header, place: Place, name: str) -> str:
    size, shift = bytes_of(place, header.order)
    items = [lua_text(place.name), str(place.offset), str(size), _proto_field(place, name, size, shift)]
    if size * BITS_PER_BYTE != place.width_bits:
        items += [f"shift = {shift}", f"bits = {place.width_bits}"]
    if place.field.count:
        items[2] = str(size // place.field.count)
        items.append(f"count = {place.field.count}")
    if place.field.parts:
        items.append(f"parts = {{{', '.join(_parts(place.field, name, size))}}}")
    return "{" + ", ".join(items) + "}"


def bytes_of(place: Place, order: Order) -> tuple[int, int]:
    """Return the bytes that a place touches, and the bit of their number that it begins at."""
    before = place.offset_bits % BITS_PER_BYTE
    size = -(-(before + place.width_bits) // BITS_PER_BYTE)
    return size, before if order == "little" else size * BITS_PER_BYTE - before - place.width_bits


def _proto_field(place: Place, name: str, size: int, shift: int) -> str:
    field, label, meaning = place.field, lua_text(place.name), lua_text(place.meaning)
    mask = "nil"
    if size * BITS_PER_BYTE != place.width_bits:
        mask = f"0x{((1 << place.width_bits) - 1) << shift:X}"
    if field.shown is Shown.MAC:
        return f'ProtoField.ether("{name}", {label}, {meaning})'
    if field.shown is Shown.FLAG:
        return f'ProtoField.bool("{name}", {label}, {size * BITS_PER_BYTE}, nil, {mask}, {meaning})'
    is_oui = field.shown is Shown.BYTES and bool(field.codes)
    if field.shown is Shown.BYTES and not is_oui:
        return f'ProtoField.bytes("{name}", {label}, base.NONE, {meaning})'
    kind = _INTEGERS[size // max(field.count, 1)]
    kind = kind.removeprefix("u") if field.signed else kind
    base = _BASES.get(field.shown, "base.HEX")
    return f'ProtoField.{kind}("{name}", {label}, {base}, {_names(field)}, {mask}, {meaning})'


def _names(field: Field) -> str:
    if isinstance(field.codes, type):
        return f"{_constant(field.codes)}_NAMES"
    texts = [f"[{number:#x}] = {lua_text(text)}" for number, text in field.texts.items()]
    return f"{{{', '.join(texts)}}}" if texts else "nil"


def _parts(field: Field, name: str, size: int) -> Iterator[str]:
    """Yield the ProtoFields of the named bits of a number."""
    for part, (mask, meaning) in field.parts.items():
        said = f"0x{mask:X}, {lua_text(meaning)}" if meaning else f"0x{mask:X}"
        if mask.bit_count() == 1:
            yield f'ProtoField.bool("{name}.{part}", "{part}", {size * BITS_PER_BYTE}, nil, {said})'
        else:
            yield f'ProtoField.{_INTEGERS[size]}("{name}.{part}", "{part}", base.DEC, nil, {said})'


def _wholes(table: str, header: Header, prefix: str) -> list[str]:
    """Return the split fields as rows: name, first byte, bytes of the low part, ProtoField, and the two parts."""
    lines = [f"local {table}_wholes = {{"]
    for name, field in header.fields.items():
        if field.split is None:
            continue
        low = header.place(f"{name}_low")
        size, _ = bytes_of(low, header.order)
        meaning = lua_text(f"{field.meaning}, all {field.bits} bits")
        kind = _INTEGERS[field.bits // BITS_PER_BYTE]
        made = f'ProtoField.{kind}("{prefix}.{name}", "{name}", {_BASES[field.shown]}, nil, nil, {meaning})'
        parts = f'low = "{name}_low", high = "{name}_high", low_bits = {low.width_bits}'
        lines.append(f'  {{"{name}", {low.offset}, {size}, {made}, {parts}}},')
    return [*lines, "}"]
