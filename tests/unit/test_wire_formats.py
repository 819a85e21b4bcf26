"""Every header's own codec does what its declaration says, whether it was made from it or written by hand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ejfat.wire.headers import (
    LB_MAGIC,
    SYNC_MAGIC,
    LbHeaderV1,
    LbHeaderV2,
    LbHeaderV3,
    ReHeader,
    SegmentHeader,
    SyncHeader,
)
from hfi_sim.base.errors import WireError
from hfi_sim.management.umad import abi
from hfi_sim.wire import captures
from hfi_sim.wire.field import BITS_PER_BYTE
from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.lrh16b import EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad import pma_attributes, pma_ib_attributes, smp_header
from hfi_sim.wire.mad.header import MadHeader, RmppHeader, VendorHeader
from hfi_sim.wire.mad.pma_attributes import (
    ClearPortStatus,
    ErrorInfoPort,
    ErrorInfoRequest,
    PortCountersRequest,
    PortStatusRequest,
)
from hfi_sim.wire.packet import Trailer
from hfi_sim.wire.packet_9b import Bth, Deth, Lrh9B
from hfi_sim.wire.reliable_header import RcHeader, RcOpcode
from hfi_sim.wire.sa import records, records_ib, records_tables
from hfi_sim.wire.sa.message import SaHeader
from hfi_sim.wire.sma import node, port_info, tables
from hfi_sim.wire.sma import notice as sm_notice
from lnet.wire import layouts
from opavnic.cluster.protocol import frames
from opavnic.devices import fuse
from opavnic.kernel import wire as kernel_wire
from unit.hfi_sim.wire.wire_strategies import field_values
from vema.attributes import iface_macs, mac_entries
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo


def declared_in(*modules: ModuleType) -> Iterator[type[WireHeader]]:
    """Every header that these modules declare."""
    for module in modules:
        for item in vars(module).values():
            if isinstance(item, type) and item.__module__ == module.__name__ and issubclass(item, WireHeader):
                yield item


def headers_in(*places: object) -> Iterator[Header]:
    """Every declaration that stands in these modules or classes by itself."""
    for place in places:
        yield from (item for item in vars(place).values() if isinstance(item, Header))


HEADERS: list[type[WireHeader]] = [
    Lrh16B, Lrh9B, Bth, Deth, EthernetL4, FmHeader, Trailer, MadHeader, RmppHeader, VendorHeader, RcHeader,
    ClassPortInfo, VeswPortInfo, Notice, MacEntry, SummaryCounters, ErrorCounters,
    PortStatusRequest, ClearPortStatus, PortCountersRequest, ErrorInfoRequest, ErrorInfoPort,
    LbHeaderV1, LbHeaderV2, LbHeaderV3, SegmentHeader, ReHeader, SyncHeader,
    *declared_in(smp_header, node, sm_notice, port_info, tables),
    SaHeader, *declared_in(records, records_ib, records_tables),
]  # fmt: skip
LAYOUTS: list[Header] = [
    *headers_in(mac_entries, iface_macs, pma_attributes, pma_ib_attributes, sm_notice, tables),
    *(layout for item in vars(layouts).values() if isinstance(item, dict) for layout in item.values()
      if isinstance(layout, Header)),
    *headers_in(layouts, fuse, abi, frames, kernel_wire, captures, *captures.FORMS.values()),
]  # fmt: skip
ALLOWED: dict[tuple[type[WireHeader], str], list[int]] = {
    (RcHeader, "opcode"): list(RcOpcode),
    **{(header, "magic"): [LB_MAGIC] for header in (LbHeaderV1, LbHeaderV2, LbHeaderV3)},
    **{(header, "version"): [header.VERSION] for header in (LbHeaderV1, LbHeaderV2, LbHeaderV3)},
    (ReHeader, "version"): [1],
    (ReHeader, "flags"): [0],
    (SyncHeader, "magic"): [SYNC_MAGIC],
    (SyncHeader, "version"): [2],
}
"""The values of fields of which a parser refuses others."""
MESSAGES = {SyncHeader}
"""The headers that nothing may follow."""


def header_values(header: type[WireHeader]) -> st.SearchStrategy[dict[str, Any]]:
    """Any values of a header that its parser takes."""
    return st.fixed_dictionaries(
        {
            name: st.sampled_from(ALLOWED[header, name]) if (header, name) in ALLOWED else field_values(field)
            for name, field in header.HEADER.fields.items()
        }
    )


def zero(header: type[WireHeader], **values: Any) -> Any:
    """A header of which all fields but those in `values` are 0, as far as its parser takes that."""
    blank = header.HEADER.read(bytes(header.SIZE))
    blank |= {name: allowed[0] for (owner, name), allowed in ALLOWED.items() if owner is header}
    return header(**{**blank, **values})


def shown_values(value: WireHeader) -> dict[str, Any]:
    """The values of a header by name; `asdict` would copy them."""
    return {name: getattr(value, name) for name in value.HEADER.fields}


def subclasses(header: type[WireHeader]) -> Iterator[type[WireHeader]]:
    """All classes below a header, at any depth."""
    for item in header.__subclasses__():
        yield item
        yield from subclasses(item)


def test_every_declared_header_is_held_to_its_declaration() -> None:
    packages = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
    declared = {
        item
        for item in subclasses(WireHeader)
        if "HEADER" in vars(item) and item.__module__.startswith(packages)
    }

    assert declared == set(HEADERS)


@pytest.mark.hypothesis  # its properties are made within it
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_does_what_its_declaration_says(header: type[WireHeader]) -> None:
    assert [item.name for item in dataclasses.fields(header)] == list(header.HEADER.fields)  # type: ignore[arg-type]
    check_any_values_are_built_and_parsed_as_declared(header)
    check_any_bytes_give_a_header_of_these_bytes_or_a_wire_error(header)
    check_data_that_end_inside_the_header_are_refused_at_every_length(header)
    for name, field in header.HEADER.fields.items():
        check_a_value_that_does_not_fit_is_named(header, name)
        if field.is_number and (header, name) not in ALLOWED:
            check_a_field_of_ones_fills_its_places_and_no_others(header, name)


def test_layouts_without_a_class_are_read_and_written_alike_by_both_codecs() -> None:
    for layout in LAYOUTS:
        check_both_codecs_agree(layout)


def check_both_codecs_agree(layout: Header) -> None:
    @given(st.fixed_dictionaries({name: field_values(field) for name, field in layout.fields.items()}))
    @settings(max_examples=5)
    def check(values: dict[str, Any]) -> None:
        built = layout.pack_values(values)
        assert (len(built), layout.write(values), layout.build(**values)) == (layout.size, built, built)
        assert layout.read(built) == values
        assert (
            dict(zip(layout.names, layout.unpack(built), strict=True)) == values == vars(layout.parse(built))
        )
        for size in range(layout.size):
            said = re.escape(f"{size} bytes, the {layout.title} needs {layout.size}")
            with pytest.raises(WireError, match=f"at byte {size}: {said}$"):
                layout.parse(built[:size])

    check()


def examples() -> int:
    """How many of each header, of which there are a hundred: in a run of all tests fewer than of other properties."""
    most = settings.default.max_examples
    return 8 if most == settings.get_profile("opavnic").max_examples else most


def check_any_values_are_built_and_parsed_as_declared(header: type[WireHeader]) -> None:
    @given(header_values(header))
    @settings(max_examples=examples())
    def check(values: dict[str, Any]) -> None:
        built = header(**values).build()

        assert len(built) == header.SIZE == header.HEADER.size
        assert built == header.HEADER.write(values)
        behind = b"" if header in MESSAGES else b"behind it"
        assert shown_values(header.parse(built + behind)) == header.HEADER.read(built) == values

    check()


def check_any_bytes_give_a_header_of_these_bytes_or_a_wire_error(header: type[WireHeader]) -> None:
    @given(st.binary(min_size=header.SIZE, max_size=header.SIZE + 8))
    @example(b"\xa5" * header.SIZE)
    @settings(max_examples=examples())
    def check(given_bytes: bytes) -> None:
        try:
            parsed = header.parse(memoryview(given_bytes))
        except WireError:
            assert any(owner is header for owner, _ in ALLOWED)
            return
        assert parsed.build() == given_bytes[: header.SIZE]
        assert shown_values(parsed) == header.HEADER.read(given_bytes)

    check()


def check_data_that_end_inside_the_header_are_refused_at_every_length(header: type[WireHeader]) -> None:
    whole = zero(header).build()
    for size in range(header.SIZE):
        said = f"{header.HEADER.name} at byte {size}: {size} bytes, the .* needs {header.SIZE}"
        for read in (header.parse, header.HEADER.read):
            with pytest.raises(WireError, match=said):
                read(whole[:size])


def check_a_field_of_ones_fills_its_places_and_no_others(header: type[WireHeader], name: str) -> None:
    field = header.HEADER.fields[name]
    ones = -1 if field.signed else (1 << field.bits) - 1
    blank = int.from_bytes(zero(header).build(), header.HEADER.order)

    changed = blank ^ int.from_bytes(zero(header, **{name: ones}).build(), header.HEADER.order)

    places = [place for place in header.HEADER.places if place.field_name == name]
    bits = {bit for place in places for bit in range(place.offset_bits, place.offset_bits + place.width_bits)}
    first = 0 if header.HEADER.order == "little" else header.SIZE * BITS_PER_BYTE - 1
    assert {bit for bit in range(header.SIZE * BITS_PER_BYTE) if changed >> abs(first - bit) & 1} == bits, (
        name
    )


def check_a_value_that_does_not_fit_is_named(header: type[WireHeader], name: str) -> None:
    field = header.HEADER.fields[name]
    bits, size = field.bits, field.bits // BITS_PER_BYTE
    if field.count:
        wrong: list[Any] = [(0,) * (field.count - 1), (0,) * (field.count + 1)]
        said = [f"{name} has {field.count} items, not {len(value)}" for value in wrong]
    elif not field.is_number:
        wrong = [b"", bytes(size + 1), 5]
        said = [f"{name} has {size} bytes, not {given}" for given in (0, size + 1, 5)]
    else:
        wrong = [1 << bits, -1 << bits]
        said = [f"{name} {value:#x} does not fit {bits} bits \\(0 to {(1 << bits) - 1}\\)" for value in wrong]
    who = f"{header.HEADER.name}: " if header.HEADER.names_itself else ""

    for value, reason in zip(wrong, said, strict=True):
        header_of_it = zero(header, **{name: value})
        for build in (header_of_it.build, lambda it=header_of_it: header.HEADER.write(it)):
            with pytest.raises(ValueError, match=f"^{who}{reason}$"):
                build()
