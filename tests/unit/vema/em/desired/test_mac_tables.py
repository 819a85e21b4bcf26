"""Sections, digests and minimal updates of MAC tables."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.types import MacAddr
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.base.types import MAC_TABLE_ENTRIES
from vema.em.desired.mac_tables import (
    DIRTY,
    EMPTY,
    ENTRY,
    MAX_SECTION,
    SECTIONS,
    MemberAddress,
    VeswTable,
    digest_of,
    fold,
)
from vema.em.desired.movement import ASSIGNED


def mac(n: int) -> MacAddr:
    return MacAddr(b"\x02\0" + n.to_bytes(4, "big"))


def members(count: int) -> dict[int, list[MemberAddress]]:
    return {n: [MemberAddress(mac(n), n)] for n in range(1, count + 1)}


def contents(table: VeswTable, owner: int) -> dict[bytes, int]:
    held = {}
    for section in table.table_for(owner).sections:
        for address, _, dlid_sd in ENTRY.iter_unpack(section):
            if any(address):
                held[address] = dlid_sd >> 8
    return held


def test_entry_codec_equals_the_attributes() -> None:
    entry = MacEntry(mac(5), b"\xff" * 6, 5 << 8)
    table = VeswTable()
    table.update({1: [], 5: [MemberAddress(mac(5), 5)]})
    assert table.table_for(1).sections[0].startswith(entry.build())
    assert MacEntries(0, 0, (entry,)).build()[8:] == entry.build()


def test_member_table_has_all_but_its_own_addresses() -> None:
    table = VeswTable()
    assert table.update(members(300))
    assert contents(table, 7) == {mac(n): n for n in range(1, 301) if n != 7}


def test_sections_without_own_addresses_are_the_same_objects() -> None:
    table = VeswTable()
    table.update(members(300))
    first, last = table.table_for(1), table.table_for(300)
    assert first.sections[1] is last.sections[1]
    assert first.sections[0] is not last.sections[0]


def test_entries_have_the_lid_of_each_address_and_leave_out_free_slots() -> None:
    table = VeswTable()
    table.update(members(3))
    there = members(3)
    there[2] = []
    table.update(there)
    assert [(address, lid, owner) for _, address, lid, owner in table.entries()] == [
        (mac(1), 1, 1),
        (mac(3), 3, 3),
    ]


def test_update_without_change_says_so() -> None:
    table = VeswTable()
    table.update(members(10))
    assert not table.update(members(10))


def test_one_new_address_changes_one_section_of_the_others_and_none_of_the_owner() -> None:
    table = VeswTable()
    table.update(members(300))
    before = {owner: table.table_for(owner) for owner in (1, 200, 300)}
    changed = members(300)
    changed[200].append(MemberAddress(mac(9999), 200))
    assert table.update(changed)
    assert table.table_for(1).changes(before[1].keys) == [2]
    assert table.table_for(300).changes(before[300].keys) == [2]
    assert table.table_for(200).changes(before[200].keys) == []
    assert table.digest_for(200) == before[200].digest


def test_slots_survive_a_restart_so_that_nothing_moves() -> None:
    table = VeswTable()
    table.update(members(200))
    without = members(200)
    del without[3]
    table.update(without)
    again = VeswTable(table.slots())
    again.update(without)
    assert again.table_for(1) == table.table_for(1)


def test_unknown_layout_sends_the_whole_table() -> None:
    table = VeswTable()
    table.update(members(3))
    assert table.table_for(1).changes(None) == list(range(SECTIONS))
    assert table.table_for(1).changes(()) == [0]


def test_sections_cover_the_table_and_fit_a_mad() -> None:
    table = VeswTable()
    table.update(members(MAC_TABLE_ENTRIES + 5))
    held = table.table_for(0)
    assert len(held.sections) == SECTIONS
    assert sum(len(section) for section in held.sections) == MAC_TABLE_ENTRIES * ENTRY.size
    assert max(len(section) for section in held.sections) == MAX_SECTION * ENTRY.size
    assert len(table.left_out) == 5


def test_address_of_two_members_goes_to_the_last_one_that_reported_it() -> None:
    table = VeswTable()
    first, second = MemberAddress(mac(1), 1, since=5.0), MemberAddress(mac(1), 2, since=6.0)
    table.update({1: [first], 2: [], 3: []}, now=5.0)
    assert table.update({1: [first], 2: [second], 3: []}, now=6.0)
    assert [contents(table, owner) for owner in (1, 2, 3)] == [{mac(1): 2}, {}, {mac(1): 2}]
    assert table.moves == ((mac(1), 1, 2),)
    assert not table.update({1: [first], 2: [second], 3: []}, now=7.0)
    assert table.moves == ()


def test_address_that_the_manager_has_given_stays_and_the_other_is_a_conflict() -> None:
    table = VeswTable()
    table.update(
        {1: [MemberAddress(mac(1), 1, ASSIGNED)], 2: [MemberAddress(mac(1), 2, since=9.0)], 3: []}, now=9.0
    )
    assert contents(table, 3) == {mac(1): 1}
    assert table.conflicts == ((mac(1), 1, 2),)


def test_owner_of_an_earlier_run_keeps_an_address_that_two_members_have_reported_since() -> None:
    table = VeswTable([(2, mac(1))])
    table.update({1: [MemberAddress(mac(1), 1)], 2: [MemberAddress(mac(1), 2)], 3: []}, now=0.0)
    assert contents(table, 3) == {mac(1): 2}
    assert table.moves == ()


def test_digest_of_nothing_is_that_of_a_fresh_agent() -> None:
    assert VeswTable().digest_for(1) == EMPTY
    assert digest_of([bytes(16)]) == EMPTY


@pytest.mark.parametrize("total", [1, 1 << 32, (1 << 64) + 1, 0xFFFFFFFF_FFFFFFFE])
def test_fold_never_gives_a_reserved_digest(total: int) -> None:
    assert fold(total) not in (EMPTY, DIRTY)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_digest_depends_on_contents_alone(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    wandering = VeswTable()
    wanted: dict[int, list[MemberAddress]] = {}
    for _ in range(steps):
        owners = rng.sample(range(1, 9), rng.randint(0, 8))
        numbers = iter(rng.sample(range(1, 400), 40 * len(owners)))
        wanted = {owner: [MemberAddress(mac(next(numbers)), owner) for _ in range(40)] for owner in owners}
        wandering.update(wanted)
    fresh = VeswTable()
    fresh.update(wanted)
    for owner in range(1, 9):
        assert contents(wandering, owner) == contents(fresh, owner)
        assert wandering.digest_for(owner) == fresh.digest_for(owner) == wandering.table_for(owner).digest
        entries = [e for s in wandering.table_for(owner).sections for e in _entries(s)]
        assert digest_of(entries) == fresh.digest_for(owner)


def _entries(section: bytes) -> list[bytes]:
    return [section[at : at + ENTRY.size] for at in range(0, len(section), ENTRY.size)]
