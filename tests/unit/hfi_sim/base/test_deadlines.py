"""Deadlines that move: what is due next is what a look at all of them would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.deadlines import Deadlines

KEYS = range(5)
STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 20)), min_size=1, max_size=40)


@given(STEPS)
def test_next_is_the_soonest_of_all_whatever_moved(steps: list[tuple[int, int | None]]) -> None:
    at: dict[int, float | None] = dict.fromkeys(KEYS)
    deadlines: Deadlines[int] = Deadlines(lambda key: at[key])
    for key, due in steps:
        at[key] = due
        deadlines.touch(key)
        assert deadlines.next() == min((due for due in at.values() if due is not None), default=None)


@given(STEPS, st.integers(0, 20))
def test_what_is_due_is_taken_once_soonest_first(steps: list[tuple[int, int | None]], now: int) -> None:
    at: dict[int, float | None] = dict.fromkeys(KEYS)
    deadlines: Deadlines[int] = Deadlines(lambda key: at[key])
    for key, due in steps:
        at[key] = due
        deadlines.touch(key)
    taken = deadlines.take_due(now)
    assert sorted(taken) == [key for key, due in at.items() if due is not None and due <= now]
    assert [at[key] for key in taken] == sorted(at[key] for key in taken)  # type: ignore[type-var]
    assert deadlines.take_due(now) == []


def test_deadline_that_moves_on_with_every_event_leaves_no_heap_behind() -> None:
    at = dict.fromkeys(range(100), 0.0)
    deadlines: Deadlines[int] = Deadlines(at.get)
    for step in range(10_000):
        at[step % 100] = step + 100.0
        deadlines.touch(step % 100)
        deadlines.next()
    assert len(deadlines._heap) <= 100
