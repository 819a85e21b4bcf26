"""A future of the running event loop, for a coroutine of a module that does no I/O of its own."""

from __future__ import annotations

import asyncio
from typing import Any


def loop_future() -> asyncio.Future[Any]:
    """Return a future without a result; a coroutine that awaits it waits for the result."""
    return asyncio.get_running_loop().create_future()
