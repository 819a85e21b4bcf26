"""The MAC table, against a literal model of the driver's hash buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.types import MacAddr
from opavnic.vnic.mac_table import MacTable
from vema.attributes.mac_entries import MacEntry

FULL = b"\xff" * 6


def mac(number: int) -> MacAddr:
    return MacAddr(bytes((2, 0, 0, 0, number >> 8, number & 0xFF)))


def entry(number: int, dlid: int = 5, *, source: bool = False, mask: bytes = FULL) -> MacEntry:
    return MacEntry(mac(number), mask, dlid << 8 | (0x20 if source else 0))


class Buckets:
    """The driver's table as it is written: 256 lists by the last byte, insertion at the head."""

    def __init__(self) -> None:
        self.buckets: list[list[tuple[int, MacEntry]]] = [[] for _ in range(256)]

    def update(self, offset: int, entries: list[MacEntry | None]) -> None:
        fresh: list[list[tuple[int, MacEntry]]] = [[] for _ in range(256)]
        for index, item in enumerate(entries, offset):
            if item is not None:
                fresh[item.mac[5]].insert(0, (index, item))
        for bucket in self.buckets:
            for index, item in bucket:
                if not offset <= index < offset + len(entries):
                    fresh[item.mac[5]].insert(0, (index, item))
        self.buckets = fresh

    def dlid(self, address: bytes) -> int:
        for _, item in self.buckets[address[5]]:
            if not item.dlid_sd & 0x20 and item.mac == address:
                return item.dlid_sd >> 8
        return 0


updates = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.lists(
            st.none() | st.builds(entry, st.integers(1, 4), st.integers(0, 9), source=st.booleans()),
            max_size=6,
        ),
    ),
    max_size=8,
)


@given(updates, st.booleans())
def test_lookup_is_that_of_the_drivers_buckets_after_any_updates(
    steps: list[tuple[int, list[MacEntry | None]]], looked_up: bool
) -> None:
    table, model = MacTable(), Buckets()
    for offset, entries in steps:
        table = table.replace_section(offset, entries, 0)
        model.update(offset, entries)
        if looked_up:  # else its destinations are worked out once, at the end
            dict(table.dlids)
    for number in range(1, 5):
        assert table.dlids.get(mac(number), 0) == model.dlid(mac(number))
    flat = {index: item for bucket in model.buckets for index, item in bucket}
    assert table.entries() == dict(sorted(flat.items()))
    assert table.section(0, 20) == tuple(flat.get(index) for index in range(20))
    assert table.section(100, 2) == (None, None)
    assert len(table) == len(flat)


def test_update_leaves_the_old_snapshot_as_it_was() -> None:
    old = MacTable().replace_section(0, [entry(1, 7)], 0xA)
    new = old.replace_section(0, [None], 0xB)
    assert (old.dlids[mac(1)], old.digest, len(old)) == (7, 0xA, 1)
    assert (dict(new.dlids), new.digest, len(new)) == ({}, 0xB, 0)


def test_highest_index_of_one_update_is_found() -> None:
    table = MacTable().replace_section(0, [entry(1, 7), entry(1, 8)], 0)
    assert table.dlids[mac(1)] == 8


def test_entry_that_stays_is_found_before_a_new_one() -> None:
    table = MacTable().replace_section(0, [entry(1, 7)], 0).replace_section(1, [entry(1, 8)], 0)
    assert table.dlids[mac(1)] == 7


def test_quirk_order_of_entries_that_stay_turns_round_with_each_update() -> None:
    table = MacTable().replace_section(0, [entry(1, 7), entry(1, 8)], 0)
    assert table.replace_section(5, [], 0).dlids[mac(1)] == 7


def test_quirk_first_match_with_lid_0_ends_the_search() -> None:
    table = MacTable().replace_section(0, [entry(1, 7), entry(1, 0)], 0)
    assert mac(1) not in table.dlids


def test_source_entry_is_no_destination() -> None:
    table = MacTable().replace_section(0, [entry(1, 7), entry(1, 8, source=True)], 0)
    assert table.dlids[mac(1)] == 7


def test_table_of_2048_entries_is_found_whole() -> None:
    table = MacTable()
    for offset in range(0, 2048, 125):
        count = min(125, 2048 - offset)
        table = table.replace_section(
            offset, [entry(offset + n + 1, offset + n + 1) for n in range(count)], 0
        )
    assert len(table) == 2048
    assert all(table.dlids[mac(number)] == number for number in range(1, 2049))


def test_more_updates_than_are_kept_back_lose_nothing() -> None:
    table = MacTable()
    for n in range(200):
        table = table.replace_section(n, [entry(n % 5 + 1, n + 1)], n)
    assert (table.digest, len(table)) == (199, 200)
    assert set(table.dlids) == {mac(number) for number in range(1, 6)}


# source entries


def test_source_filter_is_off_without_source_entries() -> None:
    assert not MacTable().replace_section(0, [entry(1)], 0).sources


@pytest.mark.parametrize("mask", [FULL, bytes(6)])
def test_source_filter_compares_whole_addresses(mask: bytes) -> None:
    sources = MacTable().replace_section(0, [entry(1, source=True, mask=mask)], 0).sources
    assert sources
    assert sources.admits(mac(1))
    assert not sources.admits(mac(2))


def test_source_filter_compares_the_bits_of_a_mask() -> None:
    sources = MacTable().replace_section(0, [entry(0x101, source=True, mask=b"\xff" * 5 + b"\0")], 0).sources
    assert sources.admits(mac(0x1FE))
    assert not sources.admits(mac(0x201))
