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
import time
from typing import Final

from aiohttp import web

from hfi_sim.errors import InputError
from hfi_sim.faults import parse_match
from hfi_sim.link.capture import MAX_SNAP
from hfi_sim.quantities import parse_size, size_text
from opavnic.errors import TooManyError
from opavnic.observe.capture import DEFAULT_BUFFER, MAX_BUFFER, MIN_BUFFER, Capture
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.world.connections import MAX_FOLLOWERS
from opavnic.world.json_body import json_object
from opavnic.world.openapi import api
from opavnic.world.part import RunningPart
from opavnic.world.world import World

CONTENT_TYPE: Final = "application/x-pcapng"
LOOK_S: Final = 0.02
"""Seconds between two looks into a ring that is not full. A call for each packet would slow the fabric down."""
_STATISTICS_S: Final = 1.0
"""Seconds between two reports of missed packets."""
_MAX_DIGITS: Final = 12


class Captures(RunningPart):
    """Lets programs capture the packets of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last = 0
        self._running: dict[int, tuple[Capture, asyncio.Event]] = {}
        """Each capture by its number, and what its writer is told the end by."""

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/capture", self._capture), web.post("/capture/end", self._end)]

    @api(
        "Capture packets as they pass",
        "a pcapng file that grows; the header Capture-Number has the number of the capture",
        content=CONTENT_TYPE,
        query={
            "on": "a place, as of a fault; default: all links",
            "snap": "bytes of a packet to keep",
            "count": "end after so many packets",
            "once": "1: capture packets only where they enter the fabric",
            "buffer": "bytes that may wait for the reader",
            "l4": "and every other match of a fault: vesw, attr, method, lid, slid, dlid, sc, direction",
        },
    )
    async def _capture(self, request: web.Request) -> web.StreamResponse:
        if len(self._running) >= MAX_FOLLOWERS:
            raise TooManyError(
                f"{MAX_FOLLOWERS} captures are running, the most a lab allows; end one of them"
            )
        capture, ending = _start(dict(request.query), self._world), asyncio.Event()
        self._last += 1
        number = self._last
        self._running[number] = capture, ending
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE, NUMBER_HEADER: str(number)})
        try:
            await response.prepare(request)
            await _write(request, response, capture, ending)
            await response.write_eof()
        except ConnectionError:
            pass  # the reader has left
        finally:
            del self._running[number]
            capture.stop()
        return response

    @api("End a capture", "its number", ("number",), body={"number": "integer: of a running capture"})
    async def _end(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if type(number) is not int or number not in self._running:
            raise InputError(f"no capture with number {number!r:.40} is running")
        capture, ending = self._running[number]
        capture.stop()
        ending.set()
        return web.json_response({"number": number})


def _start(query: dict[str, str], world: World) -> Capture:
    """Start the capture that a query asks for. Raises InputError: what is wrong with it."""
    place, limit = query.pop("on", "*"), _count(query.pop("count", ""))
    snap = _size(query, "snap", 1, MAX_SNAP, MAX_SNAP)
    buffer_bytes = _size(query, "buffer", MIN_BUFFER, MAX_BUFFER, DEFAULT_BUFFER)
    once = query.pop("once", "0")
    if once not in ("0", "1"):
        raise InputError(f"once={once!r:.40} is neither 0 nor 1")
    return Capture(
        world.fabric,
        place,
        parse_match(f"{key}={value}" for key, value in query.items()),
        epoch_s=time.time() - asyncio.get_running_loop().time(),
        snap=snap,
        limit=limit,
        once=once == "1",
        buffer_bytes=buffer_bytes,
    )


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
                await asyncio.wait_for(ending.wait(), LOOK_S)
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


def _size(query: dict[str, str], name: str, low: int, high: int, default: int) -> int:
    text = query.pop(name, None)
    if text is None:
        return default
    size = parse_size(text)
    if not low <= size <= high:
        raise InputError(f"{name} is {text:.40}; it is {size_text(low)} to {size_text(high)} bytes")
    return size


def _count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0):
        raise InputError(f"count={text!r} is not a number of packets, 1 or more")
    return int(text)
