"""Apps and parts on the control API.

GET /apps/{host}   all there is to see of the app on a host
GET /parts/{name}  the same of a part
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.base.errors import InputError
from opavnic.base.state import Json
from opavnic.lab.file.parts import RunningParts
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart

JsonObject = dict[str, Json]


class PartRoutes(RunningPart):
    """Shows the apps and parts of a lab, as far as they run on this machine."""

    def __init__(self, parts: RunningParts) -> None:
        self._parts = parts

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/apps/{host}", self._get_app), web.get("/parts/{name}", self._get_part)]

    @Api("An app", "all there is to see of it; what that is depends on the kind of app", JsonObject)
    async def _get_app(self, request: web.Request) -> web.Response:
        host = request.match_info["host"]
        return _detail("app on host", self._parts.apps, host, host=host)

    @Api(
        "A part of an installed package",
        "all there is to see of it; what that is depends on the part",
        JsonObject,
    )
    async def _get_part(self, request: web.Request) -> web.Response:
        return _detail("part", self._parts.by_name, request.match_info["name"])


def _detail(what: str, running: Mapping[str, RunningPart], name: str, **also: str) -> web.Response:
    if name not in running:
        raise InputError(unknown_name(what, name, running))
    return web.json_response(running[name].detail() | also)
