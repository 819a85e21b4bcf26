"""Passes programs in kernels on: from clients at a socket of the lab to the agents. See `opavnic.kernel.client`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final

from opavnic.base.socket_peer import foreign_peer
from opavnic.kernel.messages import AgentMessage, AgentVerb, Messages
from opavnic.kernel.running import KernelRun

log = logging.getLogger("opavnic.kernel")

_READ: Final = 1 << 16
_FROM_CLIENTS: Final = frozenset(
    (AgentVerb.START, AgentVerb.INPUT, AgentVerb.SIGNAL, AgentVerb.SIZE, AgentVerb.TAKEN, AgentVerb.END)
)
_LAST: Final = frozenset((AgentVerb.EXITED, AgentVerb.FAILED, AgentVerb.LOST))

FindRun = Callable[[str], KernelRun | None]
"""Returns the kernel of a host, by name; None: it has none now."""


@contextlib.asynccontextmanager
async def kernel_programs(path: Path, find: FindRun) -> AsyncIterator[None]:
    """Let clients start programs in kernels, while the context lasts."""
    clients: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(writer)
        try:
            await _serve(reader, writer, find)
        except (OSError, ValueError) as error:
            log.debug("a program's client: %s", error)
        finally:
            clients.discard(writer)
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        server.close()
        for writer in tuple(clients):
            writer.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, find: FindRun) -> None:
    if foreign_peer(writer.get_extra_info("socket")) is not None:
        return
    host = (await reader.readline()).decode(errors="replace").strip()
    run = find(host)
    if run is None:
        return  # the client says that the kernel has ended
    ended = asyncio.Event()
    number = run.open_session(partial(_answer, writer, ended))
    messages = Messages()
    while not ended.is_set() and (data := await reader.read(_READ)):
        for message in messages.take(data):
            if message.kind in _FROM_CLIENTS:
                run.tell(AgentMessage(number, message.kind, message.body))
    if not ended.is_set():
        run.tell(AgentMessage(number, AgentVerb.END, b""))


def _answer(writer: asyncio.StreamWriter, ended: asyncio.Event, message: AgentMessage) -> None:
    """Pass a message to the client. Both ends keep so little under way that the writer need not wait."""
    if message.kind != AgentVerb.LOST:
        writer.write(AgentMessage(0, message.kind, message.body).build())
    if message.kind in _LAST:
        ended.set()
        writer.close()
