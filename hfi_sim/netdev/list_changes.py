"""The single changes behind two readings of a device's address lists.

A driver is called once for each address that the host adds or removes. A reader that polls the lists
sees several such changes at once, and separates them here.

Source: the kernel's dev_addr_lists.c: an address is added at the end of its list, none ever moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.netlink import KernelAddressLists


def single_changes(before: KernelAddressLists, after: KernelAddressLists) -> Iterator[KernelAddressLists]:
    """Yield the lists after each change that leads from `before` to `after`; nothing where they are equal.

    The order is that of a macvlan: it takes multicast addresses away before its own, and adds its own before
    multicast addresses.
    """
    kept_uc, kept_mc = _kept(before.uc, after.uc), _kept(before.mc, after.mc)
    for mc in _without(before.mc, kept_mc):
        yield KernelAddressLists(before.uc, mc)
    for uc in _without(before.uc, kept_uc):
        yield KernelAddressLists(uc, kept_mc)
    for end in range(len(kept_uc) + 1, len(after.uc) + 1):
        yield KernelAddressLists(after.uc[:end], kept_mc)
    for end in range(len(kept_mc) + 1, len(after.mc) + 1):
        yield KernelAddressLists(after.uc, after.mc[:end])


def _without(macs: tuple[MacAddr, ...], kept: tuple[MacAddr, ...]) -> Iterator[tuple[MacAddr, ...]]:
    """Yield what is left of `macs` after each of the others was removed, the first of them first."""
    index = 0
    while len(macs) > len(kept):
        if index < len(kept) and macs[index] == kept[index]:
            index += 1
        else:
            macs = macs[:index] + macs[index + 1 :]
            yield macs


def _kept(before: Sequence[MacAddr], after: Sequence[MacAddr]) -> tuple[MacAddr, ...]:
    """Return the beginning of `after` that was not added since: its addresses stand in `before` in that order."""
    rest = iter(before)
    for index, mac in enumerate(after):
        if mac not in rest:  # moves on to behind it
            return tuple(after[:index])
    return tuple(after)
