"""The process of a running lab: builds it, serves its control API, and removes it on a request or a signal."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from opavnic.base.signals import call_on_ending_signals
from opavnic.lab.file.errors import LabError
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.lab_routes import LabRoutes
from opavnic.lab.run.logs import LogHub
from opavnic.state.lab import LabState
from opavnic.state.removed import Removed
from opavnic.world.cleanups import Cleanups
from opavnic.world.jobs import current_job
from opavnic.world.parts.control import ControlServer

log = logging.getLogger("opavnic.lab")

TAKEN_S: Final = 2.0
"""How long a lab that has ended waits for its client to fetch the answer."""


async def run_lab(
    lab: Lab,
    ready: Callable[[LabState], None],
    end: asyncio.Event | None = None,
    *,
    broken: Callable[[str], None] | None = None,
) -> Removed:
    """Start `lab`, call `ready` with its status, keep it until a signal or POST /down, and remove it.

    Args:    end: ends it as well once it is set. broken: told why a lab that was ready carries nothing any more. Its
             hosts and their programs stay as they are then, until a signal or POST /down; None: it is removed at once.
    Returns: what was removed, and what failed to stop.
    Raises:  LabError: the lab could not start, or failed later; it has been removed.
    """
    keep_large_blocks_out_of_the_heap()
    end = asyncio.Event() if end is None else end
    cleanups = Cleanups()
    call_on_ending_signals(end.set)
    try:
        removed = await _live(lab, ready, end, cleanups, broken)
    finally:
        failed = await cleanups.close()
    removed.failed += failed
    if lab.failure:
        raise LabError("; ".join([lab.failure, *removed.failed]))
    return removed


def lab_routes(lab: Lab, hub: LogHub, down: Callable[[], Awaitable[Removed]]) -> list[web.RouteDef]:
    """Return the routes of a lab's control API.

    Args:    down: ends the lab and returns what was removed.
    """
    return [*LabRoutes(lab, hub, down).routes(), *lab.routes()]


async def _live(
    lab: Lab,
    ready: Callable[[LabState], None],
    end: asyncio.Event,
    cleanups: Cleanups,
    broken: Callable[[str], None] | None,
) -> Removed:
    """Run the lab until `end` is set and stop it; the other cleanups are registered in `cleanups`."""

    async def down() -> Removed:
        job = current_job()
        job.begin()
        removed = await lab.stop()
        job.on_taken(end.set, TAKEN_S)
        return removed

    lab.claim()
    cleanups.add("directory of the lab", lab.release)
    hub = LogHub(lab.directory.log_file)
    cleanups.add("log", hub.close)
    cleanups.add("lab", lab.stop, patience_s=None)
    control = ControlServer(lab.directory.control_socket, ())
    cleanups.add("control API", control.close)
    cleanups.add("readers of the log", hub.end_followers)
    with rare_garbage_collections():
        runs = await _start_or_end(lab, end, control)
    if runs:
        await control.serve(lab_routes(lab, hub, down))
        ready(lab.status())
        lab.on_failure(end.set if broken is None else lambda: broken(lab.failure))
        await end.wait()
    return await lab.stop()


async def _start_or_end(lab: Lab, end: asyncio.Event, control: ControlServer) -> bool:
    """Start the lab, as its first job, unless `end` comes first; return whether it runs."""

    async def up() -> web.Response:
        await lab.start()
        return web.json_response({"lab": lab.model.name})

    jobs = control.jobs.jobs
    job = jobs.start("up", up())
    starting = asyncio.ensure_future(jobs.result(job.number))
    ending = asyncio.ensure_future(end.wait())
    try:
        await control.start_early(
            lambda: f"lab {lab.model.name} is starting: {job.state().progress or 'nearly ready'}"
        )
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            return True
        return False
    finally:
        ending.cancel()
        if not starting.done():
            job.cancel()
            await asyncio.gather(starting, return_exceptions=True)


_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK: Final = 128 << 10
"""Bytes: glibc's threshold at the start of a process."""
_NEW_OBJECTS: Final = 200_000
"""After how many new objects garbage is looked for while a lab starts; Python's default is 700."""


def keep_large_blocks_out_of_the_heap() -> None:
    """Make glibc map each large block of memory by itself and unmap it when it is freed, for good.

    By default glibc raises the threshold whenever such a block is freed (mallopt(3), "dynamic mmap threshold"). The
    next large block then comes out of the heap, small ones settle behind it, and its space is reused only in part: the
    resident memory of a lab whose EM got a thousand configurations grew by 9 MiB, with the threshold fixed by 2.
    Other C libraries have no such option. A threshold that the user has set (MALLOC_MMAP_THRESHOLD_) stays.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


@contextmanager
def rare_garbage_collections() -> Iterator[None]:
    """Look for garbage rarely while a lab starts, and then exempt what is there from every later search.

    Nearly all objects that a starting lab makes live as long as it does, and each search goes through them again: with
    1000 hosts that took a tenth of the start. In a running lab a search through all of them would delay the fabric.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
        gc.freeze()
    finally:
        gc.set_threshold(*before)
