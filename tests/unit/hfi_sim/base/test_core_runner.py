"""The shell around a core: turns, deadlines, and what becomes of a core that raises."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.core_runner import CoreRunner, failure_text


class Core:
    """Does the steps that it is given; a step that is an exception is raised."""

    def __init__(self, turn: int = 8) -> None:
        self.clock = ManualClock()
        self.steps: deque[str | Exception] = deque()
        self.done: list[str] = []
        self.due: float | None = None
        self.woken: list[float] = []
        self.told: list[str] = []
        self.runner = CoreRunner(
            self.clock,
            name="h1:1 core",
            step=self._step,
            deadline=lambda: self.due,
            on_timer=self._on_timer,
            turn=turn,
            on_failure=lambda: self.told.append(failure_text(self.runner.failure or Exception())),
        )

    def _step(self) -> bool:
        if not self.steps:
            return False
        step = self.steps.popleft()
        if isinstance(step, Exception):
            raise step
        self.done.append(step)
        return True

    def _on_timer(self, now: float) -> None:
        self.due = None
        self.woken.append(now)
        self.steps.append(f"woken at {now:g}")


def test_poll_does_a_turn_and_leaves_the_rest_to_the_next_iteration() -> None:
    core = Core(turn=2)
    core.steps.extend("abc")
    core.runner.poll()
    assert core.done == ["a", "b"]
    core.runner.poll()  # the rest has its turn later, whoever asks
    assert core.done == ["a", "b"]
    core.clock.advance()
    assert core.done == ["a", "b", "c"]


def test_poll_soon_works_once_for_all_who_ask() -> None:
    core = Core(turn=1)
    core.steps.extend("a")
    core.runner.poll_soon()
    core.runner.poll_soon()
    assert core.done == []
    core.clock.advance()
    assert core.done == ["a"]


def test_deadline_wakes_the_core_on_time_also_where_the_clock_is_early() -> None:
    core = Core()
    core.due = 1.0
    core.runner.poll()
    core.clock.advance(1.0)
    assert core.done == ["woken at 1"]
    assert core.runner.time() == 1.0


def test_earlier_deadline_replaces_a_later_one() -> None:
    core = Core()
    core.due = 5.0
    core.runner.poll()
    core.due = 1.0
    core.runner.poll()
    core.clock.advance(2.0)
    assert core.woken == [1.0]


@pytest.mark.breaks_core
def test_core_that_raises_is_logged_once_with_its_name_and_never_called_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core = Core()
    core.due = 1.0
    core.steps.extend(["a", KeyError("vport 7"), "b"])
    core.runner.poll()
    core.runner.poll()
    core.runner.poll_soon()
    core.clock.advance(10)
    assert core.done == ["a"]
    assert core.woken == []
    assert core.told == ["KeyError: 'vport 7'"]
    assert isinstance(core.runner.failure, KeyError)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == "[h1:1 core] failed, and does nothing any more: KeyError: 'vport 7'"
    assert record.exc_info is not None


@pytest.mark.breaks_core
@pytest.mark.parametrize("where", ["deadline", "on_timer"])
def test_core_that_raises_outside_its_steps_has_failed_as_well(where: str) -> None:
    def broken(*_: object) -> float:
        raise RuntimeError

    clock = ManualClock()
    times = iter([1.0])
    runner = CoreRunner(
        clock,
        name="x",
        step=lambda: False,
        deadline=broken if where == "deadline" else lambda: next(times, None),
        on_timer=broken,
        turn=1,
    )
    runner.poll()
    clock.advance(2.0)
    assert runner.failure is not None
    assert failure_text(runner.failure) == "RuntimeError"


def test_shutdown_forgets_what_was_due() -> None:
    core = Core()
    core.due = 1.0
    core.runner.poll()
    core.runner.poll_soon()
    core.steps.append("a")
    core.runner.shutdown()
    core.clock.advance(10)
    assert (core.done, core.woken) == ([], [])


def test_shutdown_from_inside_a_step_is_the_end() -> None:
    core = Core(turn=1)
    core.steps.extend("abc")
    step = core._step

    def last() -> bool:
        core.runner.shutdown()
        core.due = None if core.woken else 1.0
        return step()

    core.runner._step = last
    core.runner.poll()
    for ask in (core.runner.poll, core.runner.poll_soon):
        ask()
        core.clock.advance(2)
    assert (core.done, core.woken) == (["a"], [])
