"""Who is master: never two at once, and soon one when the master dies."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.errors import WireError
from vema.em.election import Beat, BeatState, Election, Role

HEARTBEAT_S = 0.5
DEAD_S = 5.0


class Air:
    """Elections that hear each other over a lossy medium, in steps of 50 ms."""

    def __init__(self, ranks: list[tuple[int, int]], *, loss: float = 0.0, seed: int = 1) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)
        self.loss = loss
        self.dead: set[int] = set()
        self.all = [self._new(priority, guid) for priority, guid in ranks]

    def _new(self, priority: int, guid: int) -> Election:
        return Election(
            guid=guid, priority=priority, heartbeat_s=HEARTBEAT_S, dead_after_s=DEAD_S, now=self.now
        )

    def masters(self) -> list[int]:
        return [e.guid for e in self.all if e.may_write and e.guid not in self.dead]

    def run(self, seconds: float) -> list[list[int]]:
        """Let time pass; return who was master at each step."""
        history = []
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            for election in self.all:
                if election.guid in self.dead:
                    continue
                election.wake(self.now)
                election.drained(self.now)
                for beat in election.take_beats():
                    self._send(beat)
            history.append(self.masters())
        return history

    def _send(self, beat: Beat) -> None:
        for other in self.all:
            if other.guid != beat.guid and other.guid not in self.dead and self.rng.random() >= self.loss:
                other.heard(self.now, beat)


def test_highest_priority_then_lowest_guid_becomes_master() -> None:
    air = Air([(1, 30), (5, 20), (5, 10)])
    air.run(DEAD_S + 1)
    assert air.masters() == [10]


def test_alone_it_is_master_after_listening() -> None:
    air = Air([(0, 1)])
    assert [1] not in air.run(DEAD_S - 0.1)
    air.run(0.2)
    assert air.masters() == [1]


def test_takeover_within_the_stated_time() -> None:
    air = Air([(5, 10), (1, 20)])
    air.run(DEAD_S + 1)
    air.dead.add(10)
    air.run(DEAD_S + HEARTBEAT_S)
    assert air.masters() == [20]


def test_better_candidate_takes_over_in_order() -> None:
    air = Air([(1, 10)])
    air.run(DEAD_S + 1)
    air.all.append(air._new(9, 20))
    history = air.run(3)
    assert air.masters() == [20]
    assert all(len(masters) <= 1 for masters in history)


def test_master_that_slept_asks_before_it_writes() -> None:
    air = Air([(5, 10), (1, 20)])
    air.run(DEAD_S + 1)
    sleeper = air.all[0]
    air.dead.add(10)
    air.run(DEAD_S + 1)
    air.dead.clear()
    assert sleeper.role is Role.MASTER  # it does not know yet
    assert not sleeper.check(air.now)
    assert air.masters() == [20]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_never_two_masters_under_loss(seed: int) -> None:
    air = Air([(5, 10), (1, 20), (3, 30)], loss=0.3, seed=seed)
    history = air.run(40)
    assert all(len(masters) <= 1 for masters in history)
    assert air.masters() == [10]


def test_two_masters_after_a_cut_leave_the_better_one() -> None:
    air = Air([(5, 10), (1, 20)], loss=1.0)
    air.run(DEAD_S + 1)
    assert air.masters() == [10, 20]  # each side of the cut has one
    air.loss = 0.0
    air.run(HEARTBEAT_S + 0.1)
    assert air.masters() == [10]


def test_beat_goes_through_a_mad() -> None:
    beat = Beat(BeatState.RESIGNED, 7, 0x1234, 0x5678)
    mad = beat.build_mad(5)
    assert len(mad) == 2048
    assert Beat.parse_mad(mad) == beat
    with pytest.raises(WireError):
        Beat.parse_mad(mad[:50])
