"""The raw MAD socket of a lab: external programs, such as an EM in any language, send MADs from a port of the fabric.

server = MadSocketServer(em_port.mad, agents=lambda: [port.lid for port in subnet_manager.ports_in_service()])
await server.start(path)

Requests are sent with the stack's retries; each is answered with its response, or with the outcome that there was none.
Traps go to every connected program.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.base.types import LID_MAX
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.stack import MadStack
from hfi_sim.wire.mad.header import MAD_SIZE, Mad, awaits_response
from opavnic.management.mad_frames import WHERE, MadMessage, MessageReader, Outcome

log = logging.getLogger("opavnic.management.mad_socket")

MAX_PROGRAMS: Final = 32
"""Programs connected at once; further connections are closed."""
MAX_WAITING: Final = 256
"""Requests of one program that wait for their response; more are read as responses arrive."""
MAX_UNREAD: Final = 1 << 20
"""Bytes that a program may leave unread: beyond that, traps for it are dropped and its requests are not read. The
responses to its requests in flight may add up to MAX_WAITING messages."""
MAX_LIDS: Final = MAD_SIZE // 4
"""LIDs in one answer to a query for agents."""
_READ_SIZE: Final = 65536
_SL_MAX: Final = 31


class MadSocketServer:
    """Listens on a Unix socket for one port's MAD stack."""

    def __init__(
        self,
        mads: MadStack,
        *,
        agents: Callable[[], Sequence[int]],
        whereabouts: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """Prepare.

        Args:  agents: returns the LIDs of the ports that have a management agent, for programs that query them.
               whereabouts: returns the LID of the port itself, and that of its subnet administration.
        """
        self._whereabouts = whereabouts
        self.lost_traps = 0
        """Traps dropped because a program did not read."""
        self._mads = mads
        self._agents = agents
        self._programs: set[_Program] = set()
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen at `path`, accessible only to the owner; an existing file is replaced.

        Raises:  OSError: the socket cannot be created.
        """
        listener = _listen(path)
        try:
            self._server = await asyncio.start_unix_server(self._serve, sock=listener)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        """Close all connections and stop listening; may be called twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        programs = tuple(self._programs)
        for program in programs:
            program.task.cancel()  # data that a program has not read is discarded too
        await asyncio.gather(*(program.task for program in programs), return_exceptions=True)

    def trap(self, request: MadRequest) -> None:
        """Pass a trap on to every connected program."""
        message = MadMessage(request.slid, request.mad, request.pkey, request.sl)
        for program in tuple(self._programs):
            if not program.send(message, may_drop=True):
                self.lost_traps += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._programs) >= MAX_PROGRAMS:
            log.warning("closing a connection to the MAD socket: %d others are open", MAX_PROGRAMS)
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio made it for us
        program = _Program(task, writer)
        self._programs.add(program)
        try:
            await self._converse(program, reader)
            program.gone = True
            writer.close()
            await writer.wait_closed()  # the program may still read what it was sent before
        except (OSError, asyncio.CancelledError):
            pass  # hung up; a task that ends as cancelled would make asyncio's streams log an error
        finally:
            self._programs.discard(program)
            program.gone = True
            writer.transport.abort()

    async def _converse(self, program: _Program, reader: asyncio.StreamReader) -> None:
        """Take the requests of a program until it closes the connection or sends an invalid message."""
        messages = MessageReader()
        try:
            while data := await reader.read(_READ_SIZE):
                for message in messages.feed(data):
                    await program.free.acquire()
                    await program.reads()
                    self._take(program, message)
        except WireError as error:
            log.warning("closing a connection to the MAD socket: %s", error)

    def _take(self, program: _Program, message: MadMessage) -> None:
        """Send one MAD; the program's slot is freed once it has its answer."""
        if not message.mad and message.lid == WHERE:
            program.answer(MadMessage(message.lid, struct.pack(">2I", *self._whereabouts())))
            return
        if not message.mad:
            lids = sorted(lid for lid in self._agents() if lid > message.lid)[:MAX_LIDS]
            program.answer(MadMessage(0, struct.pack(f">{len(lids)}I", *lids)))
            return
        try:
            mad = Mad.parse(message.mad)
            if not 0 < message.lid <= LID_MAX or message.sl > _SL_MAX:
                raise ValueError(f"LID {message.lid:#x} or service level {message.sl} is out of range")
            pkey = message.pkey or None
            if pkey is not None and not self._mads.may_send(pkey):
                raise ValueError(f"the port lacks P_Key {pkey:#06x}")
            if not awaits_response(mad.header.method):
                self._mads.send(message.lid, message.mad, sl=message.sl, pkey=pkey)
                program.free.release()
                return
            self._mads.submit(
                message.lid,
                replace(mad, header=replace(mad.header, tid=0)),  # two programs may choose the same
                lambda response: program.answer(_response(message, mad.header.tid, response)),
                sl=message.sl,
                pkey=pkey,
            )
        except (HfiSimError, ValueError) as error:
            log.debug("refusing a request on the MAD socket: %s", error)
            program.answer(MadMessage(message.lid, message.mad, message.pkey, message.sl, Outcome.REFUSED))


class _Program:
    """One connection."""

    def __init__(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self.task = task
        self.free = asyncio.Semaphore(MAX_WAITING)
        self.gone = False
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=MAX_UNREAD)

    async def reads(self) -> None:
        """Wait until the program has read enough of what it was sent.

        A program that never reads blocks only itself: its socket fills up, and its requests wait as long as it stays
        connected.
        """
        unread = self._writer.transport.get_write_buffer_size()
        if unread > MAX_UNREAD:
            log.warning(
                "a program on the MAD socket has %d unread bytes; its requests wait until it reads", unread
            )
        await self._writer.drain()

    def answer(self, message: MadMessage) -> None:
        """Send the answer to a request and free its slot."""
        self.free.release()
        self.send(message)

    def send(self, message: MadMessage, *, may_drop: bool = False) -> bool:
        """Send a message; return False if it was dropped because too much is unread."""
        if self.gone or self._writer.is_closing():
            return True
        if may_drop and self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            return False
        self._writer.write(message.build())
        return True


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _response(request: MadMessage, tid: int, response: Mad | None) -> MadMessage:
    """Return the message that answers `request`, with the transaction id that the program chose."""
    if response is None:
        return MadMessage(request.lid, request.mad, request.pkey, request.sl, Outcome.NO_RESPONSE)
    return MadMessage(request.lid, response.build(tid), request.pkey, request.sl)
