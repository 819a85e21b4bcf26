"""The MAC table works out its destinations late: what is found is what each update one by one would have given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.types import MacAddr
from opavnic.vnic.mac_table import MacTable
from vema.attributes.mac_entries import MacEntry

entry = st.builds(
    MacEntry,
    mac=st.integers(1, 6).map(lambda n: MacAddr(bytes((2, 0, 0, 0, 0, n)))),
    mask=st.just(b"\xff" * 6),
    dlid_sd=st.tuples(st.integers(0, 9), st.sampled_from([0, 0, 0, 0x20])).map(lambda v: v[0] << 8 | v[1]),
)
update = st.tuples(st.integers(0, 10), st.lists(st.none() | entry, max_size=5))


@settings(max_examples=300)
@given(st.lists(update, max_size=8))
def test_lookup_after_many_updates_equals_lookup_after_each(
    updates: list[tuple[int, list[MacEntry | None]]],
) -> None:
    late, early = MacTable(), MacTable()
    for offset, entries in updates:
        late = late.replace_section(offset, entries, 7)
        early = early.replace_section(offset, entries, 7)
        dict(early.dlids)  # worked out at each step
    assert dict(late.dlids) == dict(early.dlids)
    assert late.entries() == early.entries()
    assert len(late) == len(late.entries())


def test_more_updates_than_are_kept_back_lose_nothing() -> None:
    table = MacTable()
    for n in range(200):
        mac = MacAddr(bytes((2, 0, 0, 0, 0, n % 5 + 1)))
        table = table.replace_section(n, [MacEntry(mac, b"\xff" * 6, (n + 1) << 8)], n)
    assert table.digest == 199
    assert len(table) == 200
    assert set(table.dlids) == {bytes((2, 0, 0, 0, 0, n)) for n in range(1, 6)}
    assert table.dlids.get(bytes((2, 0, 0, 0, 0, 9))) is None


def test_section_beyond_the_last_entry_is_holes() -> None:
    one = MacEntry(MacAddr(b"\2\0\0\0\0\1"), b"\xff" * 6, 0x500)
    table = MacTable().replace_section(3, [one], 1)
    assert table.section(2, 4) == (None, one, None, None)
    assert table.section(100, 2) == (None, None)
