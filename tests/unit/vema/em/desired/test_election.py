"""Who is master: never two at once, and soon one when the master dies."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from vema.em.desired.election import Beat, BeatState, Election, Role

HEARTBEAT_S = 0.5
DEAD_S = 5.0


class Air:
    """Elections that hear each other over a lossy medium, in steps of 50 ms."""

    def __init__(self, ranks: list[tuple[int, int]], *, loss: float = 0.0, seed: int = 1) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)
        self.loss = loss
        self.dead: set[int] = set()
        self.heard: dict[tuple[int, int], float] = {}
        """When an election last heard from another that it is the master."""
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
                if beat.state == BeatState.MASTER:
                    self.heard[other.guid, beat.guid] = self.now


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


@pytest.mark.parametrize("seed", [*range(12), 945, 2970, 3097, 9535, 11821, 12399, 12796, 13330, 16212])
def test_never_two_masters_under_loss(seed: int) -> None:
    # the large seeds are those of 20,000 that lose ten heartbeats of the master in a row
    air = Air([(5, 10), (1, 20), (3, 30)], loss=0.3, seed=seed)
    history = air.run(40)
    assert all(len(masters) <= 1 for masters in history)
    assert air.masters() == [10]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.floats(0, 0.9))
def test_standby_takes_over_only_from_a_master_it_has_not_heard(seed: int, loss: float) -> None:
    air = Air([(5, 10), (1, 20), (3, 30)], loss=loss, seed=seed)
    before: list[int] = []
    for _ in range(400):
        [now] = air.run(0.05)
        for new in set(now) - set(before) if before else ():
            for old in set(now) & set(before):
                assert air.now - air.heard.get((new, old), 0.0) >= DEAD_S - 0.05
        before = now


def test_master_is_asked_by_a_standby_that_misses_it_and_answers_at_once() -> None:
    air = Air([(5, 10), (1, 20)])
    air.run(DEAD_S + 1)
    master, standby = air.all
    standby.wake(air.now + 2 * HEARTBEAT_S + 0.1)
    [asking] = standby.take_beats()
    assert asking.state == BeatState.ASKING
    master.heard(air.now + 0.1, asking)
    assert [beat.state for beat in master.take_beats()] == [BeatState.MASTER]
    standby.heard(air.now + 2 * HEARTBEAT_S + 0.2, Beat(BeatState.MASTER, 5, 10))
    standby.wake(air.now + 3 * HEARTBEAT_S + 0.2)
    assert [beat.state for beat in standby.take_beats()] == [BeatState.STANDBY]
    standby.heard(air.now, asking)  # one that asks, too, is not answered by it
    assert standby.take_beats() == []


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


def test_heartbeat_is_a_mad_that_other_versions_can_read() -> None:
    mad = Beat(BeatState.ASKING, 7, 0x11, 0x22).build_mad(0x33)
    assert (mad[1], mad[8:16], mad[16:18]) == (0x4E, (0x33).to_bytes(8, "big"), b"\0\1")
    assert mad[37:60] == bytes.fromhex("024f56 04 07 0000 0000000000000011 0000000000000022")
    assert BeatState(4) is BeatState.ASKING


def test_master_and_standby_that_was_outranked_sleep_until_their_next_heartbeat() -> None:
    alone = Election(guid=1, priority=1, heartbeat_s=HEARTBEAT_S, dead_after_s=DEAD_S, now=0.0)
    for step in range(1, 60):
        alone.wake(step / 10)
    assert alone.role is Role.MASTER
    assert alone.next_wake() > 5.9
    other = Election(guid=2, priority=1, heartbeat_s=HEARTBEAT_S, dead_after_s=DEAD_S, now=0.0)
    for step in range(1, 60):
        other.heard(step / 10, Beat(BeatState.STANDBY, 2, 1))
        other.wake(step / 10)
    assert other.role is Role.STANDBY
    assert other.next_wake() > 5.9
