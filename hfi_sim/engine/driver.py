"""The shell around an engine: tells it the time, wakes it when it is due, and dispatches its outputs.

Outputs are dispatched one after the other and never from inside the engine, so a reply that is sent while its
request is being received does not recurse: the call that finds the driver idle runs until nothing is left to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import Protocol

from hfi_sim.base.clock import FOREVER, NS_PER_S, Clock, ManualClock, TimerHandle, to_ns, to_seconds
from hfi_sim.base.counters import Drop
from hfi_sim.engine.api import Engine
from hfi_sim.engine.events.outputs import Output, PortId


class Driver(Protocol):
    """Drives one engine, as the rest of a fabric sees it."""

    engine: Engine

    @property
    def now(self) -> int:
        """The time of an input given now, in nanoseconds on the clock."""
        ...

    def send(self, port: PortId, data: bytes) -> Drop | None:
        """Send bytes from an HFI port, as `Engine.send`, and do what is due."""
        ...

    def inject(self, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a packet from an HFI port, as `Engine.inject`, and do what is due."""
        ...

    def burst(self) -> AbstractContextManager[object]:
        """Process packets sent in the body when the body ends: due events are handled once for all of them."""
        ...

    def run(self) -> None:
        """Do what is due and dispatch the outputs; harmless when called from inside itself."""

    def count(self) -> None:
        """Update the counters, including everything due by now."""

    def run_soon(self) -> None:
        """Dispatch the outputs of a change once its caller has finished all of its changes."""


DriverFactory = Callable[[Engine, Clock, float, Callable[[Output], None]], Driver]
"""Makes a driver. Args: the engine, its clock, the resolution of the clock's timers in seconds, the outputs'
handler.
"""


class EngineDriver(Driver):
    """Drives one engine on one clock."""

    def __init__(
        self, engine: Engine, clock: Clock, timer_resolution_s: float, dispatch: Callable[[Output], None]
    ) -> None:
        """Start with nothing due.

        Args:  timer_resolution_s: delays below it are skipped, because a real event loop cannot wait that briefly.
               Infinite: everything happens at once, and the engine's time advances with the events.
               dispatch: handles each output.
        """
        self.engine = engine
        self._clock = clock
        self._is_timeless = timer_resolution_s == inf
        self._early_ns = 0 if self._is_timeless else to_ns(timer_resolution_s)
        """How far ahead of the clock events may run that an input has caused."""
        self._dispatch = dispatch
        self._now = 0
        self._is_busy = False
        """Whether outputs are being dispatched or a burst is being sent: the results of an input wait for the end."""
        self._outputs: deque[Output] = deque()
        """Taken from the engine and not dispatched yet."""
        self._timer: TimerHandle | None = None
        self._timer_at = FOREVER

    @property
    def now(self) -> int:
        """The current time in nanoseconds; if the clock goes back, time stands still.

        If time ran backwards, an idle wire would look backlogged and drop packets.
        """
        now = round(self._clock.time() * NS_PER_S)
        if now > self._now:
            self._now = now
        return self._now

    def send(self, port: PortId, data: bytes) -> Drop | None:
        now = self.now
        drop = self.engine.send(now, port, data)
        self._run(now + self._early_ns)
        return drop

    def inject(self, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        now = self.now
        drop = self.engine.inject(now, port, packet, slid, dlid, pkey)
        self._run(now + self._early_ns)
        return drop

    @contextmanager
    def burst(self) -> Iterator[None]:
        """Process packets sent in the body when the body ends: due events are handled once for all of them.

        Side effects, such as a link that stops a port, still happen at their own time.
        """
        if self._is_busy:  # the call that is at work handles them when it goes on
            yield
            return
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            self.run()

    def run(self) -> None:
        self._run(self.now + self._early_ns)

    def _run(self, until: int, may_skip: bool = False) -> None:
        """Do what is due by `until`, and set the timer for the rest.

        Args:  may_skip: no other task is in the middle of something, so time may skip ahead.
        """
        if self._is_busy:
            return
        self._is_busy = True
        deadline: int | None = until  # at once, should a handler raise
        try:
            deadline = self._work(until, may_skip)
        finally:
            self._is_busy = False
            self._wake_at(deadline)

    def _work(self, until: int, may_skip: bool) -> int | None:
        """Do what is due, and what becomes due as a result; return when there is more to do, None: never."""
        while True:
            if self._outputs:
                while self._outputs:
                    self._dispatch(self._outputs.popleft())
                until = max(until, self.now + self._early_ns)  # dispatching took its time
            deadline = self.engine.deadline
            if deadline is None:
                return None
            if deadline > until:
                if self._is_timeless:
                    self._now = deadline
                elif not may_skip or not self._skip_to(deadline):
                    return deadline
                until = deadline
            self._outputs.extend(self.engine.step(until))

    def _skip_to(self, when: int) -> bool:
        """Move the clock on to `when` without a timer, if it can."""
        return isinstance(self._clock, ManualClock) and self._clock.skip_to(to_seconds(when))

    def count(self) -> None:
        self.engine.handle_timeout(self.now)
        self.engine.count()
        self.run_soon()

    def run_soon(self) -> None:
        if not self._is_busy:
            deadline = self.engine.deadline
            self._wake_at(self.now if deadline == 0 else deadline)

    def _wake_at(self, when: int | None) -> None:
        """Set a timer, if any is needed; a timer for an earlier time stays, and sets the next one."""
        if when is None or when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_at(to_seconds(when), self._due)

    def _due(self) -> None:
        # event loops may wake up early by a rounding error
        due, self._timer, self._timer_at = self._timer_at, None, FOREVER
        self._run(max(due, self.now + self._early_ns), may_skip=True)
