"""Whatever has happened to a lab, it is what a fresh start of its saved file is: on labs in memory, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from lab_law import HOSTS, KEYS, LAB, MEMBERS, POINTS, VESWS, ChangingLab, differing, facts_of

from lab_in_memory import lab_in_memory
from opavnic.scenario.virtual import virtual_time

Result = TypeVar("Result")


class ChangedLab(RuleBasedStateMachine):
    """A lab in memory to which everything happens that people and faults do to labs."""

    _fresh: ClassVar[dict[str, dict[str, Any]]] = {}
    """What a fresh start of each file is: on virtual time it is always the same."""

    def __init__(self) -> None:
        super().__init__()
        self._ends = contextlib.ExitStack()
        self._runner = self._ends.enter_context(asyncio.Runner(loop_factory=asyncio.SelectorEventLoop))
        self._ends.enter_context(virtual_time(self._runner.get_loop()))
        self.changing = self._run(self._start())

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(coroutine)

    async def _start(self) -> ChangingLab:
        self._labs = contextlib.AsyncExitStack()
        lab = await self._labs.enter_async_context(lab_in_memory(LAB % ("law", "python")))
        return ChangingLab(lab)

    @rule(vesw=st.sampled_from(VESWS), member=st.sampled_from(MEMBERS))
    def leaves(self, vesw: str, member: str) -> None:
        self._run(self.changing.leave(vesw, member))

    @rule(vesw=st.sampled_from(VESWS), member=st.sampled_from(MEMBERS))
    def joins(self, vesw: str, member: str) -> None:
        self._run(self.changing.join(vesw, member))

    @rule(vesw=st.sampled_from(VESWS), key=st.sampled_from(KEYS))
    def has_another_key(self, vesw: str, key: tuple[str, int]) -> None:
        self._run(self.changing.set_key(vesw, *key))

    @rule(host=st.sampled_from(HOSTS), vesws=st.lists(st.sampled_from(VESWS), unique=True))
    def is_added(self, host: str, vesws: list[str]) -> None:
        self._run(self.changing.add(host, vesws))

    @rule(host=st.sampled_from(HOSTS))
    def is_removed(self, host: str) -> None:
        self._run(self.changing.remove(host))

    @rule()
    def first_file_is_applied(self) -> None:
        self._run(self.changing.apply())

    @rule()
    def saved_file_is_applied(self) -> None:
        self._run(self.changing.apply_saved())

    @rule(kind=st.sampled_from(("crash", "hfi-removal")), host=st.sampled_from(HOSTS))
    def fails(self, kind: str, host: str) -> None:
        self._run(self.changing.fault(kind, host))

    @rule(point=st.sampled_from(POINTS), late=st.booleans())
    def change_fails(self, point: str, late: bool) -> None:
        self._run(self.changing.fail(point, late=late))

    @rule()
    def manager_restarts(self) -> None:
        self._run(self.changing.fault("crash", "em"))

    @invariant()
    def is_what_its_saved_file_is(self) -> None:
        before, after = self._run(self._both())
        assert differing(before, after) == {}, self.changing.done

    async def _both(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts = facts_of(self.changing.lab)
        text = facts["saved"]
        if text not in self._fresh:
            async with lab_in_memory(text) as fresh:
                self._fresh[text] = facts_of(fresh)
        return facts, self._fresh[text]

    def teardown(self) -> None:
        self._run(self._labs.aclose())
        self._ends.close()


def _check(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        ChangedLab,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
        ),
    )


def test_changed_lab_is_what_its_saved_file_is() -> None:
    _check(4, 12)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_changed_lab_is_what_its_saved_file_is_after_many_changes() -> None:
    _check(100, 50)
