"""Captures on the control API of a lab: pcapng files that grow while packets pass.

The fabric does not wait for the reader: packets for which there is no room are missed, and counted in interface
statistics blocks.

    curl -sN --unix-socket CONTROL_SOCKET 'http://lab/capture?on=h1' | tshark -r -
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import InputError, WireError
from hfi_sim.base.text import visible
from hfi_sim.wire.captures import (
    ENHANCED_PACKET,
    INTERFACE,
    MAX_BLOCK,
    OURS,
    PCAPNG_BLOCK,
    SECTION,
    STATISTICS,
    unknown_interface,
)
from opavnic.base.errors import OpavnicError, TooManyError
from opavnic.observe.capture import RING_LOOK_S, Capture, begins_here
from opavnic.observe.capture_copy import NUMBER_HEADER, WITHOUT_HEADER
from opavnic.state.lab import Numbered
from opavnic.world.connections import MAX_FOLLOWERS, while_read, write_pieces
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.parts.capture_asked import AskedCapture
from opavnic.world.remote_machines import RemoteCapture, RemoteMachines
from opavnic.world.world import World

# --- captures of several machines, written to one reader as one file ---------------------------------------

_HEAD: Final = OURS.block.codec
_NUMBER: Final = slice(_HEAD.size, _HEAD.size + 4)
"""Of packets and of statistics: their interface."""
_SMALLEST: Final = {ENHANCED_PACKET: 32, STATISTICS: 24}


class JoinedCapture:
    """The file that several make."""

    def __init__(self, limit: int | None = None) -> None:
        """Begin. Args: limit: packets after which it is complete."""
        self.packets = 0
        self._limit = limit
        self._rest: dict[str, bytes] = {}
        """Of each file, the beginning of a block that is not there yet."""
        self._interfaces: dict[str, list[int]] = {}
        self._numbers = 0
        self._has_head = False

    @property
    def is_complete(self) -> bool:
        """Whether it has as many packets as it was to."""
        return self._limit is not None and self.packets >= self._limit

    def feed(self, source: str, piece: bytes) -> bytes:
        """Return what a piece of one file adds to the joined one; packets beyond the limit are left out.

        Raises:  WireError: these are no blocks of a capture.
        """
        data = self._rest.pop(source, b"") + piece
        known = self._interfaces.setdefault(source, [])
        found, at = bytearray(), 0
        while at + _HEAD.size <= len(data):
            kind, length = _HEAD.unpack_from(data, at)
            if length < _SMALLEST.get(kind, _HEAD.size + 4) or length > MAX_BLOCK or length % 4:
                raise WireError(PCAPNG_BLOCK, at, f"a block of {length} bytes from {source}")
            if at + length > len(data):
                break
            found += self._block(kind, data[at : at + length], known)
            at += length
        if at < len(data):
            self._rest[source] = data[at:]
        return bytes(found)

    def _block(self, kind: int, block: bytes, known: list[int]) -> bytes:
        if kind == SECTION:
            known.clear()  # a section numbers its interfaces from 0
            if self._has_head:
                return b""
            self._has_head = True
        elif kind == INTERFACE:
            known.append(self._numbers)
            self._numbers += 1
        elif kind in (ENHANCED_PACKET, STATISTICS):
            number = int.from_bytes(block[_NUMBER], "little")
            if number >= len(known):
                raise unknown_interface(number)
            if kind == ENHANCED_PACKET:
                if self.is_complete:
                    return b""
                self.packets += 1
            return block[: _NUMBER.start] + known[number].to_bytes(4, "little") + block[_NUMBER.stop :]
        return block


_HERE: Final = ""
_PIECES: Final = 4
"""Pieces of a file that may wait for the reader; beyond it, each machine keeps its own or misses it."""

Pieces = asyncio.Queue[tuple[str, bytes | None]]


async def write_joined(
    request: web.Request,
    response: web.StreamResponse,
    asked: AskedCapture,
    capture: Capture | None,
    there: Sequence[RemoteCapture],
    ending: asyncio.Event,
) -> None:
    """Write packets as they come, until there are as many as asked for, it is to end, or its reader has left.

    Args:  capture: of what begins here; None: nothing does.
    """
    pieces: Pieces = asyncio.Queue(_PIECES)
    joined, over = JoinedCapture(asked.limit), asyncio.Event()
    async with contextlib.AsyncExitStack() as ends:
        sources = 0
        for one in there:
            await ends.enter_async_context(_running(_pump_there(one, pieces, over)))
            sources += 1
        if capture is not None:
            await ends.enter_async_context(_running(_pump_here(capture, pieces, over)))
            sources += 1
        telling = asyncio.ensure_future(_tell(ending, over))
        ends.callback(telling.cancel)
        while sources:
            source, piece = await while_read(request, pieces.get())
            if piece is None:
                sources -= 1
                continue
            if data := joined.feed(source, piece):
                await write_pieces(response, data)
            if joined.is_complete:
                over.set()


async def _tell(ending: asyncio.Event, over: asyncio.Event) -> None:
    await ending.wait()
    over.set()


@contextlib.asynccontextmanager
async def _running(pump: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(pump)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _pump_here(capture: Capture, pieces: Pieces, over: asyncio.Event) -> None:
    await pieces.put((_HERE, capture.head))
    while not over.is_set() and not capture.is_complete:
        data = capture.take(True)
        if data:
            await pieces.put((_HERE, data))
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), RING_LOOK_S)
    capture.stop()
    while data := capture.take(True):
        await pieces.put((_HERE, data))
    await pieces.put((_HERE, capture.statistics(final=True)))
    await pieces.put((_HERE, None))


async def _pump_there(one: RemoteCapture, pieces: Pieces, over: asyncio.Event) -> None:
    """Fetch the file of another machine until its end; a machine that goes ends its own."""

    async def end() -> None:
        await over.wait()
        await one.end()

    async with _running(end()):
        while piece := await one.more():
            await pieces.put((one.where, piece))
    await pieces.put((one.where, None))


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

    @Api(
        "GET /capture",
        "Capture packets as they pass",
        "a pcapng file that grows; the header Capture-Number has the number of the capture",
        content=CONTENT_TYPE,
        query={
            "on": "a place, as of a fault; default: all links",
            "snap": "bytes of a packet to keep",
            "count": "end after so many packets",
            "once": "flag: capture packets only where they enter the fabric",
            "buffer": "bytes that may wait for the reader",
            "here": "flag: capture only what begins on this machine of a cluster",
            "ahead": "number: seconds by which the clock of this machine is ahead of that of the times",
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
        there, refused = ([], {}) if asked.here else await self._there(asked, request.query)
        async with contextlib.AsyncExitStack() as ends:
            for one in there:
                ends.push_async_callback(one.close)
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
        there: list[RemoteCapture] = []
        refused: dict[str, str] = {}
        for one in self._remote.controls(ways) if self._remote is not None else ():
            try:
                there.append(await RemoteCapture.start(one, query))
            except OpavnicError as error:
                refused[one.machine] = str(error)
        if refused and not there and not asked.begins_here(self._world):
            raise OpavnicError("; ".join(refused.values()))
        return there, refused

    @Api(
        "POST /capture/end",
        "End a capture",
        "its number",
        Numbered,
        body={"number": "integer: of a running capture"},
    )
    async def _end(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if number not in self._running:
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
            await write_pieces(response, data)  # waits for the reader
    capture.stop()
    while data := capture.take(True):
        await write_pieces(response, data)
    await response.write(capture.statistics(final=True))
