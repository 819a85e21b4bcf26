"""A clock that reads the currently running event loop, so that a fabric can be built before there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hfi_sim.clock import TimerHandle


class RunningLoopClock:
    """Delegates to `asyncio.get_running_loop()`; stands still while no loop is running."""

    def __init__(self) -> None:
        self._last = 0.0

    def time(self) -> float:
        """Return now, in seconds."""
        # not contextlib.suppress, for speed: this runs for every packet on every link
        try:
            self._last = asyncio.get_running_loop().time()
        except RuntimeError:
            return self._last
        return self._last

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Run `callback(*args)` after the current callback has returned."""
        return asyncio.get_running_loop().call_soon(callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` when `time()` reaches `when` seconds."""
        return asyncio.get_running_loop().call_at(when, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` in `delay` seconds."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)
