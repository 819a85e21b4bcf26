"""Subjects are measured in turns, one that fails is left out, medians and ratios take what there is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from opavnic.base.errors import OpavnicError
from opavnic_bench.base import turns
from opavnic_bench.base.turns import BenchError, PeerError, Run, medians, ratio, repeat, take_turns


@dataclass(frozen=True)
class Sample:
    speed: float
    memory: float | None


def test_each_round_measures_every_subject_once() -> None:
    order: list[str] = []
    run = take_turns("ab", lambda thing: order.append(thing) or len(order), 3)
    assert order == ["a", "b"] * 3
    assert (run.samples, run.rounds, run.skipped) == ({"a": [1, 3, 5], "b": [2, 4, 6]}, 3, {})


def test_subject_that_cannot_be_measured_is_left_out_with_its_reason_and_the_others_go_on() -> None:
    def measure(thing: str) -> int:
        if thing == "a":
            raise PeerError("vde_switch has no socket")
        return 1

    run = take_turns("ab", measure, 2)
    assert (run.samples, run.skipped) == ({"a": [], "b": [1, 1]}, {"a": "vde_switch has no socket"})
    assert run.single() == [1]


def test_other_errors_end_the_run() -> None:
    def measure(thing: str) -> int:
        raise BenchError(f"{thing}: not converged")

    with pytest.raises(OpavnicError, match="a: not converged"):
        take_turns("ab", measure)


def test_no_round_begins_that_would_exceed_the_budget() -> None:
    run: Run[str, int] = take_turns("a", lambda thing: 1, 5, budget_s=0)
    assert (run.rounds, run.samples) == (1, {"a": [1]})


def test_progress_names_the_round_where_there_are_several() -> None:
    seen: list[tuple[int, int, str]] = []
    take_turns(
        "ab", lambda thing: 1, 2, label=lambda thing: f"<{thing}>", progress=lambda *step: seen.append(step)
    )
    take_turns("b", lambda thing: 1, progress=lambda *step: seen.append(step))
    assert seen == [
        (0, 4, "round 1 of 2: <a>"),
        (1, 4, "round 1 of 2: <b>"),
        (2, 4, "round 2 of 2: <a>"),
        (3, 4, "round 2 of 2: <b>"),
        (0, 1, "b"),
    ]


def test_medians_leave_out_what_was_not_measured() -> None:
    samples = [Sample(3.0, None), Sample(1.0, None), Sample(2.00049, None)]
    assert medians(samples) == {"speed": 2.0, "memory": None}
    assert medians([Sample(1.0, 7.0), Sample(2.0, None)]) == {"speed": 1.5, "memory": 7.0}


def test_ratio_of_nothing_is_none() -> None:
    assert [ratio(3.0, 2.0), ratio(None, 2.0), ratio(3.0, None), ratio(3.0, 0.0)] == [1.5, None, None, None]


def test_repeat_sums_up_what_was_done_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.0, 10.4, 10.8, 11.2])
    monkeypatch.setattr(turns, "perf_counter", lambda: next(clock))
    assert repeat(lambda: 7, 1.0) == (21, pytest.approx(1.2))
