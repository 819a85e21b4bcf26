"""The tasks of an object, which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks(set[asyncio.Task[Any]]):
    """Those that run; a task that returns leaves the set."""

    def start(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Run a coroutine in the running event loop."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    @property
    def are_done(self) -> bool:
        """Whether none runs any more: one that has returned may be in the set for another turn of the loop."""
        return all(task.done() for task in self)

    def cancel(self) -> None:
        """Cancel all."""
        for task in self:
            task.cancel()

    async def end(self) -> None:
        """Cancel all, and wait until they have ended."""
        self.cancel()
        await asyncio.gather(*self, return_exceptions=True)
