"""Slots that a worker asks for by number: ranges of the calendar, fixed, or wherever there is room.

Source: the public control plane: `static` gives demanded slots first and shares the rest by weight, `explicit` gives
    nothing else; a slot of nobody holds a member number that has no rewrite, so its packets end there.
Differs: demands that no calendar can hold are refused when they are made; `test_demands_*` pin it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ejfat.control.calendar import Claim, apportion, spread
from ejfat.errors import BadRequestError
from ejfat.schema import SLOTS

NOBODY = 0xFFFF
"""The member number of a slot without a member."""
ANYWHERE = -1


@dataclass(frozen=True, slots=True)
class SlotRange:
    """`length` slots from `index` on; `index` -1: the first ones that are empty."""

    index: int
    length: int

    def check(self) -> None:
        """Refuse what lies outside the calendar.

        Raises:  BadRequestError: the value, and what would be right.
        """
        if not 1 <= self.length <= SLOTS:
            raise BadRequestError(f"a demand of {self.length} slots, expected 1 to {SLOTS}")
        if self.index != ANYWHERE and not 0 <= self.index <= SLOTS - self.length:
            raise BadRequestError(
                f"slots {self.index} to {self.index + self.length - 1}, expected 0 to {SLOTS - 1}, or index -1"
            )


Demands = Mapping[int, Sequence[SlotRange]]
"""By member."""


def place(demands: Demands) -> list[int]:
    """Return the member of every slot, `NOBODY` where none asks for it.

    Fixed ranges come first, then those that go anywhere; among members the order of `demands` counts, and a slot
    that is taken stays so.
    """
    calendar = [NOBODY] * SLOTS
    for member, ranges in demands.items():
        for item in ranges:
            for slot in range(item.index, item.index + item.length) if item.index != ANYWHERE else ():
                if calendar[slot] == NOBODY:
                    calendar[slot] = member
    for member, ranges in demands.items():
        for item in ranges:
            if item.index == ANYWHERE:
                empty = [slot for slot, owner in enumerate(calendar) if owner == NOBODY]
                for slot in empty[: item.length]:
                    calendar[slot] = member
    return calendar


def check(demands: Demands, names: Mapping[int, str]) -> None:
    """Refuse demands that one calendar cannot hold.

    Args:    names: of the members, for the message.
    Raises:  BadRequestError: a range outside the calendar, a slot asked for twice, more slots than there are.
    """
    owners: dict[int, int] = {}
    for member, ranges in demands.items():
        for item in ranges:
            item.check()
            for slot in range(item.index, item.index + item.length) if item.index != ANYWHERE else ():
                if slot in owners:
                    raise BadRequestError(
                        f"{names[member]} asks for slot {slot}, which is {names[owners[slot]]}'s"
                    )
                owners[slot] = member
    total = sum(item.length for ranges in demands.values() for item in ranges)
    if total > SLOTS:
        raise BadRequestError(f"{total} slots are asked for in all, the calendar has {SLOTS}")


def fill(calendar: Sequence[int], claims: Mapping[int, Claim]) -> tuple[int, ...]:
    """Return a calendar whose empty slots are shared among members by weight, each member's spread evenly."""
    empty = calendar.count(NOBODY)
    counts = {member: count for member, count in apportion(claims, empty).items() if count} if empty else {}
    rest = iter(spread(counts))
    return tuple(next(rest, NOBODY) if member == NOBODY else member for member in calendar)


def ranges_of(calendar: Sequence[int], member: int) -> list[SlotRange]:
    """Return the slots that a member has."""
    found, at = [], 0
    for owner, group in groupby(calendar):
        length = len(list(group))
        if owner == member:
            found.append(SlotRange(at, length))
        at += length
    return found
