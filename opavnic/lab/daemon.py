"""The process of a running lab: makes it, serves its control API, and unmakes it when asked or signalled."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

from opavnic.lab.cleanup import Removed
from opavnic.lab.control import ControlServer, lab_routes
from opavnic.lab.errors import LabError
from opavnic.lab.lab import Lab
from opavnic.lab.logs import LogHub

log = logging.getLogger("opavnic.lab")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_lab(lab: Lab, ready: Callable[[dict[str, Any]], None]) -> Removed:
    """Make `lab` real, call `ready` with its status, keep it until a signal or POST /down, remove it.

    Returns: what was removed.
    Raises:  LabError: it could not be made, or could not go on; nothing of it is left.
    """
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end.set)
    hub: LogHub | None = None
    control: ControlServer | None = None

    async def down() -> dict[str, Any]:
        removed = await lab.stop()
        loop.call_soon(end.set)
        return removed.as_json()

    try:
        lab.claim()
        hub = LogHub(lab.directory.log_file)
        if await _start_or_end(lab, end):
            control = ControlServer(lab.directory.control_socket, lab_routes(lab, hub, down))
            await control.start()
            ready(lab.status())
            lab.on_failure(end.set)
            await end.wait()
        removed = await lab.stop()
        if lab.failure:
            raise LabError(lab.failure)
        return removed
    finally:
        if hub is not None:
            hub.end_followers()
        if control is not None:
            await control.close()
        await lab.stop()
        if hub is not None:
            hub.close()
        lab.release()


async def _start_or_end(lab: Lab, end: asyncio.Event) -> bool:
    """Start the lab unless `end` comes first; return whether it runs."""
    starting = asyncio.ensure_future(lab.start())
    ending = asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            return True
        return False
    finally:
        ending.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
