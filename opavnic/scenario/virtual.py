"""Run a coroutine on virtual time, outside of pytest: for scripts, documentation and benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

RESOLUTION_S: Final = 1e-9
"""Resolution of virtual time; the latency of a cable is a few hundred nanoseconds."""

LOOP_OPTIONS: Final = {"resolution": RESOLUTION_S, "noop_cycles": 0}
"""Options of looptime. Its idle cycles before each step of time, meant for threads and sockets, cost the most time."""


def run_virtual(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run `coroutine` to completion on an event loop with virtual time from 0, and return its result.

    Raises:  ModuleNotFoundError: looptime is not installed (`pip install 'opavnic[testing]'`).
    """
    import looptime

    def make_loop() -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = looptime.new_event_loop(start=0, _enabled=True, **LOOP_OPTIONS)
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(coroutine)
