"""Virtual time: of an event loop while a scenario runs on it, and of a script that pytest does not run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from opavnic.scenario.base import ScenarioError

Result = TypeVar("Result")

RESOLUTION_S: Final = 1e-9
"""Resolution of virtual time; the latency of a cable is a few hundred nanoseconds."""

LOOP_OPTIONS: Final = {"resolution": RESOLUTION_S, "noop_cycles": 0}
"""Options of looptime. Its idle cycles before each step of time, meant for threads and sockets, cost the most time."""


@contextlib.contextmanager
def virtual_time(loop: asyncio.AbstractEventLoop, **options: Any) -> Iterator[None]:
    """Let the time of `loop` pass without waiting while the context lasts; on a loop that does so already, do nothing.

    Args:    options: of looptime, such as start=100.
    Raises:  ScenarioError: not a loop of asyncio itself, whose time cannot be changed.
    """
    import looptime

    if not isinstance(loop, asyncio.BaseEventLoop):
        kind = f"{type(loop).__module__}.{type(loop).__qualname__}"
        raise ScenarioError(
            f"virtual time needs an event loop of asyncio itself, not {kind}; run the tests with a fabric on one"
        )
    with contextlib.ExitStack() as stack:
        patched = looptime.patch_event_loop(loop)
        patched.setup_looptime(**{**LOOP_OPTIONS, **options})
        if not patched.looptime_on:
            stack.enter_context(patched.looptime_enabled())
        yield


def run_virtual(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end on an event loop of its own, with virtual time from 0, and return its result.

    Args:    coroutine: such as `scenario()`; it is closed if it cannot run.
    Raises:  ScenarioError: an event loop is already running here. ModuleNotFoundError: looptime is not installed
             (the wheel's extra `testing`).
    """
    if _is_running():
        coroutine.close()
        raise ScenarioError(
            "run_virtual: an event loop is already running in this thread, as in Jupyter; await the coroutine there, "
            "on real time, or call run_virtual in a thread: await asyncio.to_thread(run_virtual, ...)"
        )
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, virtual_time(runner.get_loop()):
        return runner.run(coroutine)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def seconds(value: float) -> float:
    """Return seconds, as `within=` and sleeps take them. Args: value: seconds."""
    return float(value)


def ms(value: float) -> float:
    """Return milliseconds in seconds. Args: value: milliseconds."""
    return value * 1e-3


def us(value: float) -> float:
    """Return microseconds in seconds. Args: value: microseconds."""
    return value * 1e-6


def ns(value: float) -> float:
    """Return nanoseconds in seconds. Args: value: nanoseconds."""
    return value * 1e-9
