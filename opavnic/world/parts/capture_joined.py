"""Captures of several machines, written to one reader as one file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import WireError
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
from opavnic.observe.capture import RING_LOOK_S, Capture
from opavnic.world.connections import while_read
from opavnic.world.parts.capture_asked import AskedCapture
from opavnic.world.remote_machines import RemoteCapture

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
_KEEP_S: Final = 5.0
"""How often the other machines hear that a reader has no room, and has not left."""

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
                await response.write(data)
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
    is_told = False
    while True:
        if over.is_set() and not is_told:
            is_told = True
            await one.end()
        piece = await one.more()
        if piece is None:
            break
        if piece:
            await _put_there(one, pieces, piece)
    await pieces.put((one.where, None))


async def _put_there(one: RemoteCapture, pieces: Pieces, piece: bytes) -> None:
    """Wait for room for a piece, and have its machine wait too."""
    waiting = asyncio.ensure_future(pieces.put((one.where, piece)))
    try:
        while not (await asyncio.wait({waiting}, timeout=_KEEP_S))[0]:
            await one.keep()
    finally:
        waiting.cancel()
