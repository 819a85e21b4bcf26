"""Those who are connected to the control socket of a lab: how many there may be, and how long one may say nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from aiohttp import web

MAX_CONNECTIONS: Final = 64
"""Connections at once."""
MAX_FOLLOWERS: Final = 16
"""Of these, connections that follow the log; as many may capture."""
PATIENCE_S: Final = 10.0
"""How long a connection may take to send a whole request, or be left without one, in seconds."""
_FULL: Final = json.dumps(
    {"error": f"{MAX_CONNECTIONS} connections are open: a lab has no more; close some, or try again"}
).encode()


class Connections:
    """Makes the protocol of each new connection."""

    def __init__(self, server: web.Server) -> None:
        """Take connections for a server."""
        self._server = server
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.BaseProtocol:
        """Return the protocol of a connection that has just come."""
        return _Arrival(self)

    def admit(self, transport: asyncio.Transport) -> bool:
        """Have the server serve a connection; False: there are too many."""
        if len(self._server.connections) >= MAX_CONNECTIONS:
            return False
        protocol = self._server()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self.await_request(protocol)
        return True

    def await_request(self, protocol: web.RequestHandler) -> None:
        """Hang up on a connection unless it sends a whole request in time."""

        def hang_up() -> None:
            del self._timers[protocol]
            if protocol.transport is not None:
                protocol.transport.close()

        self._timers[protocol] = asyncio.get_running_loop().call_later(PATIENCE_S, hang_up)

    def has_request(self, protocol: web.RequestHandler) -> None:
        """Let a connection be while its request is answered."""
        if (timer := self._timers.pop(protocol, None)) is not None:
            timer.cancel()


class _Arrival(asyncio.Protocol):
    """A new connection. It is the server's, or is told that there are too many and hung up on."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream's always is
        if self._connections.admit(transport):
            return
        self._transport = transport
        transport.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
        )
        # a request that is still on its way would meet a closed socket before the answer is read
        self._timer = asyncio.get_running_loop().call_later(1.0, transport.close)

    def data_received(self, _data: bytes) -> None:
        self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()
