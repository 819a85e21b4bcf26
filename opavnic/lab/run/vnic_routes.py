"""VNICs on the control API.

POST /vnics/remove   {"lid": 2, "vports": [251, 252]}: remove VNICs that are not configured
"""

from __future__ import annotations

from aiohttp import web

from opavnic.lab.file.errors import LabInputError
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
