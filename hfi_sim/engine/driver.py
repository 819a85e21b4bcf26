"""The shell around an engine: tells it the time, wakes it when it is due, and hands its outputs out.

Outputs are handed out one after the other and never from inside the engine, so an answer that is sent while its request
is being received does not recurse: the call that finds the driver idle runs until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable

from hfi_sim.clock import Clock, TimerHandle
from hfi_sim.counters import Drop
from hfi_sim.engine.api import Engine
from hfi_sim.engine.outputs import Output, PortId
from hfi_sim.instants import FOREVER, NS_PER_S, to_ns, to_seconds


class EngineDriver:
    """Drives one engine on one clock."""

    def __init__(
        self, engine: Engine, clock: Clock, timer_resolution_s: float, dispatch: Callable[[Output], None]
    ) -> None:
        """Start with nothing due.

        Args:  timer_resolution_s: what is due sooner happens at once: a real event loop cannot wait that briefly.
               dispatch: takes each output.
        """
        self.engine = engine
        self._clock = clock
        self._early_ns = to_ns(timer_resolution_s)
        self._dispatch = dispatch
        self._now = 0
        self._running = False
        self._timer: TimerHandle | None = None
        self._timer_at = FOREVER

    @property
    def now(self) -> int:
        """Now, in nanoseconds on the clock; never earlier than it was, so a clock that goes back stands still.

        To a wire that was free all that time would be a backlog, and everything in it too much.
        """
        now = round(self._clock.time() * NS_PER_S)
        if now < self._now:
            return self._now
        self._now = now
        return now

    def inject(self, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a packet from an HFI port, as `Engine.inject`, and do what is due."""
        engine = self.engine
        now = self.now
        drop = engine.inject(now, port, packet, slid, dlid, pkey)
        if not self._running:
            deadline = engine.deadline
            if engine.has_output or (deadline is not None and deadline <= now + self._early_ns):
                self._run(now + self._early_ns)
            else:
                self._wake_at(deadline)
        return drop

    def run(self) -> None:
        """Do what is due and hand out what came of it; harmless when called from inside that."""
        self._run(self.now + self._early_ns)

    def _run(self, until: int) -> None:
        if self._running:
            return
        self._running = True
        engine, dispatch = self.engine, self._dispatch
        deadline: int | None = until
        try:
            while deadline is not None and deadline <= until:
                engine.handle_timeout(until)
                if engine.has_output:
                    while (output := engine.poll_output()) is not None:
                        dispatch(output)
                    until = max(until, self.now + self._early_ns)  # that took its time
                deadline = engine.deadline
        finally:
            self._running = False
            self._wake_at(deadline)

    def count(self) -> None:
        """Bring the counters up to date, with all that is due by now."""
        engine = self.engine
        engine.handle_timeout(self.now)
        engine.count()
        self.run_soon()

    def run_soon(self) -> None:
        """Hand out what came of a change once its caller has finished all that it is changing."""
        if not self._running:
            self._wake_at(self.now if self.engine.has_output else self.engine.deadline)

    def _wake_at(self, when: int | None) -> None:
        """Wake up then, if ever; a timer that is set for an earlier time stays, and sets the next."""
        if when is None or when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_at(to_seconds(when), self._due)

    def _due(self) -> None:
        # event loops may wake up early by a rounding error
        due, self._timer, self._timer_at = self._timer_at, None, FOREVER
        self._run(max(due, self.now + self._early_ns))
