"""A lab in memory and its control socket, for tests that ask over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, UnixConnector, web

from opavnic.lab.lab import Lab
from opavnic.lab.loader import parse_lab
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
