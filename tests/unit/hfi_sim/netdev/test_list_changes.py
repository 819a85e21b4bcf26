"""Two readings of address lists, taken apart into the changes that a driver would have been called for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.netlink import KernelAddressLists, single_changes

A, B, C, D = (MacAddr(bytes([2, 0, 0, 0, 0, last])) for last in range(4))
macs = st.lists(st.integers(0, 9), unique=True).map(
    lambda lasts: tuple(MacAddr(bytes([2, 0, 0, 0, 0, last])) for last in lasts)
)
lists = st.builds(KernelAddressLists, macs, macs)


def changes(before: KernelAddressLists, after: KernelAddressLists) -> list[tuple[tuple[MacAddr, ...], ...]]:
    return [(lists.uc, lists.mc) for lists in single_changes(before, after)]


def test_each_added_address_is_a_change_own_address_first() -> None:
    assert changes(KernelAddressLists((A,), (B,)), KernelAddressLists((A, D), (B, C, D))) == [
        ((A, D), (B,)),
        ((A, D), (B, C)),
        ((A, D), (B, C, D)),
    ]


def test_each_removed_address_is_a_change_multicast_first() -> None:
    assert changes(KernelAddressLists((A, B), (B, C, D)), KernelAddressLists((A,), (C,))) == [
        ((A, B), (C, D)),
        ((A, B), (C,)),
        ((A,), (C,)),
    ]


def test_address_that_went_and_came_again_stands_last() -> None:
    assert changes(KernelAddressLists(mc=(A, B, C)), KernelAddressLists(mc=(A, C, B))) == [
        ((), (A, C)),
        ((), (A, C, B)),
    ]


@given(before=lists, after=lists)
def test_changes_lead_from_one_to_the_other_and_each_changes_one_list(
    before: KernelAddressLists, after: KernelAddressLists
) -> None:
    last = before
    for now in single_changes(before, after):
        assert (now.uc != last.uc) + (now.mc != last.mc) == 1
        assert abs(len(now.uc) - len(last.uc)) + abs(len(now.mc) - len(last.mc)) == 1
        last = now
    assert last == after
