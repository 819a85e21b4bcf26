"""The tables of docs/: where the fields of each header stand, and the code points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from hfi_sim.wire.field import Code, Place
from hfi_sim.wire.header import Header
from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad.header import MadHeader, RmppHeader, VendorHeader
from hfi_sim.wire.mad.pma_attributes import (
    PORT_STATUS,
    ClearPortStatus,
    ErrorInfoPort,
    ErrorInfoRequest,
    PortCountersRequest,
    PortStatusRequest,
)
from hfi_sim.wire.packet import Trailer
from hfi_sim.wire.packet_9b import Bth, Deth, Lnh, Lrh9B
from hfi_sim.wire.reliable_header import RcHeader
from hfi_sim.wire.sa.message import SaHeader
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records_ib import IbMcMemberRecord, IbNodeRecord
from tools.generate import ema
from tools.generate.origins import module_file, origin
from tools.generate.sections import Section, fill


def _last_quad_word(place: Place, start: int) -> str:
    return place.in_quad_words(start).replace("QW0", "last QW")


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """A header, the byte that it starts at, and how its positions are written."""

    header: Header
    start: int = 0
    where: Callable[[Place, int], str] = Place.in_bytes


@dataclass(frozen=True, slots=True)
class AttributeTable:
    """The declaration of an EM attribute, whose fields stand at whole bytes and say who may write them."""

    header: Header


@dataclass(frozen=True, slots=True)
class RecordTable:
    """A record of subnet administration, whose fields have a bit each in the component mask."""

    kind: type[SaRecord]


_TRAILER_START: Final = 8 - Trailer.SIZE

Table = OffsetTable | AttributeTable | RecordTable | type[IntEnum]

PAGES: Final[Mapping[str, Mapping[str, Table]]] = {
    "docs/reference/wire-16b.md": {
        "lrh16b": OffsetTable(Lrh16B.HEADER, 0, Place.in_quad_words),
        "l4-types": L4,
        "ethernet-l4": OffsetTable(EthernetL4.HEADER, Lrh16B.SIZE, Place.in_quad_words),
        "trailer": OffsetTable(Trailer.HEADER, _TRAILER_START, _last_quad_word),
    },
    "docs/reference/wire-9b.md": {
        "lrh9b": OffsetTable(Lrh9B.HEADER),
        "lnh": Lnh,
        "bth": OffsetTable(Bth.HEADER),
        "deth": OffsetTable(Deth.HEADER),
    },
    "docs/reference/wire-mad.md": {
        "fm": OffsetTable(FmHeader.HEADER, Lrh16B.SIZE),
        "mad": OffsetTable(MadHeader.HEADER),
        "rmpp": OffsetTable(RmppHeader.HEADER, MadHeader.SIZE),
        "vendor": OffsetTable(VendorHeader.HEADER, MadHeader.SIZE + RmppHeader.SIZE),
        "sa": OffsetTable(SaHeader.HEADER, MadHeader.SIZE + RmppHeader.SIZE),
        "node-record": RecordTable(IbNodeRecord),
        "mc-member-record": RecordTable(IbMcMemberRecord),
    },
    "docs/reference/ema-attributes.md": {
        name.replace("_", "-"): AttributeTable(header) for name, header in ema.tables().items()
    },
    "docs/reference/pma.md": {
        "port-status-request": OffsetTable(PortStatusRequest.HEADER, MadHeader.SIZE),
        "port-status": OffsetTable(PORT_STATUS, MadHeader.SIZE),
        "clear-port-status": OffsetTable(ClearPortStatus.HEADER, MadHeader.SIZE),
        "port-counters-request": OffsetTable(PortCountersRequest.HEADER, MadHeader.SIZE),
        "error-info-request": OffsetTable(ErrorInfoRequest.HEADER, MadHeader.SIZE),
        "error-info": OffsetTable(ErrorInfoPort.HEADER),
    },
    "docs/reference/reliable.md": {"rc": OffsetTable(RcHeader.HEADER)},
}
"""The tables of each page by the names that it marks their places with."""


def offset_table(table: OffsetTable) -> str:
    """Return a table in Markdown: position, width in bits, name, meaning."""
    rows = ["| position | bits | field | meaning |", "|---|---|---|---|"]
    for place in table.header.places:
        where = table.where(place, table.start)
        meaning = place.meaning + ("; may change on the way" if place.field.may_change else "")
        rows.append(f"| {where} | {place.width_bits} | `{place.name}` | {meaning} |")
    return "\n".join(rows) + "\n"


def attribute_table(header: Header) -> str:
    """Return a table in Markdown: offset, bytes, name, who may write it, meaning."""
    rows = ["| offset | bytes | field | access | meaning |", "|---:|---:|---|---|---|"]
    rows += [
        f"| {place.offset} | {place.size} | `{place.name}` | {place.field.access} | {place.meaning} |"
        for place in header.places
    ]
    return "\n".join(rows) + "\n"


def record_table(kind: type[SaRecord]) -> str:
    """Return a table in Markdown: position in the record, width in bits, bit of the component mask, name, meaning."""
    rows = ["| position | bits | mask | field | meaning |", "|---|---|---|---|---|"]
    for place in kind.HEADER.places:
        bit = f"0x{kind.mask(place.name):X}" if place.name in kind.COMPONENTS else ""
        rows.append(
            f"| {place.in_bytes(0)} | {place.width_bits} | {bit} | `{place.name}` | {place.meaning} |"
        )
    return "\n".join(rows) + "\n"


def code_table(codes: type[IntEnum]) -> str:
    """Return code points in Markdown: value, name, meaning."""
    rows = ["| value | name | meaning |", "|---|---|---|"]
    rows += [f"| 0x{code:02X} | `{code.name}` | {code.text} |" for code in codes if isinstance(code, Code)]
    return "\n".join(rows) + "\n"


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each page with its tables made anew."""
    for path, tables in PAGES.items():
        yield path, fill(root / path, {name: _section(table) for name, table in tables.items()})


def _section(table: Table) -> Section:
    if isinstance(table, OffsetTable):
        return Section(offset_table(table), origin(table.header))
    if isinstance(table, AttributeTable):
        return Section(attribute_table(table.header), origin(table.header))
    if isinstance(table, RecordTable):
        return Section(record_table(table.kind), origin(table.kind.HEADER))
    return Section(code_table(table), module_file(table.__module__))
