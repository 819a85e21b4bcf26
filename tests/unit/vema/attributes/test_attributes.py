"""Codecs of the EM attributes: held to their declarations, lossless, safe on truncated data."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from hfi_sim.base.types import MacAddr
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.counters import FRAMES, ErrorCounters, SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo

FIXED: list[Any] = [ClassPortInfo, VeswPortInfo, Notice, SummaryCounters, ErrorCounters]

macs = st.binary(min_size=6, max_size=6).map(MacAddr)
entries = st.builds(
    MacEntry,
    macs.filter(any),
    st.binary(min_size=6, max_size=6),
    st.integers(0, 0xFFFFFFFF),
)


@pytest.mark.parametrize("view", FIXED)
def test_size_of_a_view_is_that_of_its_declaration(view: Any) -> None:
    assert view.HEADER.size == view.SIZE == len(view.HEADER.write(view.HEADER.read(bytes(view.SIZE))))


@pytest.mark.parametrize("view", FIXED)
def test_truncation_at_every_length_is_a_wire_error(view: Any) -> None:
    for size in range(view.SIZE):
        with pytest.raises(WireError):
            view.parse(bytes(size))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=28, max_size=28), st.integers(0, 255))
def test_summary_counters_stand_where_declared_and_come_back(values: list[int], vport: int) -> None:
    counts = dict(zip(FRAMES, values, strict=True))
    summary = SummaryCounters(vport_num=vport, vesw_id=0x123, opa_port_num=2, **counts)

    raw = summary.build()

    declared = SummaryCounters.HEADER.read(raw)
    assert [v for k, v in declared.items() if k[:3] in ("tx_", "rx_")] == values
    assert declared["reserved_232"] == bytes(128)
    assert SummaryCounters.parse(raw) == summary


@given(st.lists(st.integers(0, 2**64 - 1), min_size=12, max_size=12))
def test_error_counters_stand_where_declared_and_come_back(values: list[int]) -> None:
    names = [field.name for field in fields(ErrorCounters) if field.name[:3] in ("tx_", "rx_")]
    errors = ErrorCounters(vport_num=3, vesw_id=5, opa_port_num=1, **dict(zip(names, values, strict=True)))

    raw = errors.build()

    declared = ErrorCounters.HEADER.read(raw)
    assert [declared[name] for name in names] == values
    assert all(not any(v) for k, v in declared.items() if k.startswith("reserved_"))
    assert ErrorCounters.parse(raw) == errors


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("fabric_id", 0), ("vesw_id", 2), ("def_port_mask", 10), ("pkey", 14), ("u_mcast_dlid", 20),
        ("u_ucast_dlid", 24), ("rc", 88), ("eth_mtu", 148), ("vesw_port_num", 152), ("eth_link_status", 156),
        ("base_mac", 160), ("config_state", 166), ("oper_state", 167), ("max_mac_tbl_ent", 168),
        ("max_smac_ent", 170), ("mac_tbl_digest", 172), ("encap_slid", 180), ("pcp_to_sc_uc", 184),
        ("non_vlan_sc_uc", 216), ("uc_macs_gen_count", 268), ("mc_macs_gen_count", 270),
    ],
)  # fmt: skip
def test_vesw_port_info_field_stands_at_the_documents_offset(name: str, offset: int) -> None:
    assert VeswPortInfo.HEADER.place(name).offset == offset


def test_value_too_wide_for_its_field_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="VeswPortInfo"):
        VeswPortInfo(vesw_id=0x10000).build()
    with pytest.raises(ValueError, match="ClassPortInfo"):
        ClassPortInfo(trap_lid=-1).build()
    with pytest.raises(ValueError, match="MacEntries"):
        MacEntries(1 << 16, 0).build()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"mac": bytes(5)}, "mac has 6 bytes, not 5"),
        ({"mask": bytes(7)}, "mask has 6 bytes, not 7"),
        ({"dlid_sd": 1 << 32}, r"dlid_sd 0x100000000 does not fit 32 bits \(0 to 4294967295\)"),
    ],
)
def test_entry_that_does_not_fit_is_refused_alone_and_in_a_section(
    wrong: dict[str, Any], reason: str
) -> None:
    entry = MacEntry(**{"mac": MacAddr(b"\x02" * 6), "mask": b"\xff" * 6, "dlid_sd": 5 << 8, **wrong})
    for whole in (entry, MacEntries(0, 0, (None, entry))):
        with pytest.raises(ValueError, match=f"^MAC entry: {reason}$"):
            whole.build()


@given(st.integers(0, 1923), st.integers(0, 0xFFFFFFFF), st.lists(st.none() | entries, max_size=125))
def test_mac_entries_round_trip_with_holes(offset: int, digest: int, wanted: list[MacEntry | None]) -> None:
    section = MacEntries(offset, digest, tuple(wanted))

    raw = section.build()

    assert MacEntries.parse(raw + bytes(7)) == section
    declared = MacEntries.LAYOUT.read(raw.ljust(MacEntries.LAYOUT.size, b"\0"))
    assert (declared["offset"], declared["num_entries"], declared["digest"]) == (offset, len(wanted), digest)
    for item, entry in zip(declared["entries"], wanted, strict=False):
        assert MacEntry.HEADER.write(item) == (entry.build() if entry else bytes(16))


@pytest.mark.parametrize(("offset", "num", "fits"), [
    (0, 125, True), (0, 126, False), (2048, 0, True), (2049, 0, False), (1923, 125, True), (1924, 125, False),
    (0xFFFF, 1, False), (0xFFFF, 0xFFFF, False),
])  # fmt: skip
def test_mac_entries_range_is_checked_without_wrapping(offset: int, num: int, fits: bool) -> None:
    raw = offset.to_bytes(2, "big") + num.to_bytes(2, "big") + bytes(2004)
    if fits:
        assert MacEntries.parse(raw).offset == offset
    else:
        with pytest.raises(WireError):
            MacEntries.parse(raw)


@given(st.lists(macs, max_size=333), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_iface_macs_round_trip(addresses: list[MacAddr], start: int, gen_count: int) -> None:
    stretch = IfaceMacs(start, len(addresses), 1000, gen_count, tuple(addresses))

    raw = stretch.build().ljust(2008, b"\0")

    assert IfaceMacs.parse(raw) == stretch
    declared = IfaceMacs.LAYOUT.read(raw)
    assert declared == {
        "start": start, "num_macs": len(addresses), "total": 1000, "gen_count": gen_count,
        "macs": (*addresses, *(bytes(6),) * (333 - len(addresses))),
    }  # fmt: skip


@given(st.binary(max_size=2100))
def test_any_bytes_give_a_value_or_a_wire_error(raw: bytes) -> None:
    for view in (
        ClassPortInfo,
        VeswPortInfo,
        Notice,
        MacEntries,
        IfaceMacs,
        SummaryCounters,
        ErrorCounters,
    ):
        with suppress(WireError):
            view.parse(raw)


def test_notice_of_a_dlid_entry_says_lid_and_kind() -> None:
    entry = MacEntry(MacAddr(b"\x02" * 6), b"\xff" * 6, 0x00123420)
    assert (entry.dlid, entry.is_source) == (0x001234, True)


def test_the_page_lists_every_attribute_with_the_methods_that_its_row_allows() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "ema-attributes.md").read_text()
    rows = re.findall(r"^\| \w+ \| (0x\w{4}) \| (.*?) ?\| (.*?) ?\|", page, re.MULTILINE)
    listed = {int(number, 16): (get == "yes", set_ == "yes") for number, get, set_ in rows}
    assert listed == {int(known): (bool(known.row.get), bool(known.row.set)) for known in AttrId}
