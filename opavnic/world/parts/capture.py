"""GET /capture on the control API of a lab: a pcapng file that grows while packets pass.

Query: on=PLACE (default *), count=N to end after this many packets, and matches as in a fault (l4=mad, vesw=2, ...).
The fabric does not wait for the reader: packets not read in time are missed and counted in interface statistics
blocks.

    curl -sN --unix-socket CONTROL_SOCKET 'http://lab/capture?on=h1' | tshark -r -
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aiohttp import web

from hfi_sim.errors import InputError
from hfi_sim.faults import parse_match
from opavnic.errors import TooManyError
from opavnic.observe.capture import Capture
from opavnic.observe.trace_file import TraceWriter
from opavnic.world.connections import MAX_FOLLOWERS, while_read
from opavnic.world.part import RunningPart
from opavnic.world.world import World

CONTENT_TYPE: Final = "application/x-pcapng"
_MAX_DIGITS: Final = 12


class Captures(RunningPart):
    """Lets programs capture the packets of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running = 0

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/capture", self._capture)]

    async def _capture(self, request: web.Request) -> web.StreamResponse:
        if self._running >= MAX_FOLLOWERS:
            raise TooManyError(
                f"{MAX_FOLLOWERS} captures are running, the most a lab allows; end one of them"
            )
        self._running += 1
        try:
            return await _stream(request, self._world)
        finally:
            self._running -= 1


async def _stream(request: web.Request, world: World) -> web.StreamResponse:
    query = dict(request.query)
    place, count = query.pop("on", "*"), _count(query.pop("count", ""))
    match = parse_match(f"{key}={value}" for key, value in query.items())
    news = asyncio.Event()
    epoch_s = time.time() - asyncio.get_running_loop().time()
    capture = Capture(world.fabric, place, match, epoch_s=epoch_s, on_packet=news.set)
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    try:
        await response.prepare(request)
        await _write(request, response, capture, news, count)
        await response.write_eof()
    except ConnectionError:
        pass  # the reader has left
    finally:
        capture.stop()
    return response


async def _write(
    request: web.Request,
    response: web.StreamResponse,
    capture: Capture,
    news: asyncio.Event,
    count: int | None,
) -> None:
    """Write packets as they arrive, until `count` are written or the reader has left."""
    writer = TraceWriter()
    await response.write(writer.head())
    missed = 0
    while count is None or count > 0:
        await while_read(request, news.wait())
        news.clear()
        records = capture.take()[:count]
        data = b"".join(map(writer.packet, records))
        if capture.missed > missed and records:
            missed = capture.missed
            data += writer.missed(records[-1].time_s, missed)
        await response.write(data)
        if count is not None:
            count -= len(records)


def _count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0):
        raise InputError(f"count={text!r} is not a number of packets, 1 or more")
    return int(text)
