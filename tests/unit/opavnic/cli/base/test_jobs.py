"""A command that takes long: it says how far its job is, and what becomes of it after Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from opavnic.base.signals import EXIT_INTERRUPTED
from opavnic.cli.base import jobs
from opavnic.cli.base.jobs import job_result
from opavnic.lab.file.errors import LabError
from opavnic.state.job import JobPhase, JobState
from opavnic.state.lab import LabChanged


def state(phase: JobPhase = JobPhase.WORKING, **more: Any) -> JobState:
    said: dict[str, Any] = {"done": 0, "total": 0, "doing": "", "error": "", "version": 1}
    return JobState(
        number=4, name="apply", phase=phase, can_cancel=True, seconds=1, silent_s=0, **{**said, **more}
    )


class Lab:
    """A lab whose job is interrupted after some states, and then cancelled with an outcome."""

    def __init__(self, states: list[JobState], cancelled: JobState | Exception | None = None) -> None:
        self.states = states
        self.cancelled = cancelled

    def start_job(self, *_: object) -> JobState:
        return self.states[0]

    def follow_job(self, _: JobState) -> Iterator[JobState]:
        yield from self.states
        if self.cancelled is not None:
            raise KeyboardInterrupt

    def job_answer(self, *_: object) -> LabChanged:
        return LabChanged(done=["a"], dry_run=False)

    def cancel_job(self, _: JobState) -> JobState:
        if isinstance(self.cancelled, Exception):
            raise self.cancelled
        assert self.cancelled is not None
        return self.cancelled


@pytest.mark.parametrize(
    ("cancelled", "said"),
    [
        (state(JobPhase.CANCELLED), "interrupted; apply was cancelled, nothing was changed"),
        (state(), "interrupted; apply goes on in the lab (see: opavnic job wait 4)"),
        (state(JobPhase.DONE), "interrupted; apply had ended: done"),
        (LabError("no answer"), "interrupted; whether apply goes on is not known: no answer"),
    ],
)
def test_interrupted_command_says_what_becomes_of_its_job(
    cancelled: JobState | Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        job_result(Lab([state()], cancelled), LabChanged, "POST", "/change", {})  # type: ignore[arg-type]
    assert ended.value.exit_code == EXIT_INTERRUPTED
    assert capsys.readouterr().err == f"opavnic: {said}\n"


def test_progress_is_said_with_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "SAY_S", 0.0)
    states = [state(doing="VNICs are up", done=done, total=9) for done in (1, 1, 5)]
    lab = Lab([*states, state(JobPhase.DONE)])
    assert job_result(lab, LabChanged, "POST", "/change", {}).done == ["a"]  # type: ignore[arg-type]
    assert capsys.readouterr().err == "apply: 1 of 9 VNICs are up\napply: 5 of 9 VNICs are up\n"
