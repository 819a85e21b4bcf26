"""A program on a host of another machine, on the control API: POST /run {"host": "h3", "command": ["ip", "a"]}."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from hfi_sim.errors import InputError
from opavnic.lab.share import Share
from opavnic.world.json_body import json_object
from opavnic.world.openapi import api
from opavnic.world.part import RunningPart

DEFAULT_S: Final = 60.0


class RunRoute(RunningPart):
    """Runs programs to their end, wherever in the cluster their host is."""

    def __init__(self, share: Share) -> None:
        self._share = share

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/run", self._run)]

    @api(
        "Run a program on a host, whichever machine of the cluster that is on",
        "its exit code, and the end of what it has said",
        ("exit_code", "stdout", "stderr"),
        body={
            "host": "!string: a host of the lab",
            "command": "!array of strings: a program and its arguments",
            "timeout_s": "number: how long it may take",
        },
    )
    async def _run(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        host, command, limit_s = body.get("host"), body.get("command"), body.get("timeout_s", DEFAULT_S)
        if not isinstance(host, str) or not isinstance(command, list) or not command:
            raise InputError('run: {"host": NAME, "command": [PROGRAM, ARGUMENT, ...]} is right')
        if not isinstance(limit_s, int | float) or limit_s <= 0:
            raise InputError(f"run: timeout_s {limit_s!r} is not a number of seconds above 0")
        return web.json_response(await self._share.run(host, [str(word) for word in command], float(limit_s)))
