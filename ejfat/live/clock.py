"""Unix time that does not step: the machine's clock when the program started, and the time that has passed since."""

from __future__ import annotations

import time


class SteadyClock:
    """A clock that a step of the machine's clock does not move, and that goes on while the machine is suspended."""

    def __init__(self) -> None:
        self._start_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def ns(self) -> int:
        """Return nanoseconds since 1970."""
        return self._start_ns + time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def __call__(self) -> float:
        """Return seconds since 1970."""
        return self.ns() / 1e9
