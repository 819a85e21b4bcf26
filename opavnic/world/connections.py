"""Connections to the control socket of a lab: limits on their number and idle time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiohttp import web

T = TypeVar("T")
MAX_CONNECTIONS: Final = 64
"""Connections at a time. One more replaces a connection that has not sent a complete request yet."""
MAX_FOLLOWERS: Final = 16
"""How many of these may follow the log, and how many others may capture."""
PATIENCE_S: Final = 10.0
"""Seconds that a connection may take to send a complete request, or stay idle between two."""
LOOK_S: Final = 0.5
"""Seconds between two checks whether the reader of an answer is still there. aiohttp could announce it only by
cancelling the handlers of all readers that leave, including those that have to finish their work."""
PIECE_BYTES: Final = 96 << 10
"""Bytes of an answer that are written at once. A socket takes about as many; of what it does not take, asyncio makes
several copies, each in new pages of the kernel where they are 128 KiB or more."""
_FULL: Final = json.dumps(
    {"error": f"{MAX_CONNECTIONS} requests are being answered: a lab takes no more; try again"}
).encode()


async def while_read(request: web.Request, coming: Coroutine[Any, Any, T]) -> T:
    """Wait for the next piece of an answer. Raises ConnectionResetError if its reader has left."""
    task = asyncio.ensure_future(coming)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
            if request.transport is None:
                raise ConnectionResetError("the reader has left")
        return task.result()
    finally:
        task.cancel()


async def write_pieces(response: web.StreamResponse, data: bytes) -> None:
    """Write a part of an answer that may be long, as fast as its reader takes it."""
    view = memoryview(data)
    for at in range(0, len(data), PIECE_BYTES):
        await response.write(view[at : at + PIECE_BYTES])


class Connections:
    """Makes the protocol of each new connection."""

    def __init__(self, server: web.Server) -> None:
        """Create the protocols of connections to a server."""
        self.server = server
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.BaseProtocol:
        """Return the protocol of a connection that has just been accepted."""
        return _ApiConnection(self)

    def admit(self, transport: asyncio.Transport) -> web.RequestHandler | None:
        """Return the protocol that serves a connection; if there are too many, drop the one longest without a request.

        Returns: None if there are too many and all of them are being answered.
        """
        if len(self.server.connections) >= MAX_CONNECTIONS:
            for waiting in list(self._timers):
                self.stop_waiting(waiting)
                if waiting.transport is not None:
                    waiting.transport.abort()
                    break
            else:
                return None
        protocol = self.server()
        protocol.connection_made(transport)
        self.await_request(protocol)
        return protocol

    def await_request(self, protocol: web.RequestHandler) -> None:
        """Close a connection unless it sends a complete request in time."""

        def hang_up() -> None:
            del self._timers[protocol]
            if protocol.transport is not None:
                protocol.transport.close()

        self.stop_waiting(protocol)
        if protocol.transport is not None:  # its client may have left while its request was answered
            self._timers[protocol] = asyncio.get_running_loop().call_later(PATIENCE_S, hang_up)

    def stop_waiting(self, protocol: web.RequestHandler) -> None:
        """Await no request of a connection any more: its request is being answered, or it has ended."""
        if (timer := self._timers.pop(protocol, None)) is not None:
            timer.cancel()


class _ApiConnection(asyncio.Protocol):
    """A connection: what arrives goes to the server; if there are too many, it is refused with an answer that says so.

    It stays between the transport and the server, because aiohttp does not announce to others that a connection ended.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._served: web.RequestHandler | None = None
        self._refusal: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream's always is
        self._transport = transport
        self._served = self._connections.admit(transport)
        if self._served is not None:
            return
        transport.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
        )
        # a request that is still on its way would meet a closed socket before the answer is read
        self._refusal = asyncio.get_running_loop().call_later(1.0, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._served is not None:
            self._served.data_received(data)
        else:
            self._transport.close()

    def eof_received(self) -> bool | None:
        if self._served is not None:
            self._served.eof_received()
        return None

    def pause_writing(self) -> None:
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        if self._served is not None:
            self._served.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._refusal is not None:
            self._refusal.cancel()
        if self._served is not None:
            self._connections.stop_waiting(self._served)
            self._served.connection_lost(error)
            self._served = None
