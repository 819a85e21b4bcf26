"""The shell around an engine: tells it the time, wakes it when it is due, and dispatches its outputs.

Outputs are dispatched one after the other and never from inside the engine, so a reply that is sent while its
request is being received does not recurse: the call that finds the driver idle runs until nothing is left to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import Final, Protocol

from hfi_sim.base.clock import Clock, ManualClock, TimerHandle
from hfi_sim.base.counters import Drop
from hfi_sim.base.instants import FOREVER, NS_PER_S, to_ns, to_seconds
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


class _Burst:
    """Defers the driver's work until the burst ends."""

    __slots__ = ("_driver",)

    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        self._driver.is_running = True
        self._driver.is_touched = False

    def __exit__(self, *_: object) -> None:
        driver = self._driver
        driver.is_running = False
        if driver.is_touched:
            driver.run()


_INSIDE: Final = nullcontext()
"""A burst inside another call of the driver: that call dispatches its outputs when it ends."""


class EngineDriver:
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
        self._time = clock.time
        self._skip_to = clock.skip_to if isinstance(clock, ManualClock) else _never
        self._is_timeless = timer_resolution_s == inf
        self._early_ns = 0 if self._is_timeless else to_ns(timer_resolution_s)
        """How far ahead of the clock events may run that an input has caused."""
        self._dispatch = dispatch
        self._now = 0
        self._clock_s = 0.0
        """Reading of the clock at that time, in seconds."""
        self.is_running = False
        """Whether outputs are being dispatched or a burst is being sent: the results of an input wait for the end."""
        self._burst = _Burst(self)
        self._outputs: deque[Output] = deque()
        """Taken from the engine and not dispatched yet."""
        self.is_touched = False
        """Whether the engine has received anything since it was last asked for its deadline."""
        self._timer: TimerHandle | None = None
        self._timer_at = FOREVER

    @property
    def now(self) -> int:
        """The current time in nanoseconds; if the clock goes back, time stands still.

        If time ran backwards, an idle wire would look backlogged and drop packets.
        """
        return self._tell_time()

    def _tell_time(self) -> int:
        self.is_touched = True
        time = self._time
        clock_s = time()
        if clock_s > self._clock_s:
            self._clock_s = clock_s
            now = round(clock_s * NS_PER_S)
            if now > self._now:
                self._now = now
        return self._now

    def send(self, port: PortId, data: bytes) -> Drop | None:
        """Send bytes from an HFI port, as `Engine.send`, and do what is due."""
        now = self._tell_time()
        drop = self.engine.send(now, port, data)
        if not self.is_running:
            self._run_if_due(now)
        return drop

    def inject(self, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a packet from an HFI port, as `Engine.inject`, and do what is due."""
        now = self._tell_time()
        drop = self.engine.inject(now, port, packet, slid, dlid, pkey)
        if not self.is_running:
            self._run_if_due(now)
        return drop

    def _run_if_due(self, now: int) -> None:
        """Do the work that an input has caused if it is due, or set the timer."""
        if self._early_ns:  # most of it is due by then
            self._run(now + self._early_ns)
            return
        deadline = self.engine.deadline
        if deadline is None:
            return
        if self._is_timeless and deadline > now:
            self._now = now = deadline
        if deadline <= now:
            self._run(now)
        else:
            self._wake_at(deadline)

    def burst(self) -> AbstractContextManager[object]:
        """Process packets sent in the body when the body ends: due events are handled once for all of them.

        Side effects, such as a link that stops a port, still happen at their own time.
        """
        return _INSIDE if self.is_running else self._burst

    def run(self) -> None:
        """Do what is due and dispatch the outputs; harmless when called from inside itself."""
        self._run(self.now + self._early_ns)

    def _run(self, until: int, skips: bool = False) -> None:
        """Do what is due by `until`. Args: skips: no other task is in the middle of something, so time may skip
        ahead.
        """
        if self.is_running:
            return
        self.is_running = True
        waiting, step, dispatch = self._outputs, self.engine.step, self._dispatch
        is_timeless = self._is_timeless
        deadline: int | None = 0  # at once, should a handler raise
        try:
            while True:
                outputs, due = step(until)
                if is_timeless and due is not None and not outputs and not waiting:
                    if due > until:
                        self._now = until = due
                    continue
                self.is_touched = False
                if waiting or len(outputs) > 1:
                    waiting.extend(outputs)
                    while waiting:
                        dispatch(waiting.popleft())
                elif outputs:
                    dispatch(outputs[0])
                if self.is_touched:
                    until = max(until, self._tell_time() + self._early_ns)
                elif due is None:
                    deadline = due
                    break
                elif self._early_ns and outputs:
                    until = max(until, self._tell_time() + self._early_ns)  # dispatching took its time
                elif is_timeless:
                    until = self._now = max(due, self._now)
                elif skips and self._skip_to(to_seconds(due)):
                    until = due
                else:
                    deadline = due
                    break
        finally:
            self.is_running = False
            if deadline is not None:
                self._wake_at(deadline)

    def count(self) -> None:
        """Update the counters, including everything due by now."""
        engine = self.engine
        engine.handle_timeout(self.now)
        engine.count()
        self.run_soon()

    def run_soon(self) -> None:
        """Dispatch the outputs of a change once its caller has finished all of its changes."""
        if not self.is_running:
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
        self._run(max(due, self.now + self._early_ns), skips=True)


def _never(_when: float) -> bool:
    """Replacement for `skip_to` of a clock on which only timers move time."""
    return False
