"""What every part of a scenario needs: its clock, what has been logged, the error of wrong use."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from hfi_sim.base.clock import Clock, TimerHandle
from opavnic.base.errors import OpavnicError
from opavnic.base.packages import listening

_KEEP: Final = 500


class ScenarioError(OpavnicError):
    """A scenario is used in a way that cannot work: for example, an unknown host, or a host without a VNIC."""


def check_time(name: str, value: object) -> None:
    """Check that a time is a number of seconds, 0 or more.

    Raises:  ScenarioError: it is not; the message shows a valid one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ScenarioError(f"{name} is {value!r}; it is a number of seconds, 0 or more, such as ms(5)")


class LoopClock:
    """The time of one event loop since it was bound to this clock; 0 until then.

    A scenario on a loop that others have used before sees the same times as on a new one, and so replays.
    """

    def __init__(self) -> None:
        """Bind to the running loop, if there is one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._origin = 0.0
        with contextlib.suppress(RuntimeError):  # no loop is running yet
            self.bind()

    @property
    def is_here(self) -> bool:
        """Whether the loop of this clock is the one that is running."""
        return self._loop is None or asyncio.get_running_loop() is self._loop

    def bind(self) -> asyncio.AbstractEventLoop:
        """Take the time of the running loop from here on, unless a loop is bound already; return the loop.

        Raises:  RuntimeError: no loop is running.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._origin = self._loop.time()
        return self._loop

    def time(self) -> float:
        """Return now, in seconds."""
        return 0.0 if self._loop is None else self._loop.time() - self._origin

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Run `callback(*args)` after the current callback has returned."""
        return self.bind().call_soon(callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` when `time()` reaches `when` seconds."""
        return self.bind().call_at(when + self._origin, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` in `delay` seconds."""
        return self.bind().call_later(delay, callback, *args)


class Timeline(logging.Handler):
    """Keeps the last events as (seconds, text)."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.INFO)
        self.events: deque[tuple[float, str]] = deque(maxlen=_KEEP)
        self._clock = clock

    def emit(self, record: logging.LogRecord) -> None:
        """Add a log record."""
        self.note(f"{record.name}: {record.getMessage()}")

    def note(self, text: str) -> None:
        """Add an event of the test itself."""
        self.events.append((self._clock.time(), text))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Listen to the packages' loggers while the context lasts."""
        with listening(self, logging.INFO):
            yield

    def text(self) -> str:
        """Return one line per event."""
        return "\n".join(f"{when * 1e3:12.6f} ms  {what}" for when, what in self.events) or "nothing happened"
