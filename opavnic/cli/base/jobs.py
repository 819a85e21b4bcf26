"""How commands that take long go: the lab does the work as a job, and the command shows how far it is.

Ctrl-C cancels a job that has changed nothing yet; another one goes on in the lab, and the command says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from hfi_sim.base.errors import HfiSimError
from opavnic.base.signals import EXIT_INTERRUPTED, interruptible
from opavnic.cli.base.output import fail, say

if TYPE_CHECKING:
    from opavnic.base.state import StateModel
    from opavnic.lab.ownership.client import LabClient
    from opavnic.state.job import JobState

SAY_S: Final = 2.0
"""Interval at which a command says how far its job is; what takes less is not talked about."""
Model = TypeVar("Model", bound="StateModel")


def job_result(client: LabClient, model: type[Model], method: str, path: str, body: object = None) -> Model:
    """Let the lab do what takes long, show how far it is, and return what it gives.

    Raises:  LabError, ConfigError: the lab refuses, or does not answer. typer.Exit: Ctrl-C.
    """
    job: JobState | None = None
    try:
        with interruptible():
            job = client.start_job(method, path, body)
            return client.job_answer(model, ended(client, job))
    except KeyboardInterrupt:
        leave(client, job)
        raise


def ended(client: LabClient, job: JobState) -> JobState:
    """Return a job once it has ended, and say meanwhile how far it is. Raises LabError: the lab does not answer."""
    *_, last = shown(client.follow_job(job))
    return last


def shown(states: Iterator[JobState]) -> Iterator[JobState]:
    """Yield the states of a job, and say every few seconds how far it is."""
    said_at, said = time.monotonic(), ""
    for state in states:
        now = time.monotonic()
        if not state.has_ended and now - said_at >= SAY_S and state.progress != said:
            said_at, said = now, state.progress
            say(f"{state.name}: {said}")
        yield state


def leave(client: LabClient, job: JobState | None) -> None:
    """Cancel a job if it has changed nothing yet, say what becomes of it, and exit. Raises typer.Exit."""
    if job is None:
        fail("interrupted", EXIT_INTERRUPTED)
    try:
        job = client.cancel_job(job)
    except HfiSimError as error:
        fail(f"interrupted; whether {job.name} goes on is not known: {error}", EXIT_INTERRUPTED)
    if not job.has_ended:
        fail(
            f"interrupted; {job.name} goes on in the lab",
            EXIT_INTERRUPTED,
            hint=f"see: opavnic job wait {job.number}",
        )
    if job.phase == "cancelled":
        fail(f"interrupted; {job.name} was cancelled, nothing was changed", EXIT_INTERRUPTED)
    fail(f"interrupted; {job.name} had ended: {job.error or job.phase}", EXIT_INTERRUPTED)
