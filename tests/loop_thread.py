"""An event loop in a thread of its own, for tests that play a program outside of what lives on it."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Self

_WAIT_S: Final = 60


class LoopThread(threading.Thread):
    """Runs `living` on an event loop of its own, from the beginning of the context to its end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done: asyncio.Event

    @abstractmethod
    def living(self) -> AbstractAsyncContextManager[None]:
        """Return the context that makes everything on the loop, and ends it."""

    def run(self) -> None:
        self.loop.run_until_complete(self._live())
        self.loop.close()

    async def _live(self) -> None:
        self._done = asyncio.Event()
        async with self.living():
            self._ready.set()
            await self._done.wait()

    def __enter__(self) -> Self:
        self.start()
        assert self._ready.wait(_WAIT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End everything, and wait for it; harmless when done twice."""
        if self.is_alive():
            self.loop.call_soon_threadsafe(self._done.set)
            self.join(_WAIT_S)
        assert not self.is_alive()

    def call(self, function: Callable[[], object]) -> None:
        """Run `function` on the loop, and wait for it."""

        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(_WAIT_S)
