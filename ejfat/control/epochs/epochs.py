"""Epochs: a new calendar takes over at a future tick, without moving any event that is in flight.

An epoch is connected if the epoch table leads to it. A connected epoch is never changed. The next epoch is written
under a new number while nothing leads to it; then the ticks of the current epoch are pinned to it by a cover of
prefixes that ends at the boundary; finally the wildcard is switched to the next epoch. The entries of the old epoch
are removed when its last events have run out.

Source: seed 002, "Making Changes to the Load Balancer Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ejfat.base.errors import ControlError, ExhaustedError
from ejfat.control.epochs import programming
from ejfat.control.epochs.calendar import EVERYTHING, TICKS, Prefix, cover
from ejfat.control.epochs.programming import TableTarget
from ejfat.tables.schema import SLOTS, Op, Update

MAX_LIVE = 4
"""Calendars that fit in the v1 table of 2048 entries."""
COVER_ROOM = 127
"""Epoch assignments, besides the wildcard, that fit in the v1 table of 128 entries."""
_NUMBERS = 1 << 32


@dataclass(frozen=True, slots=True)
class Epoch:
    """A calendar and its first tick."""

    number: int
    start: int
    members: tuple[int, ...]
    """The member of each slot."""


@dataclass(slots=True)
class Retiring:
    """An epoch with a successor; the ticks from its start up to, not including, `end` still belong to it."""

    epoch: Epoch
    end: int
    cover: tuple[Prefix, ...]
    passed_at: float | None = None
    """When a tick at or after `end` was first seen; from then on its last events run out."""


class EpochManager:
    """The epochs of one instance. Methods that change epochs return table updates in the order to apply them."""

    def __init__(self, target: TableTarget, *, next_number: int = 0) -> None:
        self.target = target
        self.current: Epoch | None = None
        self.retiring: list[Retiring] = []
        """Oldest first."""
        self.next_number = next_number
        self.prepared: Epoch | None = None
        """The next epoch after its calendar has been written, before any tick leads to it."""

    @property
    def live(self) -> list[Epoch]:
        """All connected epochs, oldest first."""
        return [old.epoch for old in self.retiring] + ([self.current] if self.current else [])

    @property
    def members_in_use(self) -> set[int]:
        """Members in a connected calendar, whose rewrites must not change."""
        return {member for epoch in self.live for member in epoch.members}

    @property
    def can_transition(self) -> bool:
        """Whether there is room for another calendar."""
        return len(self.live) < MAX_LIVE

    def begin(self, members: Sequence[int]) -> list[Update]:
        """Return the updates for the first epoch: its calendar, then the assignment of all ticks.

        Raises:  ControlError: there already is an epoch, or the calendar does not have all slots.
        """
        if self.current is not None:
            raise ControlError(f"instance {self.target.lb_id} already has epoch {self.current.number}")
        epoch = self._make(members)
        self.current = epoch
        return self._calendar(epoch, Op.PUT) + self._assign(epoch, Op.PUT)

    def prepare(self, members: Sequence[int]) -> list[Update]:
        """Return the updates that write the calendar of the next epoch. Frames may pass while they are applied.

        Raises:  ControlError: there is no first epoch, or the calendar does not have all slots. ExhaustedError: no
            room for the calendar.
        """
        if self.current is None:
            raise ControlError(f"instance {self.target.lb_id} has no epoch to follow")
        if not self.can_transition:
            raise ExhaustedError(f"{MAX_LIVE} epochs are connected and have not run out yet")
        epoch = self.prepared = self._make(members)
        return self._calendar(epoch, Op.PUT)

    def discard(self) -> list[Update]:
        """Drop the prepared epoch; return the updates that remove its calendar."""
        epoch, self.prepared = self.prepared, None
        if epoch is None:
            return []
        self.next_number = epoch.number
        return self._calendar(epoch, Op.DELETE)

    def connect(self, boundary: int) -> list[Update]:
        """Return the updates that make the prepared epoch begin at `boundary`; earlier ticks do not move.

        Args:    boundary: after every tick that has been sent so far.
        Raises:  ControlError: nothing is prepared, or the boundary is not after the start of the current epoch.
            ExhaustedError: no room for the cover. In either case nothing has changed.
        """
        old, new = self.current, self.prepared
        if old is None or new is None:
            raise ControlError(f"instance {self.target.lb_id} has no epoch prepared")
        start = old.start
        if boundary <= start and not self.retiring:
            start = 0  # ticks went backwards or wrapped: the wildcard served them, so the cover begins at 0
        if not start < boundary < TICKS:
            raise ControlError(
                f"boundary {boundary:#x} is not after the start of epoch {old.number}, {start:#x}"
            )
        room = COVER_ROOM - sum(len(past.cover) for past in self.retiring)
        prefixes = cover(start, boundary, room)
        self.retiring.append(Retiring(old, boundary, prefixes))
        self.current, self.prepared = Epoch(new.number, boundary, new.members), None
        return self._assign(old, Op.PUT, prefixes) + self._assign(new, Op.PUT)

    def withdraw(self) -> list[Update]:
        """Return the updates that withdraw the current epoch, which no tick has reached, in favour of the previous one.

        No tick below the boundary moves at any step, because the wildcard leads to the previous epoch before its
        cover is removed.

        Raises:  ControlError: there is no previous epoch.
        """
        gone = self.current
        if gone is None or not self.retiring:
            raise ControlError(f"instance {self.target.lb_id} has no epoch to go back to")
        old = self.retiring.pop()
        self.current = old.epoch
        updates = self._assign(old.epoch, Op.PUT) + self._assign(old.epoch, Op.DELETE, old.cover)
        return updates + self._calendar(gone, Op.DELETE)

    def observe(self, tick: int, now: float) -> None:
        """Record that `tick` has been seen: epochs that end at or before it begin to run out."""
        for old in self.retiring:
            if old.passed_at is None and tick >= old.end:
                old.passed_at = now

    def retire(self, now: float, quiescence_s: float, *, idle: bool = False) -> list[Update]:
        """Return the updates that remove epochs whose events have run out: cover first, then calendar.

        Args:    quiescence_s: seconds for which an event may be in flight after the boundary has been passed.
            idle: nothing has been sent for so long that no event is in flight.
        """
        updates: list[Update] = []
        while self.retiring:
            old = self.retiring[0]
            ran_out = old.passed_at is not None and now >= old.passed_at + quiescence_s
            if not ran_out and not idle:
                break
            self.retiring.pop(0)
            updates += self._assign(old.epoch, Op.DELETE, old.cover) + self._calendar(old.epoch, Op.DELETE)
        return updates

    def program(self) -> list[Update]:
        """Return the updates that program all epochs again, for example after the tables were lost."""
        updates: list[Update] = []
        for epoch in self.live:
            updates += self._calendar(epoch, Op.PUT)
        for old in self.retiring:
            updates += self._assign(old.epoch, Op.PUT, old.cover)
        return updates if self.current is None else updates + self._assign(self.current, Op.PUT)

    def clear(self) -> list[Update]:
        """Remove all epochs; return the updates, after which every tick misses."""
        updates, gone, self.current = self.discard(), self.current, None
        if gone is not None:
            updates += self._assign(gone, Op.DELETE)
        updates += self.retire(0.0, 0.0, idle=True)
        return updates if gone is None else updates + self._calendar(gone, Op.DELETE)

    def _calendar(self, epoch: Epoch, op: Op) -> list[Update]:
        return programming.calendar(self.target, epoch.number, epoch.members, op)

    def _assign(self, epoch: Epoch, op: Op, prefixes: Sequence[Prefix] = (EVERYTHING,)) -> list[Update]:
        updates = (programming.assignment(self.target, prefix, epoch.number, op) for prefix in prefixes)
        return [update for both in updates for update in both]

    def _make(self, members: Sequence[int]) -> Epoch:
        if len(members) != SLOTS:
            raise ControlError(f"the calendar has {len(members)} slots, expected {SLOTS}")
        taken = {epoch.number for epoch in self.live}
        while self.next_number in taken:  # only after 2**32 epochs
            self.next_number = (self.next_number + 1) % _NUMBERS
        epoch = Epoch(self.next_number, 0, tuple(members))
        self.next_number = (self.next_number + 1) % _NUMBERS
        return epoch
