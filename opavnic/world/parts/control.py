"""The control API of a running lab: HTTP and JSON on a Unix socket that only its user may open.

`GET /openapi.json` says which routes a lab has, and what each takes and answers: it is made of what their handlers
declare (`openapi.Api`). Every part adds its own (`RunningPart.routes`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from hfi_sim.base.errors import HfiSimError, InputError
from hfi_sim.base.text import unknown_name, visible
from opavnic.base.errors import TooManyError
from opavnic.world.connections import Connections
from opavnic.world.job_routes import JobRoutes
from opavnic.world.json_body import MAX_BODY, json_object, query_flag, query_number
from opavnic.world.openapi import JSON, Api, OpenApi, api_of, declared_routes, document, query_kind

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
_NAMES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


async def check_asked(api: Api, request: web.Request) -> None:
    """Raise InputError if the query or the body of a request is not what its route takes."""
    _check_query(api, request)
    if api.body and not api.open and (request.content_type == JSON or await request.read()):
        _check_body(api, await json_object(request))


def _check_query(api: Api, request: web.Request) -> None:
    known = api.parameters
    for key in request.query:
        if key in known:
            kind, _ = query_kind(known[key])
            if kind == "flag":
                query_flag(request, key)
            elif kind == "integer":
                query_number(request, key, 0)
        elif not api.open:
            raise InputError(unknown_name(f"parameter of {request.path}", f"{key:.40}", known))


def _check_body(api: Api, body: dict[str, Any]) -> None:
    for key, value in body.items():
        if (text := api.body.get(key)) is not None:
            _check_member(key, value, text)
        else:
            raise InputError(unknown_name(f"key of {request_name(api)}", f"{key:.40}", api.body))
    for key, text in api.body.items():
        if text.startswith("!") and key not in body:
            raise InputError(f"{key} is missing: {text.removeprefix('!').partition(': ')[2]}")


def request_name(api: Api) -> str:
    """Return what a message calls the body of a request."""
    return "the body" if not api.job else f"the body of {api.job}"


def _check_member(key: str, value: Any, text: str) -> None:
    said, _, meaning = text.removeprefix("!").partition(": ")
    kinds, _, items = said.partition(" of ")
    allowed = kinds.split(" or ")
    if not any(_TYPES[kind](value) for kind in allowed):
        raise InputError(
            f"{key}: {value!r:.60} is not {' or '.join(_NAMES[kind] for kind in allowed)}: {meaning}"
        )
    if items and isinstance(value, list):
        for number, item in enumerate(value):
            if not _TYPES[items](item):
                raise InputError(f"{key}[{number}]: {item!r:.60} is not {_NAMES[items]}: {meaning}")


log = logging.getLogger("opavnic.world.control")
_http_log = logging.getLogger("opavnic.world.control.http")
"""Where aiohttp logs what goes wrong below our handlers."""
_http_log.addFilter(lambda record: not _is_peers_mistake(record))


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlServer:
    """Serves the routes it is given until it is closed."""

    def __init__(self, socket_path: Path, routes: Iterable[web.RouteDef]) -> None:
        self._path = socket_path
        self.jobs = JobRoutes()
        self.routes = self._with_own(routes)
        self._runners: list[web.AppRunner] = []
        self._connections: Connections | None = None
        self._listener: asyncio.Server | None = None

    def _with_own(self, routes: Iterable[web.RouteDef]) -> list[web.RouteDef]:
        return [*routes, *self.jobs.routes(), *declared_routes(self)]

    async def start(self) -> None:
        """Open the socket, mode 0600."""
        self._connections = Connections(await self._server_of(self.routes))
        before = os.umask(0o177)
        try:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_unix_server(self._connections, str(self._path))
        finally:
            os.umask(before)

    async def start_early(self, why: Callable[[], str]) -> None:
        """Open the socket when only jobs can be asked for yet. Args: why: says why the rest is not there, in a line."""

        async def refuse(_: web.Request) -> web.Response:
            return web.json_response({"error": why()}, status=503)

        self.routes = [*self.routes, web.route("*", "/{path:.*}", refuse)]
        await self.start()

    async def serve(self, routes: Iterable[web.RouteDef]) -> None:
        """Serve these routes, beside those of jobs, on connections from now on."""
        assert self._connections is not None  # noqa: S101 - there since start
        self.routes = self._with_own(routes)
        self._connections.server = await self._server_of(self.routes)

    async def _server_of(self, routes: Iterable[web.RouteDef]) -> web.Server:
        app = web.Application(middlewares=[_errors_as_json, self._one_request], client_max_size=MAX_BODY)
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, logger=_http_log)
        self._runners.append(runner)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - there since setup
        return runner.server

    async def close(self) -> None:
        """Finish the requests being answered and close the socket. May be called twice."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for runner in self._runners:
            await runner.cleanup()
        await self.jobs.jobs.close()

    @Api("GET /openapi.json", "This API", "an OpenAPI document", OpenApi)
    async def _describe(self, _: web.Request) -> web.Response:
        return web.json_response(document(self.routes, version("opavnic")))

    @web.middleware
    async def _one_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request once all of it has arrived, unless its handler reads it as it comes."""
        api = api_of(request.match_info.handler)
        connections = self._connections
        assert connections is not None  # noqa: S101 - there since start
        try:
            if api is None or not api.streams:
                await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise InputError(
                f"the body has more than {MAX_BODY} bytes: no configuration has as many"
            ) from None
        except (ConnectionError, ClientError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _is_gone(error):
                raise
            raise InputError("the connection ended before the request did") from None
        connections.stop_waiting(request.protocol)
        try:
            return await self._answer(api, request, handler)
        finally:
            connections.await_request(request.protocol)

    async def _answer(self, api: Api | None, request: web.Request, handler: Handler) -> web.StreamResponse:
        if api is None:
            return await handler(request)
        await check_asked(api, request)
        if not api.job:
            return await handler(request)

        async def answer() -> web.Response:
            found = await answer_of(request, handler)
            assert isinstance(found, web.Response)  # noqa: S101 - what is streamed is no job
            return found

        return await self.jobs.run(api.job, answer, follow=query_flag(request, "job"))


def _is_peers_mistake(record: logging.LogRecord) -> bool:
    """Return whether a record is about a peer that did not send HTTP, or that has left: not worth logging."""
    error = record.exc_info[1] if record.exc_info is not None else None
    return isinstance(error, HttpProcessingError | ConnectionError) or _is_gone(error)


def _is_gone(error: BaseException | None) -> bool:
    """Return whether aiohttp says that the connection was lost before a body was read."""
    return isinstance(error, RuntimeError) and str(error) == "Connection closed."


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await answer_of(request, handler)


async def answer_of(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the answer of a handler; what it raises as JSON, with its status."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.json_response(
            {"error": f"{error.reason}: {request.method} {visible(request.path)}"}, status=error.status
        )
    except InputError as error:
        return web.json_response({"error": str(error)}, status=400)
    except TooManyError as error:
        return web.json_response({"error": str(error)}, status=503)
    except (HfiSimError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=409)
    except ConnectionError:  # the client has left: there is no one to answer
        raise
    except Exception as error:  # one broken request must not end the lab
        log.exception("%s %s failed", request.method, request.path)
        return web.json_response({"error": f"internal error, {type(error).__name__}: {error}"}, status=500)
