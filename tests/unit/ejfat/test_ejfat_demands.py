"""Slots by number: what a calendar makes of demands, and which it refuses."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.errors import BadRequestError
from ejfat.control.assignment import Strategy
from ejfat.control.balancer import ReservedInstance
from ejfat.control.epochs.calendar import Claim
from ejfat.control.epochs.demands import UNASSIGNED, SlotRange, check, fill, place
from ejfat.control.epochs.demands import ranges as ranges_of
from ejfat.control.epochs.programming import TableTarget
from ejfat.control.members import ReceiverCounters, Worker
from ejfat.control.stored import parts_of, restore
from unit.ejfat.due_work import advance

NAMES = {1: "one", 2: "two", 3: "three"}
ranges = st.builds(SlotRange, st.integers(-1, 511), st.integers(1, 512))
demands = st.dictionaries(st.sampled_from([1, 2, 3]), st.lists(ranges, max_size=4))


@given(demands)
def test_demands_that_pass_are_met_exactly(wanted: dict[int, list[SlotRange]]) -> None:
    try:
        check(wanted, NAMES)
    except BadRequestError:
        return
    calendar = place(wanted)
    assert len(calendar) == 512
    for member, items in wanted.items():
        assert calendar.count(member) == sum(item.length for item in items)
        for item in items:
            if item.index >= 0:
                assert set(calendar[item.index : item.index + item.length]) == {member}


@given(demands, st.dictionaries(st.sampled_from([1, 2, 3]), st.floats(0, 10), min_size=1))
def test_demands_any_at_all_give_a_whole_calendar(
    wanted: dict[int, list[SlotRange]], weights: dict[int, float]
) -> None:
    inside = {
        member: [item for item in items if item.index + item.length <= 512]
        for member, items in wanted.items()
    }
    demanded = place(inside)
    calendar = fill(demanded, {member: Claim(weight) for member, weight in weights.items()})
    assert len(calendar) == 512
    assert UNASSIGNED not in calendar
    assert all(owner in (UNASSIGNED, calendar[slot]) for slot, owner in enumerate(demanded))
    assert sum(item.length for member in NAMES for item in ranges_of(calendar).get(member, [])) == 512


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({1: [SlotRange(0, 0)]}, "a demand for 0 slots, expected 1 to 512"),
        ({1: [SlotRange(511, 2)]}, "slots 511 to 512, expected 0 to 511, or index -1"),
        ({1: [SlotRange(-2, 2)]}, "slots -2 to -1, expected"),
        ({1: [SlotRange(0, 5)], 2: [SlotRange(4, 1)]}, "two demands slot 4, which one already has"),
        ({1: [SlotRange(0, 5), SlotRange(2, 1)]}, "one demands slot 2, which one already has"),
        (
            {1: [SlotRange(0, 500)], 2: [SlotRange(-1, 13)]},
            "513 slots are demanded in total; the calendar has 512",
        ),
    ],
)
def test_demands_that_no_calendar_holds_are_refused(wanted: dict[int, list[SlotRange]], words: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        check(wanted, NAMES)
    assert words in str(caught.value)


def worker(number: int, *wanted: SlotRange, weight: float = 1.0) -> Worker:
    ip = ip_address(f"10.0.0.{number}")
    return Worker(name=f"w{number}", ip=ip, port=5000, weight=weight, slot_demands=wanted)


def test_slots_of_a_worker_that_leaves_are_given_away_and_come_back_with_it() -> None:
    balancer = ReservedInstance(TableTarget(0, with_v1=True), "run", strategy=Strategy.STATIC)
    first, _ = balancer.register(worker(1, SlotRange(0, 100), weight=0), 0.0)
    second, _ = balancer.register(worker(2), 0.0)
    advance(balancer, 0.0)
    assert balancer.slots() == {1: 100, 2: 412}
    assert balancer.slots_by_member()[first.member_id] == [SlotRange(0, 100)]

    def report(ready: bool, now: float) -> None:
        for session in (first, second):
            session.report(
                now, fill=0, control=0, ready=ready or session is second, counters=ReceiverCounters()
            )
        advance(balancer, now)

    report(False, 1.0)
    assert balancer.slots() == {1: 0, 2: 512}
    report(True, 2.0)
    assert balancer.slots() == {1: 100, 2: 412}


def test_demands_and_strategy_outlive_a_restart() -> None:
    balancer = ReservedInstance(TableTarget(0, with_v1=True), "run", strategy=Strategy.EXPLICIT, family=4)
    balancer.register(worker(1, SlotRange(7, 3), SlotRange(-1, 2)), 0.0)
    advance(balancer, 0.0)
    again = restore(parts_of(balancer), TableTarget, balancer.policy, 10.0)
    assert (again.strategy, again.family) == (Strategy.EXPLICIT, 4)
    assert again.sessions[1].worker.slot_demands == (SlotRange(7, 3), SlotRange(-1, 2))
    assert again.slots() == {1: 5}
    assert advance(again, 10.0) == [], "nothing has changed, so no epoch is made"


def test_explicit_without_demands_is_an_empty_calendar() -> None:
    balancer = ReservedInstance(TableTarget(0, with_v1=True), "run", strategy=Strategy.EXPLICIT)
    session, _ = balancer.register(worker(1), 0.0)
    advance(balancer, 0.0)
    assert balancer.slots() == {1: 0}
    balancer.demand_slots({session.session_id: [SlotRange(0, 512)]})
    advance(balancer, 1.0)
    assert balancer.slots() == {1: 512}
    with pytest.raises(BadRequestError, match="expected 1 to 512"):
        balancer.demand_slots({session.session_id: [SlotRange(0, 513)]})
    assert session.worker.slot_demands == (SlotRange(0, 512),)
