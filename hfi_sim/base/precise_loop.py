"""An event loop whose timers keep link delays of a tenth of a millisecond.

The standard loop waits in epoll, which counts whole milliseconds: a packet on a cable of 200 us would be five times
too late. `select(2)` counts microseconds, and an epoll object is itself a file to wait for; so one waits there, and
asks epoll without waiting. That takes two calls, both of which are between a frame and its answer. So a longer
wait is done in epoll, until shortly before its end.

`loop_future` makes a future of the running loop, for cores that open nothing themselves.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

COARSE_S: Final = 1e-3
"""What timers of the standard loop keep."""
FINE_S: Final = 50e-6
"""What timers of this loop keep: the kernel's slack for a thread that sleeps (prctl(2), PR_SET_TIMERSLACK)."""

_NEAR_S: Final = 2 * COARSE_S
"""What is due so soon is waited for in select(2); a wait in epoll that ends so much earlier is never too long."""
_SELECT_LIMIT: Final = 1024
"""select(2) takes file descriptors below this (FD_SETSIZE)."""


class PreciseSelector(selectors.EpollSelector):
    """Epoll that wakes up within microseconds of the time asked for."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, after at most `timeout` seconds; None: whenever something is.

        It may be nothing before that time: the loop asks again.
        """
        if timeout is not None and timeout > 0 and self.fileno() < _SELECT_LIMIT:
            if timeout > _NEAR_S:
                timeout -= _NEAR_S
            else:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
        return super().select(timeout)


class PreciseEventLoop(asyncio.SelectorEventLoop):
    """The standard loop with timers of `FINE_S`."""

    def __init__(self) -> None:
        super().__init__(PreciseSelector())
        # what the method of the standard loop returns, without a call of Python
        self.time = time.monotonic  # type: ignore[method-assign]


def timer_resolution_s(loop: asyncio.AbstractEventLoop) -> float:
    """Return below which delay, in seconds, it is better to go on at once than to set a timer of `loop`."""
    return FINE_S if isinstance(loop, PreciseEventLoop) else COARSE_S


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run `coroutine` to its end as `asyncio.run` does, on a PreciseEventLoop, and return its result."""
    with asyncio.Runner(loop_factory=PreciseEventLoop) as runner:
        return runner.run(coroutine)


def loop_future() -> asyncio.Future[Any]:
    """Return a future without a result; a coroutine that awaits it waits for the result."""
    return asyncio.get_running_loop().create_future()
