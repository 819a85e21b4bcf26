"""Slot demands: slots that a worker requests as ranges of the calendar, at a fixed place or anywhere.

Source: the public control plane: `static` assigns demanded slots first and shares the rest by weight; `explicit`
    assigns only demanded slots. An unassigned slot has a member number without a rewrite, so its packets are dropped.
Differs: demands that no calendar can satisfy are refused when they are made; `test_demands_*` pin it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ejfat.base.errors import BadRequestError
from ejfat.control.epochs.calendar import Claim, apportion, spread
from ejfat.tables.schema import SLOTS

UNASSIGNED = 0xFFFF
"""Member number of an unassigned slot."""
ANYWHERE = -1


@dataclass(frozen=True, slots=True)
class SlotRange:
    """`length` slots from `index` on; `index` -1: the first empty slots."""

    index: int
    length: int

    def check(self) -> None:
        """Refuse a range outside the calendar.

        Raises:  BadRequestError: with the value and the expected range.
        """
        if not 1 <= self.length <= SLOTS:
            raise BadRequestError(f"a demand for {self.length} slots, expected 1 to {SLOTS}")
        if self.index != ANYWHERE and not 0 <= self.index <= SLOTS - self.length:
            raise BadRequestError(
                f"slots {self.index} to {self.index + self.length - 1}, expected 0 to {SLOTS - 1}, or index -1"
            )


Demands = Mapping[int, Sequence[SlotRange]]
"""Slot ranges by member."""


def place(demands: Demands) -> list[int]:
    """Return the member of each slot, or `UNASSIGNED` if no member demands it.

    Fixed ranges are placed first, then those that may be anywhere, each in the order of `demands`. A slot that is
    already assigned is not reassigned.
    """
    calendar = [UNASSIGNED] * SLOTS
    for member, ranges in demands.items():
        for item in ranges:
            for slot in range(item.index, item.index + item.length) if item.index != ANYWHERE else ():
                if calendar[slot] == UNASSIGNED:
                    calendar[slot] = member
    for member, ranges in demands.items():
        for item in ranges:
            if item.index == ANYWHERE:
                empty = [slot for slot, owner in enumerate(calendar) if owner == UNASSIGNED]
                for slot in empty[: item.length]:
                    calendar[slot] = member
    return calendar


def check(demands: Demands, names: Mapping[int, str]) -> None:
    """Refuse demands that no calendar can satisfy.

    Args:    names: member names for the error message.
    Raises:  BadRequestError: a range outside the calendar, a slot demanded twice, or more slots than exist.
    """
    owners: dict[int, int] = {}
    for member, ranges in demands.items():
        for item in ranges:
            item.check()
            for slot in range(item.index, item.index + item.length) if item.index != ANYWHERE else ():
                if slot in owners:
                    raise BadRequestError(
                        f"{names[member]} demands slot {slot}, which {names[owners[slot]]} already has"
                    )
                owners[slot] = member
    total = sum(item.length for ranges in demands.values() for item in ranges)
    if total > SLOTS:
        raise BadRequestError(f"{total} slots are demanded in total; the calendar has {SLOTS}")


def fill(calendar: Sequence[int], claims: Mapping[int, Claim]) -> tuple[int, ...]:
    """Return the calendar with its empty slots shared among members by weight and spread evenly."""
    empty = calendar.count(UNASSIGNED)
    counts = {member: count for member, count in apportion(claims, empty).items() if count} if empty else {}
    rest = iter(spread(counts))
    return tuple(next(rest, UNASSIGNED) if member == UNASSIGNED else member for member in calendar)


def ranges(calendar: Sequence[int]) -> dict[int, list[SlotRange]]:
    """Return the slots of each member of a calendar."""
    found: dict[int, list[SlotRange]] = {}
    at = 0
    for owner, group in groupby(calendar):
        length = len(list(group))
        found.setdefault(owner, []).append(SlotRange(at, length))
        at += length
    return found
