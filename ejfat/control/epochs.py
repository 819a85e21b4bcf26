"""Epochs: a new calendar takes over at a tick of the future, and no event that is under way moves.

An epoch that the epoch table leads to is connected, and a connected epoch is never changed. The next one is made
off line under a fresh number; the ticks of the present one are then pinned to it by a prefix cover that ends at
the boundary; only then is the wildcard turned to the next one. What the old one held goes when its ticks are over.

Source: seed 002, "Making Changes to the Load Balancer Configuration".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ejfat.control import programming
from ejfat.control.prefixes import EVERYTHING, TICKS, Prefix, cover, covered
from ejfat.control.programming import Target
from ejfat.errors import ControlError, ExhaustedError
from ejfat.schema import SLOTS, Op, Update

MAX_LIVE = 4
"""Calendars that fit the table of the document: 2048 entries."""
COVER_ROOM = 127
"""Epoch assignments beside the wildcard that fit the table of the document: 128 entries."""
_NUMBERS = 1 << 32


@dataclass(frozen=True, slots=True)
class Epoch:
    """A calendar and the first tick it is meant for."""

    number: int
    start: int
    members: tuple[int, ...]
    """The member of every slot."""


@dataclass(slots=True)
class Retiring:
    """An epoch that a newer one has followed: the ticks from its start to `end` are still its own."""

    epoch: Epoch
    end: int
    cover: tuple[Prefix, ...]
    passed_at: float | None = None
    """When ticks at or behind `end` were first seen; from then on its last events run out."""


class EpochManager:
    """The epochs of one instance. Every method returns table updates, in the order they must be applied."""

    def __init__(self, target: Target, *, next_number: int = 0) -> None:
        self.target = target
        self.current: Epoch | None = None
        self.retiring: list[Retiring] = []
        """Oldest first."""
        self.next_number = next_number
        self.prepared: Epoch | None = None
        """The next epoch, while its calendar is written and nothing leads to it yet."""

    @property
    def live(self) -> list[Epoch]:
        """All connected epochs, oldest first."""
        return [old.epoch for old in self.retiring] + ([self.current] if self.current else [])

    @property
    def members_in_use(self) -> set[int]:
        """Members that a connected calendar names: their rewrites must stay as they are."""
        return {member for epoch in self.live for member in epoch.members}

    @property
    def can_transition(self) -> bool:
        """Whether there is room for another calendar."""
        return len(self.live) < MAX_LIVE

    def epoch_of(self, tick: int) -> Epoch | None:
        """Return the epoch that a tick belongs to, as the data plane will see it."""
        for old in self.retiring:
            if covered(old.cover, tick):
                return old.epoch
        return self.current

    def begin(self, members: Sequence[int]) -> list[Update]:
        """Return the updates that make the first epoch: its calendar, then all ticks to it.

        Raises:  ControlError: there is an epoch already, or the calendar has an empty slot.
        """
        if self.current is not None:
            raise ControlError(f"instance {self.target.lb_id} has epoch {self.current.number} already")
        epoch = self._make(members, 0)
        updates = programming.calendar(self.target, epoch.number, epoch.members, Op.PUT)
        updates += programming.assignment(self.target, EVERYTHING, epoch.number, Op.PUT)
        self.current = epoch
        return updates

    def transition(self, members: Sequence[int], boundary: int) -> list[Update]:
        """Return the updates that make a new epoch begin at tick `boundary`: `prepare` and `connect` at once.

        Raises:  ControlError, ExhaustedError: as these do. Nothing has changed then.
        """
        updates = self.prepare(members)
        try:
            return updates + self.connect(boundary)
        except ControlError:
            self.discard()
            raise

    def prepare(self, members: Sequence[int]) -> list[Update]:
        """Return the updates that write the next epoch's calendar off line; frames may pass meanwhile.

        Raises:  ControlError: no first epoch, an empty slot. ExhaustedError: no room for the calendar.
        """
        if self.current is None:
            raise ControlError(f"instance {self.target.lb_id} has no epoch to follow")
        if not self.can_transition:
            raise ExhaustedError(f"{MAX_LIVE} epochs are connected, none of them has run out yet")
        epoch = self.prepared = self._make(members, 0)
        return programming.calendar(self.target, epoch.number, epoch.members, Op.PUT)

    def discard(self) -> list[Update]:
        """Return the updates that remove the calendar of the epoch that was prepared."""
        epoch, self.prepared = self.prepared, None
        if epoch is None:
            return []
        self.next_number = epoch.number
        return programming.calendar(self.target, epoch.number, epoch.members, Op.DELETE)

    def connect(self, boundary: int) -> list[Update]:
        """Return the updates that make the prepared epoch begin at `boundary`; ticks before it stay where they are.

        Args:    boundary: behind every tick that has been sent yet.
        Raises:  ControlError: nothing is prepared, or the boundary is not behind the present epoch's start.
            ExhaustedError: no room for the cover. Nothing has changed then.
        """
        old, new = self.current, self.prepared
        if old is None or new is None:
            raise ControlError(f"instance {self.target.lb_id} has no epoch prepared")
        start = old.start
        if boundary <= start and not self.retiring:
            start = (
                0  # ticks went backwards or wrapped: the wildcard has carried them, so the cover begins at 0
            )
        if not start < boundary < TICKS:
            raise ControlError(
                f"boundary {boundary:#x} is not behind the start of epoch {old.number}, {start:#x}"
            )
        room = COVER_ROOM - sum(len(past.cover) for past in self.retiring)
        prefixes = cover(start, boundary, room)
        updates: list[Update] = []
        for prefix in prefixes:
            updates += programming.assignment(self.target, prefix, old.number, Op.PUT)
        updates += programming.assignment(self.target, EVERYTHING, new.number, Op.PUT)
        self.retiring.append(Retiring(old, boundary, prefixes))
        self.current, self.prepared = Epoch(new.number, boundary, new.members), None
        return updates

    def withdraw(self) -> list[Update]:
        """Return the updates that take back the present epoch, which no tick has reached: the one before goes on.

        No tick below the boundary moves at any step: the wildcard leads to the former epoch before its cover goes.

        Raises:  ControlError: there is no epoch before it.
        """
        gone = self.current
        if gone is None or not self.retiring:
            raise ControlError(f"instance {self.target.lb_id} has no epoch to go back to")
        old = self.retiring.pop()
        updates = programming.assignment(self.target, EVERYTHING, old.epoch.number, Op.PUT)
        for prefix in old.cover:
            updates += programming.assignment(self.target, prefix, old.epoch.number, Op.DELETE)
        updates += programming.calendar(self.target, gone.number, gone.members, Op.DELETE)
        self.current = old.epoch
        return updates

    def observe(self, tick: int, now: float) -> None:
        """Take note that `tick` has been seen: epochs that end at or before it begin to run out."""
        for old in self.retiring:
            if old.passed_at is None and tick >= old.end:
                old.passed_at = now

    def retire(self, now: float, quiescence_s: float, *, idle: bool = False) -> list[Update]:
        """Return the updates that remove epochs whose events have run out: cover first, then calendar.

        Args:    quiescence_s: how long an event may still be under way after the boundary has been passed.
            idle: nothing has been sent for long enough that nothing is under way at all.
        """
        updates: list[Update] = []
        while self.retiring:
            old = self.retiring[0]
            ran_out = old.passed_at is not None and now >= old.passed_at + quiescence_s
            if not ran_out and not idle:
                break
            self.retiring.pop(0)
            for prefix in old.cover:
                updates += programming.assignment(self.target, prefix, old.epoch.number, Op.DELETE)
            updates += programming.calendar(self.target, old.epoch.number, old.epoch.members, Op.DELETE)
        return updates

    def program(self) -> list[Update]:
        """Return updates that put everything in place again, as after the loss of the data plane's tables."""
        updates: list[Update] = []
        for epoch in self.live:
            updates += programming.calendar(self.target, epoch.number, epoch.members, Op.PUT)
        for old in self.retiring:
            for prefix in old.cover:
                updates += programming.assignment(self.target, prefix, old.epoch.number, Op.PUT)
        if self.current is not None:
            updates += programming.assignment(self.target, EVERYTHING, self.current.number, Op.PUT)
        return updates

    def clear(self) -> list[Update]:
        """Return updates that remove all epochs; every tick misses then."""
        updates = self.discard()
        if self.current is not None:
            updates += programming.assignment(self.target, EVERYTHING, self.current.number, Op.DELETE)
        updates += self.retire(0.0, 0.0, idle=True)
        if self.current is not None:
            updates += programming.calendar(self.target, self.current.number, self.current.members, Op.DELETE)
        self.current = None
        return updates

    def _make(self, members: Sequence[int], start: int) -> Epoch:
        if len(members) != SLOTS:
            raise ControlError(f"the calendar has {len(members)} slots, all {SLOTS} need a member")
        taken = {epoch.number for epoch in self.live}
        while self.next_number in taken:  # only after 2**32 epochs
            self.next_number = (self.next_number + 1) % _NUMBERS
        epoch = Epoch(self.next_number, start, tuple(members))
        self.next_number = (self.next_number + 1) % _NUMBERS
        return epoch
