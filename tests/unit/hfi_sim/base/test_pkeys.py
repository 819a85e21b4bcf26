"""The partition rules of a port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.pkeys import PkeyTable

pkeys = st.integers(0, 0xFFFF).filter(lambda pkey: pkey & 0x7FFF)


@given(st.lists(pkeys, min_size=1, max_size=16), pkeys)
def test_admits_any_pkey_follows_membership_rule(entries: list[int], pkey: int) -> None:
    expected = any(entry & 0x7FFF == pkey & 0x7FFF and (entry & 0x8000 or pkey & 0x8000) for entry in entries)
    assert PkeyTable.of(entries).admits(pkey) == expected


def test_may_send_limited_member_with_full_pkey_refused() -> None:
    table = PkeyTable.of([0x0002])
    assert table.may_send(0x0002)
    assert not table.may_send(0x8002)


def test_management_full_member_prefers_full() -> None:
    assert PkeyTable.of([0x7FFF, 0xFFFF]).management == 0xFFFF
    assert PkeyTable.of([0x7FFF, 0x8002]).management == 0x7FFF


@pytest.mark.parametrize("asked", [0x0002, 0x8002])
def test_answer_bears_the_ports_own_pkey_of_the_partition(asked: int) -> None:
    assert PkeyTable.of([0x7FFF, 0x8002]).answering(asked) == 0x8002
    assert PkeyTable.of([0xFFFF, 0x0002]).answering(asked) == 0x0002


@pytest.mark.parametrize("pkey", [0, 0x8000, 0x10001])
def test_table_with_no_partition_raises(pkey: int) -> None:
    with pytest.raises(ValueError, match="names no partition"):
        PkeyTable.of([pkey])
