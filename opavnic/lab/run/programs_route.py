"""Programs on hosts of other machines of a cluster, on the control API, with or without a terminal.

POST /programs          {"host": "h3", "command": ["ip", "a"], "umad": null, "terminal": {"rows": 24, "columns": 80,
                        "term": "xterm"}}: start one; the answer has its number
GET  /programs/output   number=N: what it says, in frames, and at last its exit code; a reader that leaves ends it
POST /programs/input    {"number": N, "data": BASE64, "eof": false, "rows": 24, "columns": 80}

A frame is a byte that says what it is (`Frame`), its length as a 32-bit number, and so many bytes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, Protocol

from aiohttp import web

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError
from opavnic.base.state import StateModel
from opavnic.state.lab import Numbered
from opavnic.world.connections import while_read
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart

UNREAD_S: Final = 20.0
"""How long a program may wait for a reader of its output."""
_KEEP_S: Final = 5.0
_MAX_DIGITS: Final = 12
FRAME: Final = struct.Struct(">BI")
"""What precedes the bytes of a frame."""


class Frame(IntEnum):
    """The content of a frame."""

    OUT = 1
    ERR = 2
    EXIT = 3
    """The exit code, in decimal digits."""
    LOST = 4
    """Why the connection to the program was lost."""


class RemoteProgram(Protocol):
    """A program on another machine."""

    async def more(self) -> list[tuple[Frame, bytes]]:
        """Wait for its next output; EXIT or LOST is the last frame."""

    async def give(self, data: bytes, *, eof: bool, size: tuple[int, int] | None) -> None:
        """Write to its standard input, and close it if `eof`. Args: size: new rows and columns of its terminal."""

    async def keep(self) -> None:
        """Keep the program alive while its output is not read; `more` is called again once the reader has room."""

    async def end(self) -> None:
        """Hang up on it, if it is running."""


class RemotePrograms(Protocol):
    """Starts programs on other machines."""

    async def start(
        self, host: str, command: list[str], umad: bool | None, terminal: Mapping[str, Any] | None
    ) -> RemoteProgram:
        """Start a program on a host. Raises HfiSimError: it is not permitted, or there is no such host."""


class ProgramRoutes(RunningPart):
    """Runs programs on the machine that carries their host, anywhere in the cluster."""

    def __init__(self, programs: RemotePrograms) -> None:
        self._programs = programs
        self._running: dict[int, RemoteProgram] = {}
        self._read: set[int] = set()
        """Programs whose output is being read."""
        self._last = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/programs", self._start),
            web.get("/programs/output", self._output),
            web.post("/programs/input", self._input),
        ]

    @Api(
        "Start a program on a host, on any machine of the cluster",
        "its number",
        Numbered,
        body={
            "host": "!string: a host of the lab",
            "command": "!array of string: a program and its arguments",
            "umad": "boolean or null: whether it must have the host's umad devices",
            "terminal": "object or null: rows, columns and term of the terminal that it is to have",
        },
    )
    async def _start(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        host, command, terminal = body.get("host"), body.get("command"), body.get("terminal")
        if not isinstance(host, str) or not isinstance(command, list) or not command:
            raise InputError('programs: {"host": NAME, "command": [PROGRAM, ARGUMENT, ...]} is expected')
        if terminal is not None and not isinstance(terminal, dict):
            raise InputError('programs: terminal: {"rows": 24, "columns": 80, "term": "xterm"} is expected')
        umad = body.get("umad")
        words = [str(word) for word in command]
        program = await self._programs.start(host, words, umad if isinstance(umad, bool) else None, terminal)
        self._last += 1
        self._running[self._last] = program
        asyncio.get_running_loop().call_later(UNREAD_S, self._forget, self._last)
        return await json_answer(Numbered(number=self._last))

    def _forget(self, number: int) -> None:
        """Forget a program whose output has no reader yet: its machine hangs up on it."""
        if number not in self._read:
            self._running.pop(number, None)

    @Api(
        "What a program says",
        "frames",
        content="application/octet-stream",
        query={"number": "!of a program"},
    )
    async def _output(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("number", "")
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else -1
        program = self._find(number)
        if number in self._read:
            raise OpavnicError(f"the output of program {number} has a reader")
        self._read.add(number)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        keeping = asyncio.ensure_future(_keep(program))
        try:
            await response.prepare(request)
            is_over = False
            while not is_over:
                for kind, data in await while_read(request, program.more()):
                    await response.write(FRAME.pack(kind, len(data)) + data)
                    is_over = kind in (Frame.EXIT, Frame.LOST)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the starter has left
        finally:
            keeping.cancel()
            self._running.pop(number, None)
            self._read.discard(number)
            await program.end()
        return response

    @Api(
        "Give a program input",
        "nothing",
        StateModel,
        body={
            "number": "!integer: of a program",
            "data": "string: input in base64",
            "eof": "boolean: that was all",
            "rows": "integer: of its terminal, from now on",
            "columns": "integer: of its terminal, from now on",
        },
    )
    async def _input(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        program = self._find(body.get("number"))
        try:
            data = base64.b64decode(str(body.get("data", "")), validate=True)
        except (ValueError, binascii.Error) as error:
            raise InputError(f"programs: data: {error}") from None
        rows, columns = body.get("rows"), body.get("columns")
        size = (rows, columns) if type(rows) is int and type(columns) is int else None
        await program.give(data, eof=body.get("eof") is True, size=size)
        return await json_answer(StateModel())

    def _find(self, number: object) -> RemoteProgram:
        if type(number) is not int or number not in self._running:
            raise OpavnicError(f"no program with number {number!r:.40} is running")
        return self._running[number]


async def _keep(program: RemoteProgram) -> None:
    """Keep a program alive while its reader is slow: without requests, its machine would hang up on it."""
    while True:
        await asyncio.sleep(_KEEP_S)
        await program.keep()
