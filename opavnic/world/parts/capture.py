"""Captures on the control API of a lab: pcapng files that grow while packets pass.

GET  /capture       on=PLACE (default *); snap=BYTES of a packet; count=N ends it after this many packets; once=1
                    captures a packet only where it enters the fabric; buffer=SIZE that may wait for the reader; and
                    matches as in a fault (l4=mad, vesw=2, ...). The header Capture-Number of the answer is the number
                    of the capture.
POST /capture/end   {"number": 3}: capture no more; the other answer ends with what was kept and with statistics

The fabric does not wait for the reader: packets for which there is no room are missed, and counted in interface
statistics blocks.

    curl -sN --unix-socket CONTROL_SOCKET 'http://lab/capture?on=h1' | tshark -r -
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import visible
from opavnic.base.errors import OpavnicError, TooManyError
from opavnic.observe.capture import RING_LOOK_S, Capture, begins_here
from opavnic.observe.capture_copy import NUMBER_HEADER, WITHOUT_HEADER
from opavnic.state.lab import Numbered
from opavnic.world.connections import MAX_FOLLOWERS
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.parts.capture_asked import AskedCapture
from opavnic.world.parts.capture_joined import write_joined
from opavnic.world.remote_machines import RemoteCapture, RemoteMachines
from opavnic.world.world import World

CONTENT_TYPE: Final = "application/x-pcapng"
_STATISTICS_S: Final = 1.0
"""Seconds between two reports of missed packets."""


class Captures(RunningPart):
    """Lets programs capture the packets of a world."""

    def __init__(self, world: World, remote: RemoteMachines | None = None) -> None:
        """Prepare. Args: remote: the other machines that carry parts of the fabric."""
        self._world = world
        self._remote = remote
        self._last = 0
        self._running: dict[int, tuple[Capture | None, asyncio.Event]] = {}
        """By number: what captures at this machine, and what the writer is told the end by."""

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/capture", self._capture), web.post("/capture/end", self._end)]

    @Api(
        "Capture packets as they pass",
        "a pcapng file that grows; the header Capture-Number has the number of the capture",
        content=CONTENT_TYPE,
        query={
            "on": "a place, as of a fault; default: all links",
            "snap": "bytes of a packet to keep",
            "count": "end after so many packets",
            "once": "flag: capture packets only where they enter the fabric",
            "buffer": "bytes that may wait for the reader",
            "l4": "and every other match of a fault: vesw, attr, method, lid, slid, dlid, sc, direction",
        },
        open=True,
    )
    async def _capture(self, request: web.Request) -> web.StreamResponse:
        if len(self._running) >= MAX_FOLLOWERS:
            raise TooManyError(
                f"{MAX_FOLLOWERS} captures are running, the most a lab allows; end one of them"
            )
        asked, ending = AskedCapture.parse(request.query), asyncio.Event()
        there, refused = await self._there(asked, request.query)
        async with contextlib.AsyncExitStack() as ends:
            for one in there:
                ends.push_async_callback(one.end)
            capture = None if there and not asked.begins_here(self._world) else asked.start(self._world)
            return await self._send(request, asked, capture, there, refused, ending)

    async def _send(
        self,
        request: web.Request,
        asked: AskedCapture,
        capture: Capture | None,
        there: Sequence[RemoteCapture],
        refused: Mapping[str, str],
        ending: asyncio.Event,
    ) -> web.StreamResponse:
        """Send what captures have, here and there, as one file."""
        self._last += 1
        number = self._last
        self._running[number] = capture, ending
        headers = {"Content-Type": CONTENT_TYPE, NUMBER_HEADER: str(number)}
        if refused:
            headers[WITHOUT_HEADER] = "; ".join(visible(reason) for reason in refused.values())
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            if not there and capture is not None:
                await _write(request, response, capture, ending)
            else:
                await write_joined(request, response, asked, capture, there, ending)
            await response.write_eof()
        except ConnectionError:
            pass  # the reader has left
        finally:
            del self._running[number]
            if capture is not None:
                capture.stop()
        return response

    async def _there(
        self, asked: AskedCapture, query: Mapping[str, str]
    ) -> tuple[list[RemoteCapture], dict[str, str]]:
        """Capture on the machines that carry the rest of what was asked for."""
        ways = [way for way in asked.ways(self._world) if not begins_here(way)]
        if self._remote is None or not ways:
            return [], {}
        there, refused = await self._remote.captures(ways, query)
        if not there and not asked.begins_here(self._world):
            raise OpavnicError("; ".join(refused.values()))
        return there, refused

    @Api("End a capture", "its number", Numbered, body={"number": "integer: of a running capture"})
    async def _end(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if type(number) is not int or number not in self._running:
            raise InputError(f"no capture with number {number!r:.40} is running")
        capture, ending = self._running[number]
        if capture is not None:
            capture.stop()  # what enters from now on is not of it, whenever the writer hears of the end
        ending.set()
        return await json_answer(Numbered(number=number))


async def _write(
    request: web.Request, response: web.StreamResponse, capture: Capture, ending: asyncio.Event
) -> None:
    """Write packets as they come, until the capture is complete, is to end, or its reader has left."""
    loop = asyncio.get_running_loop()
    await response.write(capture.head)
    told, told_at = 0, loop.time()
    while not ending.is_set() and not capture.is_complete:
        data = capture.take(False)
        if not data:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), RING_LOOK_S)
            if request.transport is None:
                raise ConnectionResetError("the reader has left")
            data = capture.take(True)
        missed = capture.totals[1]
        if missed != told and loop.time() >= told_at + _STATISTICS_S:
            told, told_at = missed, loop.time()
            data += capture.statistics()
        if data:
            await response.write(data)  # waits for the reader
    capture.stop()
    while data := capture.take(True):
        await response.write(data)
    await response.write(capture.statistics(final=True))
