"""Long operations of a lab: each is a job with a name, a count, a last sign of life, and a result or a refusal.

A job belongs to the lab, not to the request that has started it: it goes on when the asker leaves. It can be cancelled
until it calls `begin`. What works for a job finds it with `current_job`, as a coroutine finds its task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError, TooManyError
from opavnic.state.job import JobPhase, JobState

if TYPE_CHECKING:
    from aiohttp import web

MOST: Final = 64
"""Jobs that run at a time."""
KEPT: Final = 16
"""Jobs that have ended and are still shown."""
NEWS_S: Final = 0.1
"""A follower of a job hears of it no more often."""


class LabJob:
    """One long operation."""

    def __init__(self, name: str, time: Callable[[], float], number: int = 0) -> None:
        """Start. Args:  time: the clock, in seconds."""
        self.name = name
        self.number = number
        self.time = time
        self._started_at = self._alive_at = time()
        self._ended_at: float | None = None
        self._phase = JobPhase.WORKING
        self._doing = ""
        self._done = self._total = 0
        self.has_begun = False
        """Whether it has changed something."""
        self._cancel: Callable[[], object] | None = None
        self._on_taken: Callable[[], object] | None = None
        self._error = ""
        self._version = 0
        self._news = asyncio.Event()

    # --- what works for it -----------------------------------------------------------------------------------

    def called(self, name: str) -> None:
        """Give it a name that says more."""
        self.name = name
        self.alive()

    def doing(self, what: str, total: int = 0) -> None:
        """Say what is done now. Args:  total: how many of it there are to do, told by `count`; 0: it is not counted."""
        self._doing, self._done, self._total = what, 0, total
        self.alive()

    def count(self, done: int) -> None:
        """Take note of how many are done."""
        if done != self._done:
            self._done = done
            self.alive()

    def alive(self) -> None:
        """Give a sign of life."""
        self._alive_at = self.time()
        self._version += 1
        self._news.set()

    def begin(self) -> None:
        """Take note that from now on something changes: it cannot be cancelled any more."""
        self.has_begun = True
        self.alive()

    # --- who watches it --------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self._ended_at is not None

    def state(self) -> JobState:
        """Return it as it is now."""
        now = self.time() if self._ended_at is None else self._ended_at
        return JobState(
            number=self.number,
            name=self.name,
            phase=self._phase,
            doing=self._doing,
            done=self._done,
            total=self._total,
            can_cancel=self._can_cancel,
            seconds=round(now - self._started_at, 3),
            silent_s=round(now - self._alive_at, 3),
            version=self._version,
            error=self._error,
        )

    async def news(self, after: int, wait_s: float) -> None:
        """Wait until its version is above `after`, or it has ended, but no longer than `wait_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self._version <= after and not self.has_ended:
                    self._news.clear()
                    await self._news.wait()

    def cancel(self) -> bool:
        """Cancel it, if nothing of it has been done; return whether that was so."""
        if not self._can_cancel or self._cancel is None:
            return False
        self._cancel()
        return True

    @property
    def _can_cancel(self) -> bool:
        return self._cancel is not None and not self.has_begun and not self.has_ended

    def cancelled_by(self, cancel: Callable[[], object]) -> None:
        """Let it be cancelled with `cancel`."""
        self._cancel = cancel

    def on_taken(self, handler: Callable[[], object], latest_s: float) -> None:
        """Call `handler` once the result has been fetched, but no later than `latest_s` from now."""
        self._on_taken = handler
        asyncio.get_running_loop().call_later(latest_s, handler)

    def taken(self) -> None:
        """Take note that the result has been fetched."""
        handler, self._on_taken = self._on_taken, None
        if handler is not None:
            asyncio.get_running_loop().call_soon(handler)

    def end(self, phase: JobPhase, error: str = "") -> None:
        """Take note that it is over."""
        self._phase, self._error, self._ended_at = phase, error, self.time()
        self._doing, self._done, self._total = "", 0, 0
        self.alive()


_current: ContextVar[LabJob | None] = ContextVar("job", default=None)


def current_job() -> LabJob:
    """Return the job that this coroutine works for; one without followers if there is none."""
    job = _current.get()
    if job is None or job.has_ended:  # tasks that a job has started may outlive it
        return LabJob("", asyncio.get_running_loop().time)
    return job


class LabJobs:
    """The jobs of a lab; each gives an answer."""

    def __init__(self, error_of: Callable[[web.Response], str]) -> None:
        """Args:  error_of: says what is wrong, if a result says that it has failed; else an empty text."""
        self._error_of = error_of
        self._runs: dict[int, tuple[LabJob, asyncio.Task[web.Response]]] = {}
        """By number, the oldest first."""
        self._last = 0

    def start(self, name: str, work: Coroutine[Any, Any, web.Response]) -> LabJob:
        """Start one. Raises TooManyError: `MOST` run already."""
        if sum(not job.has_ended for job, _ in self._runs.values()) >= MOST:
            work.close()
            raise TooManyError(f"{MOST} jobs are running, the most a lab allows; see: opavnic job list")
        self._last += 1
        job = LabJob(name, asyncio.get_running_loop().time, self._last)
        task = asyncio.create_task(self._working(job, work), name=f"job {self._last}: {name}")
        job.cancelled_by(task.cancel)
        self._runs[job.number] = job, task
        self._forget()
        return job

    async def _working(self, job: LabJob, work: Coroutine[Any, Any, web.Response]) -> web.Response:
        _current.set(job)
        try:
            result = await work
        except asyncio.CancelledError:
            said = "the lab has ended meanwhile" if job.has_begun else "cancelled, nothing was changed"
            job.end(JobPhase.CANCELLED, said)
            raise OpavnicError(f"{job.name}: {said}") from None
        except BaseException as error:
            job.end(JobPhase.FAILED, " ".join(str(error).split()))
            raise
        error_text = self._error_of(result)
        job.end(JobPhase.FAILED if error_text else JobPhase.DONE, error_text)
        return result

    def _forget(self) -> None:
        ended = [number for number, (job, _) in self._runs.items() if job.has_ended]
        for number in ended[:-KEPT]:
            del self._runs[number]

    def states(self) -> list[JobState]:
        """Return all that run, and the last ones that have ended."""
        return [job.state() for job, _ in self._runs.values()]

    def _run(self, number: int) -> tuple[LabJob, asyncio.Task[web.Response]]:
        if number not in self._runs:
            raise InputError(f"no job has number {number}; see: opavnic job list")
        return self._runs[number]

    def job(self, number: int) -> LabJob:
        """Return a job. Raises InputError: none has this number."""
        return self._run(number)[0]

    async def result(self, number: int) -> web.Response:
        """Wait until a job has ended and return its result. Raises what it has raised, and as `job`."""
        job, task = self._run(number)
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                job.taken()

    async def close(self) -> None:
        """End those that still run: the lab ends."""
        tasks = [task for _, task in self._runs.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
