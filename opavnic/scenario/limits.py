"""Limits for a test that waits: it fails with a picture of the fabric instead of hanging.

A test on virtual time that waits for what never comes uses no time at all: nothing is scheduled, so its loop would
sleep for good. A timer at the limit of virtual time wakes it, and as nothing comes before it, at once. What
depends on the outside (sockets, programs, threads) has no virtual time; that is what the limit of real time is for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from hfi_sim.base.quantities import time_text
from opavnic.base.errors import OpavnicError
from opavnic.scenario.picture import fabric_text, is_own, waits_text

if TYPE_CHECKING:
    from opavnic.scenario.scenario import Scenario

DEFAULT_VIRTUAL_S: Final = 7200.0
DEFAULT_REAL_S: Final = 600.0
_TURNS: Final = 3
"""Turns of a loop from a timer to the next one of the task that it wakes: the timer, the future, the task."""
_OUTSIDE_S: Final = 0.05
"""Real seconds for which the outside is waited for before virtual time moves on."""
_ITIMERSPEC: Final = struct.Struct("@qqqq")
"""struct itimerspec: interval and value, seconds and nanoseconds of each (timerfd_settime(2))."""
_NANO: Final = 1_000_000_000


class TimeLimitError(OpavnicError, AssertionError):
    """A test waited longer than its limits; the message shows the waiting tasks and the fabric."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a test may run, in seconds; None: without end."""

    virtual_s: float | None = DEFAULT_VIRTUAL_S
    """By the scenario's clock. On real time only the other one counts."""
    real_s: float | None = DEFAULT_REAL_S
    """By the clock on the wall."""


class LimitWatch:
    """Watches what runs on the event loop of a scenario, a test or a coroutine fixture, and ends it at a limit.

    What is ended is cancelled, and raises TimeLimitError: its traceback has the lines of the user alone.
    """

    def __init__(self, scenario: Scenario, limits: TimeLimits) -> None:
        """Prepare. Args: limits: of each test and fixture; they can be set anew for the next one."""
        self.limits = limits
        self._verdict = ""
        self._scenario = scenario
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._alarm: int | None = None

    def __enter__(self) -> Self:
        """Limit the current task, and then each task that the loop runs."""
        self._loop = asyncio.get_running_loop()
        self._factory_before = self._loop.get_task_factory()
        self._loop.set_task_factory(self._make_task)
        if (task := asyncio.current_task()) is not None:
            self._begin(task)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End.

        Raises:  TimeLimitError: the task that has entered was ended at a limit.
        """
        __tracebackhide__ = True
        self._end()
        self._loop.set_task_factory(self._factory_before)
        self._raise_verdict(error)

    def _raise_verdict(self, error: BaseException | None) -> None:
        __tracebackhide__ = True
        verdict, self._verdict = self._verdict, ""
        if verdict and (error is None or isinstance(error, asyncio.CancelledError)):
            trace = None if error is None else error.__traceback__
            raise TimeLimitError(verdict).with_traceback(_own(trace)) from None

    async def _within_limits(self, coro: Coroutine[Any, Any, Any]) -> Any:
        __tracebackhide__ = True
        try:
            result = await coro
        except asyncio.CancelledError as error:
            self._raise_verdict(error)
            raise
        self._raise_verdict(None)
        return result

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        is_run = (
            not loop.is_running()
        )  # `run_until_complete` makes a task for what it is to run, and then runs it
        if is_run and asyncio.iscoroutine(coro):
            coro = self._within_limits(coro)
        before = self._factory_before
        make: Any = asyncio.Task if before is None else before
        task = make(coro, loop=loop, **options) if before is None else make(loop, coro, **options)
        if is_run:
            self._end()
            self._begin(task)
        return task

    def _begin(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._verdict = ""
        task.add_done_callback(self._is_done)
        self._before = asyncio.all_tasks(self._loop) - {task}
        if self.limits.virtual_s is not None and self._scenario.tap_backend is None:
            self._timer = self._loop.call_later(self.limits.virtual_s, self._virtual_time_is_over)
        if self.limits.real_s is not None:
            self._alarm = _alarm(self.limits.real_s)
        if self._alarm is not None:
            self._loop.add_reader(self._alarm, self._real_time_is_over)
        self._watched = _watched(self._loop)
        self._threads = threading.active_count()

    def _is_done(self, task: asyncio.Task[Any]) -> None:
        if task is self._task:
            self._end()

    def _end(self) -> None:
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._alarm is not None:
            self._loop.remove_reader(self._alarm)
            os.close(self._alarm)
            self._alarm = None

    def _virtual_time_is_over(self, turns: int = _TURNS) -> None:
        if turns:  # what is due at the same instant goes first, and may schedule something
            self._loop.call_soon(self._virtual_time_is_over, turns - 1)
            return
        if self._task is None:
            return
        limit = self.limits.virtual_s or 0.0
        if self._waits_for_the_outside():
            # virtual time says nothing about the outside; do not run through it at full speed meanwhile
            _wait_for_events(self._loop, _OUTSIDE_S)
            self._timer = self._loop.call_later(limit, self._virtual_time_is_over)
        elif _is_scheduled(self._loop, self._timer):
            self._give_up(f"the test has used up its {time_text(limit)} of virtual time (fabric_time_limit)")
        else:
            self._give_up(f"the test waits for what never comes: nothing is scheduled any more{self._last()}")

    def _real_time_is_over(self) -> None:
        limit = time_text(self.limits.real_s or 0.0)
        self._give_up(f"the test has run for {limit} of real time (fabric_real_time_limit)")

    def _give_up(self, reason: str) -> None:
        if self._task is None or self._verdict:
            return
        waits = waits_text(self._task, self._before)
        self._verdict = f"{reason}\n{waits}\n{fabric_text(self._scenario)}"
        self._task.cancel()

    def _last(self) -> str:
        """Return when the fabric saw its last packet or event."""
        times = [when for when, _ in list(self._scenario.timeline.events)[-1:]]
        times += [record.time_s for record in list(self._scenario.trace.records)[-1:]]
        return f"; the fabric has been quiet since {max(times) * 1e3:.6g} ms" if times else ""

    def _waits_for_the_outside(self) -> bool:
        """Return whether the test has begun to wait for files, sockets, programs or threads."""
        return _watched(self._loop) > self._watched or threading.active_count() > self._threads


def _own(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of asyncio and of this project."""
    kept = []
    while trace is not None:
        if is_own(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    inner: TracebackType | None = None
    for each in reversed(kept):
        inner = TracebackType(inner, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return inner


# What follows asks loops for what they do not publish: timers and files. A loop without it is believed to be busy.


def _is_scheduled(loop: asyncio.AbstractEventLoop, beside: asyncio.TimerHandle | None) -> bool:
    handles: Any = getattr(loop, "_scheduled", None)
    return handles is None or any(not handle.cancelled() and handle is not beside for handle in handles)


def _watched(loop: asyncio.AbstractEventLoop) -> int:
    selector: Any = getattr(loop, "_selector", None)
    return 0 if selector is None else len(selector.get_map() or ())


def _wait_for_events(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    selector: Any = getattr(loop, "_selector", None)
    if selector is not None and hasattr(selector, "fileno"):
        select.select([selector.fileno()], [], [], seconds)


def _alarm(seconds: float) -> int | None:
    """Return a descriptor that becomes readable once after `seconds` of real time; None where there are none.

    Neither a thread nor a signal: the one disturbs programs that fork, the other those that use the same signal.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = int(libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK))
    except AttributeError:
        return None
    if fd < 0:
        return None
    whole, part = divmod(max(1, round(seconds * _NANO)), _NANO)
    libc.timerfd_settime(fd, 0, _ITIMERSPEC.pack(0, 0, whole, part), None)
    return fd
