"""The queue of events: one order, and no memory for what was cancelled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.engine.events.queue import EventQueue


def _nothing(_now: int, _number: int) -> None:
    pass


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_events_come_by_time_and_then_in_the_order_of_scheduling_without_the_cancelled(
    events: list[tuple[int, bool]],
) -> None:
    queue = EventQueue()
    kept = []
    taken = []
    for when, stays in events:
        number = queue.schedule(when, lambda *event: taken.append(event))
        if stays:
            kept.append((when, number))
        else:
            queue.cancel(number)
    assert queue.earliest(0) == min((when for when, _ in kept), default=None)
    queue.run(1 << 62)
    assert taken == sorted(kept)
    assert len(queue) == 0


def test_cancelled_events_that_are_due_in_an_hour_take_no_memory() -> None:
    queue = EventQueue()
    queue.schedule(1, _nothing)
    for _ in range(100_000):
        queue.cancel(queue.schedule(3_600_000_000_000, _nothing))
    assert len(queue) <= 3


def test_events_that_bring_about_outputs_take_no_memory_once_over_though_nobody_asks_for_the_deadline() -> (
    None
):
    queue = EventQueue()
    for now in range(1000):
        queue.push(now, queue.number(), _nothing, outward=True)
        queue.run(now)
    assert len(queue) == 0


def test_events_that_are_over_take_no_memory_while_one_is_due_in_an_hour_and_any_may_bring_about_an_output() -> (
    None
):
    queue = EventQueue()
    queue.schedule(3_600_000_000_000, _nothing)
    for now in range(1000):
        queue.push(now, queue.number(), _nothing, outward=True)
        assert queue.earliest(0) == now
        queue.run(now)
    queue.earliest(0)
    assert len(queue) == 1


def test_deadline_is_the_earliest_output_and_what_is_due_before_is_done_in_its_order() -> None:
    queue = EventQueue()
    done: list[tuple[int, str]] = []

    def reach_switch(now: int, _number: int) -> None:
        done.append((now, "switch"))
        queue.push(now + 30, queue.number(), lambda now, _: done.append((now, "host")), outward=True)

    queue.push(10, queue.number(), reach_switch)
    assert queue.earliest(25) == 35
    queue.push(38, queue.number(), lambda now, _: done.append((now, "other")), outward=True)
    queue.run(35)
    assert queue.earliest(25) == 38
    queue.run(100)
    assert done == [(10, "switch"), (38, "other"), (40, "host")]
    assert queue.earliest(25) is None
