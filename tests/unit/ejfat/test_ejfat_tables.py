from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.errors import TableError
from ejfat.tables.match_action import Entry, KeyMatch, Table, exact, prefix_match
from ejfat.tables.schema import (
    V1_CALENDAR,
    V1_DST_FILTER,
    V1_EPOCH,
    V23_L2_IFACE,
    V23_MAC_DST,
    Dialect,
    Op,
    TableSet,
    Update,
)


def epoch(value: int, length: int, number: int, priority: int = 0) -> Entry:
    return Entry((prefix_match(value, length),), "do_assign_epoch", (number,), priority)


def slot(epoch_id: int, number: int, member: int) -> Entry:
    return Entry(exact(V1_CALENDAR, epoch_id, number), "do_assign_member", (member,))


@given(
    prefixes=st.lists(
        st.tuples(st.integers(0, 255), st.integers(0, 8)),
        max_size=20,
        unique_by=lambda p: (p[0] >> (8 - p[1]), p[1]),
    ),
    tick=st.integers(0, 255),
    data=st.data(),
)
def test_lpm_longest_prefix_wins_whatever_the_priority(
    prefixes: list[tuple[int, int]], tick: int, data: st.DataObject
) -> None:
    table = Table(V1_EPOCH)
    for number, (value, length) in enumerate(prefixes):
        table.insert(epoch(value << 56, length, number, data.draw(st.integers(0, 64))))
    matching = [
        (length, n)
        for n, (value, length) in enumerate(prefixes)
        if value >> (8 - length) == tick >> (8 - length)
    ]
    found = table.lookup(tick << 56)
    assert (found.args[0] if found else None) == (max(matching)[1] if matching else None)


def test_lpm_lookup_follows_later_changes() -> None:
    table = Table(V1_EPOCH)
    table.insert(epoch(0, 0, 1))
    assert table.lookup(5).args == (1,)  # type: ignore[union-attr]
    table.insert(epoch(4, 62, 2))
    assert table.lookup(5).args == (2,)  # type: ignore[union-attr]
    table.delete((prefix_match(4, 62),))
    assert table.lookup(5).args == (1,)  # type: ignore[union-attr]


def test_insert_host_bits_below_the_prefix_are_masked() -> None:
    table = Table(V1_EPOCH)
    table.insert(Entry((KeyMatch(0x1F, (1 << 64) - 16),), "do_assign_epoch", (1,)))
    with pytest.raises(TableError, match="already is an entry for 0x0000000000000010/60"):
        table.insert(epoch(0x13, 60, 2))


def test_field_mask_lowest_priority_number_wins() -> None:
    table = Table(V23_L2_IFACE)
    table.insert(Entry((KeyMatch(0, 0),), "set_l2_iface", (1, 1), 9))
    table.insert(Entry((KeyMatch(5, 0xFFF),), "set_l2_iface", (2, 2), 5))
    table.insert(Entry((KeyMatch(4, 0xFFE),), "set_l2_iface", (3, 3), 7))
    assert [table.lookup(vid).args[0] for vid in (5, 4, 6)] == [2, 3, 1]  # type: ignore[union-attr]


def test_insert_into_full_table_is_refused_and_changes_nothing() -> None:
    table = Table(V1_DST_FILTER)
    for number in range(32):
        table.insert(Entry(exact(V1_DST_FILTER, number, 0x800, 1), "NoAction"))
    with pytest.raises(TableError, match="dst_filter_table: full with 32 entries"):
        table.insert(Entry(exact(V1_DST_FILTER, 99, 0x800, 1), "NoAction"))
    assert len(table) == 32
    table.put(Entry(exact(V1_DST_FILTER, 3, 0x800, 1), "drop"))
    assert table.lookup(3, 0x800, 1).action == "drop"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry((), "do_assign_member", (1,)), "0 key fields, expected 2"),
        (slot(1 << 32, 0, 1), "does not fit 32 bits"),
        (slot(0, 0, 1 << 16), "member_id 0x10000 does not fit 16 bits"),
        (Entry(exact(V1_CALENDAR, 0, 0), "jump", ()), "no action 'jump', expected do_assign_member or drop"),
        (Entry(exact(V1_CALENDAR, 0, 0), "drop", (1,)), "drop takes 0 arguments, not 1"),
        (Entry((KeyMatch(0, 1), KeyMatch(0, 511)), "drop"), "exact key"),
    ],
)
def test_insert_entry_of_another_shape_is_refused(entry: Entry, message: str) -> None:
    table = Table(V1_CALENDAR)
    with pytest.raises(TableError, match=message):
        table.insert(entry)
    assert len(table) == 0


def test_delete_of_missing_entry_names_it() -> None:
    with pytest.raises(TableError, match="no entry for 0x00000007 0x001"):
        Table(V1_CALENDAR).delete(exact(V1_CALENDAR, 7, 1))


def test_clear_empties_the_table() -> None:
    table = Table(V1_CALENDAR)
    table.insert(slot(0, 0, 1))
    table.clear()
    assert (len(table), list(table), table.lookup(0, 0)) == (0, [], None)


def test_apply_refused_in_the_middle_changes_nothing() -> None:
    tables = TableSet()
    calendar = tables.table(Dialect.V1, V1_CALENDAR.name)
    calendar.insert(slot(0, 0, 1))
    calendar.insert(slot(0, 1, 1))

    def update(op: Op, entry: Entry) -> Update:
        return Update(op, Dialect.V1, V1_CALENDAR.name, entry)

    with pytest.raises(TableError, match="no entry"):
        tables.apply(
            [
                update(Op.PUT, slot(0, 0, 9)),
                update(Op.PUT, slot(1, 0, 9)),
                update(Op.DELETE, slot(0, 1, 0)),
                update(Op.DELETE, slot(2, 0, 9)),
            ]
        )
    assert sorted((entry.matches[0].value, entry.matches[1].value, entry.args[0]) for entry in calendar) == [
        (0, 0, 1),
        (0, 1, 1),
    ]


def test_table_of_the_other_pipeline_is_named() -> None:
    with pytest.raises(TableError, match="no table 'dst_filter_table' in the pipeline of v2/v3"):
        TableSet().table(Dialect.V23, V1_DST_FILTER.name)
    assert Table(V23_MAC_DST).spec.takes_priority
