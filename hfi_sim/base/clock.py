"""Time and callbacks, as a core module needs them. An asyncio event loop, real or virtual, is a Clock.

The engine counts whole nanoseconds: `to_ns`, `to_seconds`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, Protocol


class TimerHandle(Protocol):
    """What `call_at` gives back."""

    def cancel(self) -> None:
        """Forget the callback; harmless after it ran."""


class Clock(Protocol):
    """Seconds on a steady clock, and callbacks at a later time. `asyncio.AbstractEventLoop` is one."""

    def time(self) -> float:
        """Return now, in seconds."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Run `callback(*args)` after the current callback has returned."""
        ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` when `time()` reaches `when` seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` in `delay` seconds."""
        ...


class ManualClock:
    """A clock that stands still until `advance` moves it: for tests and tools that run without an event loop."""

    def __init__(self) -> None:
        self._now = 0.0
        self._end = 0.0
        """How far `advance` is to move it."""
        self._order = 0
        self._queue: list[tuple[float, int, _Timer]] = []

    def time(self) -> float:
        """Return now, in seconds since the clock was made."""
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` at the next `advance`, before time moves."""
        return self.call_at(self._now, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` once time has moved by `delay` seconds."""
        return self.call_at(self._now + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` once time has reached `when` seconds; equal times keep the order of the calls."""
        timer = _Timer(callback, args)
        self._order += 1
        heapq.heappush(self._queue, (when, self._order, timer))
        return timer

    def advance(self, seconds: float = 0.0) -> None:
        """Move time by `seconds`, running on the way what falls due, in order."""
        self._end = end = self._now + seconds
        while self._queue and self._queue[0][0] <= end:
            when, _, timer = heapq.heappop(self._queue)
            self._now = max(self._now, when)
            timer.run()
        self._now = end

    def skip_to(self, when: float) -> bool:
        """Move on to `when`, as a timer would from inside `advance`; return False where a timer must."""
        if when > self._end or (self._queue and self._queue[0][0] <= when):
            return False
        if when > self._now:
            self._now = when
        return True


class _Timer:
    """One pending callback of a ManualClock."""

    __slots__ = ("_args", "_callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback(*self._args)


NS_PER_S: Final = 1_000_000_000
FOREVER: Final = (1 << 63) - 1
"""Later than anything that is scheduled."""


def to_ns(seconds: float) -> int:
    """Return a time or a delay in whole nanoseconds, rounded to the nearest, at most `FOREVER`."""
    ns = seconds * NS_PER_S
    return round(ns) if ns < FOREVER else FOREVER


def to_seconds(ns: int) -> float:
    """Return nanoseconds as a clock counts them, in seconds."""
    return ns / NS_PER_S
