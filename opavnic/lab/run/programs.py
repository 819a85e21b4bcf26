"""Programs on hosts of this machine for other machines of a cluster, on the control API, with or without a terminal.

What a program says comes as frames, and at last its exit code; a reader that leaves hangs up on it. A frame is a byte
that says what it is (`Frame`), its length as a 32-bit number, and so many bytes.

What runs is `opavnic exec`, so that a program finds there what it would find on its own machine: names, devices, its
container, exit codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import IO, Any, Final

from aiohttp import ClientError, web

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError, TooManyError
from opavnic.base.state import StateModel
from opavnic.world.connections import while_read
from opavnic.world.json_body import json_answer, json_object, query_number
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart

MAX_RUNNING: Final = 16
"""Programs that a machine runs for others at one time."""
NUMBER_HEADER: Final = "Program-Number"
FRAME: Final = struct.Struct(">BI")
"""What precedes the bytes of a frame."""
_PIECE: Final = 64 << 10
_KILL_S: Final = 2.0
_MAX_SIDE: Final = 10_000
_WITH_TERMINAL: Final = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes a terminal the controlling one of its session, then becomes the program."""


class Frame(IntEnum):
    """The content of a frame."""

    OUT = 1
    ERR = 2
    EXIT = 3
    """The exit code, in decimal digits."""


Write = Callable[[Frame, bytes], Awaitable[None]]


class ServedProgram:
    """A program whose pipes or terminal are those of a peer elsewhere."""

    def __init__(
        self, command: list[str], environment: Mapping[str, str], size: tuple[int, int] | None
    ) -> None:
        """Start it. Raises OSError. Args: size: rows and columns of its terminal; None: it has pipes."""
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self._has_terminal = size is not None
        self._process, self._input, self._outputs = (
            _with_pipes(command, environment) if size is None else _with_terminal(command, environment, size)
        )
        self._news = {file: asyncio.Event() for file in self._outputs}
        self._writer: asyncio.StreamWriter | None = None
        # not in a worker thread: the loop has few of them, and a program may run for days
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._has_ended)

    @property
    def pid(self) -> int:
        """Of the program, or of what becomes it."""
        return self._process.pid

    def _has_ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self.ended.set()
        for news in self._news.values():
            news.set()

    async def run(self, write: Write) -> None:
        """Pass on what it says, and its exit code, as fast as that is taken."""
        ways = self._outputs.items()
        tasks = [self._loop.create_task(self._pass_on(file, kind, write)) for file, kind in ways]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        await self.ended.wait()
        code = self._process.returncode
        await write(Frame.EXIT, str(128 - code if code < 0 else code).encode())  # as a shell reports it

    async def _pass_on(self, file: IO[bytes], kind: Frame, write: Write) -> None:
        news = self._news[file]
        os.set_blocking(file.fileno(), False)
        while True:
            # once it has ended, output that its children still hold open is not waited for
            if not self.ended.is_set():
                self._loop.add_reader(file, news.set)
                try:
                    await news.wait()
                finally:
                    self._loop.remove_reader(file)
                news.clear()
            try:
                data = os.read(file.fileno(), _PIECE)
            except BlockingIOError:
                if self.ended.is_set():
                    return
                continue
            except OSError:  # no program has the terminal open
                data = b""
            if not data:
                return
            await write(kind, data)

    def resize(self, size: tuple[int, int]) -> None:
        """Set the rows and columns of its terminal, if it has one."""
        if self._has_terminal:
            termios.tcsetwinsize(self._input.fileno(), size)

    async def give(self, data: bytes, *, eof: bool = False) -> None:
        """Write to its standard input, and wait until it takes more."""
        if self._writer is None:
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await self._loop.connect_write_pipe(lambda: protocol, self._input)
            self._writer = self._writer or asyncio.StreamWriter(transport, protocol, None, self._loop)
        with contextlib.suppress(OSError):  # it reads no more
            self._writer.write(data)
            await self._writer.drain()
        if eof and not self._has_terminal:
            self._writer.close()

    async def hang_up(self) -> None:
        """End it; a program that does not end by a hang-up is killed."""
        for number in (signal.SIGHUP, signal.SIGKILL):
            if not self.ended.is_set():  # its pid is not reused before that
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)  # it leads its own session
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), _KILL_S)
        await self.ended.wait()
        for file in self._outputs:
            file.close()
        if self._writer is None:
            self._input.close()
        elif not self._writer.is_closing():
            self._writer.transport.abort()


_Started = tuple[subprocess.Popen[bytes], IO[bytes], dict[IO[bytes], Frame]]


def _with_pipes(command: list[str], environment: Mapping[str, str]) -> _Started:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - pipes
    return process, process.stdin, {process.stdout: Frame.OUT, process.stderr: Frame.ERR}


def _with_terminal(command: list[str], environment: Mapping[str, str], size: tuple[int, int]) -> _Started:
    master, slave = pty.openpty()
    output = open(master, "rb", buffering=0)  # noqa: SIM115 - closed by hang_up
    try:
        termios.tcsetwinsize(master, size)
        process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *command],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        output.close()
        raise
    finally:
        os.close(slave)
    return process, open(os.dup(master), "wb", buffering=0), {output: Frame.OUT}


def _size(said: Mapping[str, Any]) -> tuple[int, int]:
    """Return rows and columns that a terminal can have."""
    rows, columns = (
        max(1, min(said[side], _MAX_SIDE)) if type(said.get(side)) is int else default
        for side, default in (("rows", 24), ("columns", 80))
    )
    return rows, columns


class ProgramRoutes(RunningPart):
    """Runs programs on the hosts of this machine for users on other machines."""

    def __init__(self, lab: str, check: Callable[[str], object]) -> None:
        """Args:  lab: its name. check: raises LabError if no programs run on a host here."""
        self._lab = lab
        self._check = check
        self._running: dict[int, ServedProgram] = {}
        self._last = 0

    async def close(self) -> None:
        """Hang up on all of them and wait for their end: a host must not go while programs run on it."""
        await asyncio.gather(*(program.hang_up() for program in self._running.values()))

    @Api(
        "POST /programs",
        "Run a program on a host of this machine of a cluster",
        f"frames: what it says, and its exit code; the header {NUMBER_HEADER} has its number",
        content="application/octet-stream",
        body={
            "host": "!string: a host of the lab on this machine",
            "command": "!array of string: a program and its arguments",
            "umad": "boolean or null: whether it must have the host's umad devices",
            "terminal": "object or null: rows, columns and term of the terminal that it is to have",
        },
    )
    async def _run(self, request: web.Request) -> web.StreamResponse:
        program = self._started(await json_object(request))
        self._last += 1
        number = self._last
        self._running[number] = program
        headers = {"Content-Type": "application/octet-stream", NUMBER_HEADER: str(number)}
        response, writing = web.StreamResponse(headers=headers), asyncio.Lock()

        async def write(kind: Frame, data: bytes) -> None:
            async with writing:
                await response.write(FRAME.pack(kind, len(data)) + data)

        try:
            await response.prepare(request)
            await while_read(request, program.run(write))
            await response.write_eof()
        except ConnectionError:
            pass  # the reader has left
        finally:
            await program.hang_up()
            self._running.pop(number, None)
        return response

    def _started(self, body: Mapping[str, Any]) -> ServedProgram:
        if not body["command"]:
            raise InputError("command: a program without a name")
        if len(self._running) >= MAX_RUNNING:
            raise TooManyError(f"{MAX_RUNNING} programs of other machines run here, the most there may be")
        self._check(body["host"])
        umad, terminal = body.get("umad"), body.get("terminal")
        option = [] if umad is None else ["--umad" if umad else "--no-umad"]
        own = [sys.executable, "-m", "opavnic.cli.main", "exec", "--lab", self._lab, *option]
        environment, size = dict(os.environ), None
        if terminal is not None:
            environment["TERM"] = str(terminal.get("term") or "dumb")
            size = _size(terminal)
        try:
            return ServedProgram([*own, body["host"], "--", *body["command"]], environment, size)
        except (OSError, ValueError) as error:
            raise OpavnicError(f"cannot start programs: {error}") from error

    def _program(self, number: object) -> ServedProgram:
        if not isinstance(number, int) or number not in self._running:
            raise OpavnicError(f"no program with number {number} is running")
        return self._running[number]

    @Api(
        "POST /programs/input",
        "Give a program input",
        "nothing, once it has taken all of it",
        StateModel,
        query={"number": "!integer: of a program"},
        streams=True,
    )
    async def _input(self, request: web.Request) -> web.Response:
        program = self._program(query_number(request, "number", 0))
        with contextlib.suppress(ConnectionError, ClientError, RuntimeError):  # the sender has left
            async for data in request.content.iter_any():
                await program.give(data)
            await program.give(b"", eof=True)
        return await json_answer(StateModel())

    @Api(
        "POST /programs/size",
        "Set the size of the terminal of a program",
        "nothing",
        StateModel,
        body={
            "number": "!integer: of a program",
            "rows": "!integer: of its terminal, from now on",
            "columns": "!integer: of its terminal, from now on",
        },
    )
    async def _resize(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        self._program(body["number"]).resize(_size(body))
        return await json_answer(StateModel())
