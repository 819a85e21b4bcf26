"""A lab in memory and its control socket, for tests that ask over HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, UnixConnector, web

from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.parts import lab_model
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.world.parts.control import ControlServer


def lab_in_memory(file: str | dict[str, Any]) -> Lab:
    """Return the lab of a file with this text or data; it starts with its context, and keeps delays exactly."""
    model = parse_lab(file, "lab.yaml") if isinstance(file, str) else lab_model().model_validate(file)
    return Lab(model, netdev="memory", timer_resolution_s=0.0)


async def pings(
    lab: Lab, sender: str, receiver: str, count: int = 1, *, vesw: str = "blue", timeout_s: float = 5.0
) -> int:
    """Return how many pings of one host of a lab in memory another answers in time."""
    there = lab.interface(receiver, vesw).address
    host = lab.interface(sender, vesw).memory_host
    assert there is not None
    assert host is not None
    return await host.ping(IPv4Address(there.ip), count, timeout_s)


@asynccontextmanager
async def serving(socket: Path, routes: Iterable[web.RouteDef]) -> AsyncIterator[None]:
    """Answer these routes on a socket."""
    server = ControlServer(socket, list(routes))
    await server.start()
    yield
    await server.close()


@asynccontextmanager
async def served(
    routes: Iterable[web.RouteDef], directory: Path, *, limit: int = 100
) -> AsyncIterator[ClientSession]:
    """Answer these routes on a socket in `directory`; give a client with at most so many connections, 0 for any."""
    connector = UnixConnector(str(directory / "sock"), limit=limit)
    async with (
        serving(directory / "sock", routes),
        ClientSession("http://lab", connector=connector) as session,
    ):
        yield session


@asynccontextmanager
async def stand_in(directory: LabDir, *statuses: object) -> AsyncIterator[None]:
    """Answer in the place of a lab: one status after the other, the last one from then on; and no faults."""
    left = list(statuses)

    async def status(_: web.Request) -> web.Response:
        return web.json_response(left.pop(0) if len(left) > 1 else left[0])

    async def faults(_: web.Request) -> web.Response:
        return web.json_response({"seed": 1, "faults": []})

    routes = [web.get("/status", status), web.get("/faults", faults)]
    async with serving(directory.control_socket, routes):
        yield


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
    async with (
        Lab(parse_lab(text, "lab.yaml"), netdev="memory") as lab,
        serving(directory.control_socket, lab_routes(lab, hub, lab.stop)),
    ):
        yield lab
    hub.close()
