"""The shell around a sans-IO core: it lets the core work, wakes it when it is due, and reports it when it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hfi_sim.base.clock import Clock, TimerHandle

log = logging.getLogger("hfi_sim.base.core_runner")


class CoreRunner:
    """Runs a core on a clock: a few steps at a time, and one timer for its deadline.

    On links without delay, sending a packet can bring its reply before `send` returns. To keep one core from
    starving the loop, `poll` yields after `turn` steps and resumes on the next iteration.

    A core that raises is broken: what it holds may contradict itself. It is logged once, with its name and the
    traceback, and is never called again; `failure` keeps the reason for status views.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        name: str,
        step: Callable[[], bool],
        deadline: Callable[[], float | None],
        on_timer: Callable[[float], object] | None,
        turn: int,
        on_failure: Callable[[], object] | None = None,
    ) -> None:
        """Make a runner that waits for `poll`.

        Args:    name: the core and its port or host, for the log.
                 step: does one thing that the core wants done; False where there is none.
                 deadline: when `on_timer` is due, in seconds on the clock; None: never.
                 on_timer: gets the time; a step follows. None where `step` asks for the `time` itself.
                 on_failure: called once, after the core has failed, so that its waiters end.
        """
        self.failure: Exception | None = None
        """What the core raised, once it has."""
        self._clock = clock
        self._name = name
        self._step = step
        self._deadline = deadline
        self._on_timer = on_timer
        self._turn = turn
        self._on_failure = on_failure
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._not_before = float("-inf")
        self._rest: TimerHandle | None = None
        self._busy = False
        self.ended = False
        """Shut down, or failed: nothing more is done."""

    def time(self) -> float:
        """Return now, never before a deadline that was reported as due.

        An event loop runs what is due within the resolution of its clock, a little early: the core takes it as on time.
        """
        return max(self._clock.time(), self._not_before)

    def poll(self) -> None:
        """Do what the core wants done; a call from inside a step leaves it to that step's turn."""
        if self._busy or self._rest is not None or self.ended:
            return
        self._run(self._work)

    def poll_soon(self) -> None:
        """Do it on the next iteration of the loop, with everything else that arrives until then."""
        if self._rest is None and not self.ended:
            self._rest = self._clock.call_at(self._clock.time(), self._go_on)

    def shutdown(self) -> None:
        """End: the core is not called again, neither by a timer nor by a later `poll`."""
        self.ended = True
        for timer in (self._timer, self._rest):
            if timer is not None:
                timer.cancel()
        self._timer = self._rest = None

    def _run(self, work: Callable[[], object]) -> None:
        self._busy = True
        try:
            work()
        except Exception as error:
            self.fail(error)
        finally:
            self._busy = False

    def fail(self, error: Exception) -> None:
        """End because the core has raised; needed where its owner has called it without `poll`."""
        if self.failure is not None:
            return
        self.shutdown()
        self.failure = error
        log.error(
            "[%s] failed, and does nothing any more: %s", self._name, failure_text(error), exc_info=error
        )
        if self._on_failure is not None:
            self._on_failure()

    def _work(self) -> None:
        for _ in range(self._turn):
            if self.ended or not self._step():
                break
        else:
            self.poll_soon()
        self._arm()

    def _go_on(self) -> None:
        self._rest = None
        self.poll()

    def _arm(self) -> None:
        deadline = None if self.ended else self._deadline()
        if deadline is None:
            return  # a timer that still runs finds nothing to do
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_at(deadline, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        self._not_before = self._timer_at
        if self._on_timer is not None:
            self._run(self._wake)
        self.poll()

    def _wake(self) -> None:
        assert self._on_timer is not None  # noqa: S101 - asked for by `_timer_due`
        self._on_timer(self.time())


def failure_text(error: Exception) -> str:
    """Return in one line what was raised."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
