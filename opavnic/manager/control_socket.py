"""The control socket of the manager: HTTP/1.1 and JSON as a lab's control API has them, by the standard library alone.

One request a connection. The paths are those of a lab (`opavnic.world.parts.em`): the same client serves both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from hfi_sim.base.errors import HfiSimError, InputError
from opavnic.base.errors import OpavnicError
from opavnic.base.socket_peer import foreign_peer
from opavnic.base.state import StateModel
from opavnic.management.em_service import refusal_of
from vema.em.desired.desired import EmConfigError

log = logging.getLogger("opavnic.manager")

MAX_HEAD: Final = 16 << 10
MAX_BODY: Final = 4 << 20
MAX_VALUES: Final = 300_000
READ_S: Final = 10.0
"""Seconds within which a request has to arrive."""
MAX_CONNECTIONS: Final = 64
_SOCKET_PATH_MAX: Final = 107


class HttpRequest(NamedTuple):
    """A request that has been read."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the query. Raises InputError if it is none."""
        text = self.query.get(name, str(default))
        if not text.isdecimal() or len(text) > 9:
            raise InputError(f"{name}={text!r} is not a number")
        return int(text)

    def json(self) -> Any:
        """Return the body. Raises InputError if it is not JSON or has too many values."""
        if self.body.count(b",") + self.body.count(b"[") + self.body.count(b"{") > MAX_VALUES:
            raise InputError(f"the body has more than {MAX_VALUES} values: no configuration has as many")
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the body is not JSON: {error}") from error


Reply = StateModel | str
"""A state, sent as JSON; or text, sent as it is."""
Handler = Callable[[HttpRequest], Awaitable[Reply]]


class HttpServer:
    """Answers requests by a table of handlers."""

    def __init__(self, routes: dict[tuple[str, str], Handler]) -> None:
        """Args:  routes: handlers by method and path."""
        self._routes = routes
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called in a task
        self._connections.add(task)
        try:
            status, kind, body = await self._answer(reader, writer)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await asyncio.wait_for(writer.drain(), READ_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a peer that has gone, or says nothing
        except asyncio.CancelledError:
            pass  # the server ends, and asyncio would log it
        finally:
            self._connections.discard(task)
            writer.close()

    def end(self) -> None:
        """End the connections that are open."""
        for task in tuple(self._connections):
            task.cancel()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[HTTPStatus, str, bytes]:
        peer = writer.get_extra_info("socket")
        if peer is not None and peer.family.name == "AF_UNIX" and foreign_peer(peer) is not None:
            return _error(HTTPStatus.FORBIDDEN, "the Ethernet Manager belongs to another user")
        if len(self._connections) > MAX_CONNECTIONS:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, f"more than {MAX_CONNECTIONS} requests at a time")
        try:
            request = await asyncio.wait_for(_read(reader), READ_S)
            handler = self._routes.get((request.method, request.path))
            if handler is None:
                return _error(HTTPStatus.NOT_FOUND, f"{request.method} {request.path}: not here")
            reply = await handler(request)
        except EmConfigError as error:
            return HTTPStatus.UNPROCESSABLE_ENTITY, "application/json", json.dumps(refusal_of(error)).encode()
        except InputError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        except HfiSimError as error:
            return _error(HTTPStatus.CONFLICT, str(error))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise
        except Exception as error:
            log.error("a request has failed", exc_info=error)
            return _error(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error, {type(error).__name__}: {error}"
            )
        if isinstance(reply, str):
            return HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", reply.encode()
        return HTTPStatus.OK, "application/json", reply.as_text().encode()


def _error(status: HTTPStatus, text: str) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps({"error": text}).encode()


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, _, rest = head.partition("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise InputError("malformed request")
    length = 0
    for field in rest.splitlines():
        name, _, value = field.partition(":")
        if name.strip().lower() == "content-length":
            if not value.strip().isdecimal() or len(value.strip()) > 9:
                raise InputError(f"malformed request: Content-Length {value.strip()!r}")
            length = int(value)
        elif name.strip().lower() == "transfer-encoding":
            raise InputError("malformed request: a body has a Content-Length here")
    if length > MAX_BODY:
        raise InputError(f"a body of {length} bytes; at most {MAX_BODY} are taken")
    url = urlsplit(words[1])
    return HttpRequest(words[0], url.path, dict(parse_qsl(url.query)), await reader.readexactly(length))


@contextlib.asynccontextmanager
async def control_socket(path: Path, server: HttpServer) -> AsyncIterator[None]:
    """Serve on a Unix socket that only this user may use; it is removed at the end.

    Raises:  OpavnicError: another manager serves there, or the socket cannot be made.
    """
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise OpavnicError(f"{path}: a socket's path has at most {_SOCKET_PATH_MAX} bytes")
    try:
        _make_way(path)
        mask = os.umask(0o177)
        try:
            listening = await asyncio.start_unix_server(server.serve, path, limit=MAX_HEAD)
        finally:
            os.umask(mask)
        made = os.lstat(path)
    except OSError as error:
        raise OpavnicError(f"{path}: the control socket cannot be made: {error.strerror or error}") from error
    try:
        yield
    finally:
        listening.close()
        server.end()
        with contextlib.suppress(OSError):
            if os.path.samestat(made, os.lstat(path)):
                os.unlink(path)


def _make_way(path: Path) -> None:
    """Make the directory, and remove a socket that no process serves any more."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OpavnicError(f"{path}: not a socket; it is left alone")
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(1.0)
        try:
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except TimeoutError:
            pass
    raise OpavnicError(f"{path}: another Ethernet Manager serves there; choose another by --control")


@contextlib.asynccontextmanager
async def metrics_socket(address: str, port: int, server: HttpServer) -> AsyncIterator[None]:
    """Serve on a TCP port. Raises OpavnicError: it cannot."""
    try:
        listening = await asyncio.start_server(server.serve, address, port, limit=MAX_HEAD)
    except OSError as error:
        raise OpavnicError(f"--metrics {address}:{port}: {error.strerror or error}") from error
    try:
        yield
    finally:
        listening.close()
        server.end()
