"""VNICs, apps and parts on the control API.

POST /vnics/remove   {"lid": 2, "vports": [251, 252]}: remove VNICs that are not configured
GET  /apps/HOST, /parts/NAME                        all there is to see of an app, of a part of an installed package
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import unknown_name
from opavnic.base.state import Json
from opavnic.lab.file.errors import LabInputError
from opavnic.lab.file.parts import RunningParts
from opavnic.lab.run.lab import Lab
from opavnic.state.lab import VnicsRemoved
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from vema.base.types import VportNum


class VnicRoutes(RunningPart):
    """Removes VNICs that were created over the MAD socket; no MAD can remove them."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/vnics/remove", self._remove)]

    @Api(
        "Remove VNICs that are not configured",
        "the vports that were removed",
        VnicsRemoved,
        body={"lid": "integer: of a port", "vports": "array of integer: numbers of vports"},
    )
    async def _remove(self, request: web.Request) -> web.Response:
        data = await json_object(request)
        vports = data.get("vports")
        if not isinstance(vports, list) or not all(isinstance(number, int) for number in vports):
            raise LabInputError(f"vports: {vports!r:.60} is not a list of numbers of vports")
        return await json_answer(VnicsRemoved(removed=remove_vnics(self._lab, data.get("lid"), vports)))


def remove_vnics(lab: Lab, lid: object, vports: list[int]) -> list[int]:
    """Remove VNICs of a port that are at power-on defaults; return their vports. Those that do not exist are left out.

    Raises:  LabInputError: no port has this LID; a VNIC is configured, or is one of the lab file.
    """
    port = _port(lab, lid)
    host = lab.hosts[lab.world.host_of(port.port)]
    there = [VportNum(number) for number in dict.fromkeys(vports) if number in port.adapters]
    for number in there:
        what = f"vport {number} of {lab.world.label_of(port.port)}"
        if any(item.key == (port.port.name, number) for item in host.interfaces):
            raise LabInputError(f"{what} is one of the lab file; it stays")
        if vesw_id := port.adapters[number].vesw_id:
            raise LabInputError(f"{what} is on virtual switch {vesw_id}; it stays")
    for number in there:
        port.remove_vnic(number)
    return [int(number) for number in there]


def _port(lab: Lab, lid: object) -> VnicPort:
    for port in lab.world.vnic_ports.values():
        if port.port.lid == lid:
            return port
    raise LabInputError(f"no port with a management agent has LID {lid!r:.60}")


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
