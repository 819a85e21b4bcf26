"""The clock of a scenario: an event loop's, from 0 on, which a fabric can be built with before there is a loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from hfi_sim.base.clock import TimerHandle


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
