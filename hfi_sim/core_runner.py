"""What every shell around a sans-IO core does alike: let it work until nothing is left, and wake it when it is due."""

from __future__ import annotations

from collections.abc import Callable

from hfi_sim.clock import Clock, TimerHandle


class CoreRunner:
    """Runs a core on a clock: a few steps at a time, and one timer for its deadline.

    Where links deliver at once, the answers to packets come while these are sent, and more packets with them. So
    after `turn` steps the rest waits for the turn of everybody else.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        step: Callable[[], bool],
        deadline: Callable[[], float | None],
        on_timer: Callable[[float], object],
        turn: int,
    ) -> None:
        """Make a runner that waits for `poll`.

        Args:    step: does one thing that the core wants done; False where there is none.
                 deadline: when `on_timer` is due, in seconds on the clock; None: never.
                 on_timer: gets the time; what it leads to is done afterwards.
        """
        self._clock = clock
        self._step = step
        self._deadline = deadline
        self._on_timer = on_timer
        self._turn = turn
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._rest: TimerHandle | None = None
        self._busy = False

    def poll(self) -> None:
        """Do what the core wants done; a call from inside a step leaves it to that step's turn."""
        if self._busy or self._rest is not None:
            return
        self._busy = True
        try:
            for _ in range(self._turn):
                if not self._step():
                    break
            else:
                self._rest = self._clock.call_at(self._clock.time(), self._go_on)
        finally:
            self._busy = False
        self._arm()

    def shutdown(self) -> None:
        """Forget what was to be done later."""
        for timer in (self._timer, self._rest):
            if timer is not None:
                timer.cancel()
        self._timer = self._rest = None

    def _go_on(self) -> None:
        self._rest = None
        self.poll()

    def _arm(self) -> None:
        deadline = self._deadline()
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
        self._on_timer(self._clock.time())
        self.poll()
