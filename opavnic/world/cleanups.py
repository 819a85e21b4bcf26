"""Cleanup registered at the moment of start: everything is ended, even if one of the cleanups fails."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from hfi_sim.base.errors import HfiSimError
from opavnic.base.errors import OpavnicError
from opavnic.world.long_work import LOOK_S, Silence

log = logging.getLogger("opavnic.world")

PATIENCE_S: Final = 10.0
"""Seconds that one cleanup may take before it is abandoned; those in which this process does not run do not count."""
_T = TypeVar("_T")
_End = Callable[[], Awaitable[object] | object]
_CANCELLED_S: Final = 1.0
"""Seconds that an abandoned cleanup has to react to its cancellation."""


class Cleanups:
    """The cleanups of everything that was started, run in reverse order.

    A cleanup that fails or takes too long is logged and added to `failed`; the others still run.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        """What failed to stop, and why."""
        self._ends: dict[object, tuple[str, _End, float | None]] = {}
        """The last one ends first."""

    def add(self, what: str, end: _End, patience_s: float | None = PATIENCE_S) -> Callable[[], None]:
        """Have `end` called when everything ends, unless the returned function is called before.

        Args:  what: names it in messages. patience_s: a coroutine that takes longer is given up; None: wait for it,
               because it has a limit of its own.
        """
        key = object()
        self._ends[key] = what, end, patience_s

        def forget() -> None:
            self._ends.pop(key, None)

        return forget

    def group(self, what: str) -> Cleanups:
        """Return cleanups that run at this place in the order, for what comes and goes later."""
        group = Cleanups()

        async def end() -> None:
            self.failed += await group.close()

        self.add(what, end, patience_s=None)
        return group

    async def enter(
        self, what: str, context: AbstractAsyncContextManager[_T], patience_s: float | None = PATIENCE_S
    ) -> _T:
        """Enter a context, to be left when everything ends; return its value. Arguments as for `add`."""
        entered = await context.__aenter__()
        self.add(what, lambda: context.__aexit__(None, None, None), patience_s)
        return entered

    async def close(self) -> list[str]:
        """Run every cleanup once; return `failed`. Cancelled, it runs the others all the same."""
        cancelled: BaseException | None = None
        while self._ends:
            _, (what, end, patience_s) = self._ends.popitem()
            try:
                await self._end(what, end, patience_s)
            except BaseException as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return self.failed

    async def _end(self, what: str, end: _End, patience_s: float | None) -> None:
        try:
            ending = end()
            if inspect.isawaitable(ending):
                await _within(patience_s, ending)
        except Exception as error:
            known = isinstance(error, HfiSimError)
            reason = " ".join(str(error).split()) if known else f"{type(error).__name__}: {error}"
            self.failed.append(f"{what}: {reason}")
            log.error("%s failed to stop: %s", what, reason, exc_info=None if known else error)


def complain(failed: str, error: BaseException | None) -> None:
    """Say at the end of a context what has failed to stop: as a note, if an error leaves it. Raises OpavnicError."""
    if failed and error is None:
        raise OpavnicError(failed)
    if failed and error is not None:
        error.add_note(failed)


async def _within(patience_s: float | None, ending: Awaitable[object]) -> None:
    """Wait for a cleanup. Raises what it raises, or OpavnicError if it was abandoned or cancelled."""
    task = asyncio.ensure_future(ending)
    try:
        silence = Silence(asyncio.get_running_loop().time)
        while not task.done() and (patience_s is None or silence.look(None) < patience_s):
            await asyncio.wait({task}, timeout=None if patience_s is None else LOOK_S)
        if not task.done():
            task.cancel()
            task.add_done_callback(_heard)
            await asyncio.wait({task}, timeout=_CANCELLED_S)
            raise OpavnicError(f"not ended within {patience_s:g} s, given up")
    except asyncio.CancelledError:  # we are cancelled, and with us what we wait for
        task.cancel()
        raise
    if task.cancelled():
        raise OpavnicError("its end was cancelled")
    task.result()


def _heard(task: asyncio.Future[object]) -> None:
    """Retrieve the outcome of an abandoned task, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()
