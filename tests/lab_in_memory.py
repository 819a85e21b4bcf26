"""A lab in memory and its control socket, for tests that ask over HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from aiohttp import ClientSession, UnixConnector, web

from opavnic.lab.file.loader import parse_lab
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.world.parts.control import ControlServer


def lab_in_memory(text: str) -> Lab:
    """Return the lab of a file with this text; it starts with its context, and keeps the delays of links exactly."""
    return Lab(parse_lab(text, "lab.yaml"), netdev="memory", timer_resolution_s=0.0)


@asynccontextmanager
async def served(
    routes: Iterable[web.RouteDef], directory: Path, *, limit: int = 100
) -> AsyncIterator[ClientSession]:
    """Answer these routes on a socket in `directory`; give a client with at most so many connections, 0 for any."""
    server = ControlServer(directory / "sock", list(routes))
    await server.start()
    connector = UnixConnector(str(directory / "sock"), limit=limit)
    async with ClientSession("http://lab", connector=connector) as session:
        yield session
    await server.close()


@contextmanager
def running_directory(path: Path) -> Iterator[LabDir]:
    """The directory of a lab that runs in this process, as `opavnic` finds it: below OPAVNIC_RUNTIME_DIR."""
    directory = LabDir(path)
    directory.acquire()
    directory.save(Journal(directory.name, os.getpid(), process_start_time(os.getpid()) or 0))
    yield directory
    directory.release()


@asynccontextmanager
async def answering(directory: LabDir, text: str) -> AsyncIterator[Lab]:
    """A lab in memory that answers at its control socket."""
    hub = LogHub(directory.log_file)
    async with Lab(parse_lab(text, "lab.yaml"), netdev="memory") as lab:
        server = ControlServer(directory.control_socket, lab_routes(lab, hub, lab.stop))
        await server.start()
        yield lab
        await server.close()
    hub.close()
