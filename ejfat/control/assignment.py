"""Which worker gets which slots of the next epoch: by weight, by demand, or both. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from ejfat.control.epochs import demands
from ejfat.control.epochs.calendar import Claim, apportion, scatter, shares, spread
from ejfat.control.members import Session


class Strategy(StrEnum):
    """How slots are assigned."""

    DYNAMIC = "dynamic"
    """By weight; the weights follow the workers' reports."""
    STATIC = "static"
    """Slots that workers demand by number first, the rest by the weights given at registration."""
    EXPLICIT = "explicit"
    """Only the slots that workers demand by number; packets for other slots are dropped."""


def next_calendar(
    strategy: Strategy, ready: Sequence[Session], current: Sequence[int] | None, min_change: int, seed: str
) -> tuple[int, ...] | None:
    """Return the member of each slot in the next epoch; None if the current calendar can stay.

    Args:  ready: sessions that get slots. current: the calendar in force, if it was scattered by the same seed.
           min_change: slots that must move, unless a member joins or leaves. seed: what slots are scattered by.
    """
    claims = {
        session.member_id: Claim(session.weight, session.worker.min_factor, session.worker.max_factor)
        for session in ready
    }
    if strategy is Strategy.EXPLICIT or any(session.worker.slot_demands for session in ready):
        in_order = sorted(ready, key=lambda session: session.session_id)
        demanded = demands.place({session.member_id: session.worker.slot_demands for session in in_order})
        return tuple(demanded) if strategy is Strategy.EXPLICIT else demands.fill(demanded, claims)
    wanted = {member: count for member, count in apportion(claims).items() if count}
    if current is not None:
        have = shares(current)
        moved = sum(abs(wanted.get(m, 0) - have.get(m, 0)) for m in wanted.keys() | have.keys()) // 2
        if not moved or (moved < min_change and wanted.keys() == have.keys()):
            return None
    return scatter(spread(wanted), seed)
