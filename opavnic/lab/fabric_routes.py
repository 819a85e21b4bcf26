"""What the control API of a lab says and does about its fabric: faults, topology, routes.

GET  /faults           the faults that are set, the seed
POST /faults           {"fault": "loss on h1 20%"}: set one
POST /faults/remove    {"number": 3}; {"number": null} removes all
GET  /topology         the fabric as ibnetdiscover text, the links that are down, and what the routing engine says
GET  /routes?from=h1&to=h2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from hfi_sim.did_you_mean import unknown_name
from hfi_sim.errors import FaultError
from hfi_sim.faults import Faults
from hfi_sim.hfi import HfiPort
from hfi_sim.topology import Topology
from hfi_sim.topology.ibnet import dumps
from opavnic.lab.errors import LabInputError
from opavnic.lab.json_body import json_object

if TYPE_CHECKING:
    from opavnic.lab.lab import Lab


def fault_list(lab: Lab) -> dict[str, Any]:
    """Return the faults of a lab as plain data."""
    return {"seed": lab.model.seed, "faults": lab.world.faults.show()}


def topology_status(lab: Lab) -> dict[str, Any]:
    """Return the fabric of a lab as plain data."""
    manager = lab.world.subnet_manager
    return {
        "lab": lab.model.name,
        "ibnetdiscover": dumps(Topology.of_fabric(lab.world.fabric, lab.model.name)),
        "down": [link.name for link in lab.world.fabric.links if not link.up],
        "engine": manager.routing.engine,
        "deadlock": manager.deadlock(),
        "lids": {port.name: port.lid for port in lab.world.fabric.hfi_ports()},
    }


def route_status(lab: Lab, source: str, target: str) -> dict[str, Any]:
    """Return the paths between two ports, one for each LID of the target.

    Raises:  LabInputError: no such port or HFI.
    """
    a, b = _port(lab, source), _port(lab, target)
    return {"from": a.name, "to": b.name, "lid": b.lid, "paths": lab.world.subnet_manager.routes(a, b)}


def _port(lab: Lab, name: str) -> HfiPort:
    ports = {port.name: port for port in lab.world.fabric.hfi_ports()}
    port = ports.get(name) or ports.get(f"{name}:1")
    if port is None:
        raise LabInputError(unknown_name("HFI port", name, ports))
    return port


def routes(lab: Lab) -> list[web.RouteDef]:
    """Return the routes for the control API of a lab."""

    async def get_faults(request: web.Request) -> web.Response:
        return web.json_response(fault_list(lab))

    async def post_fault(request: web.Request) -> web.Response:
        fault = lab.world.faults.add(str((await json_object(request)).get("fault", "")))
        if lab.native is not None:
            lab.native.refresh()  # from now on Python carries what the fault may disturb
        return web.json_response({"number": fault.number, **fault_list(lab)})

    async def remove_fault(request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        _remove(lab.world.faults, number)
        return web.json_response(fault_list(lab))

    async def get_topology(request: web.Request) -> web.Response:
        return web.json_response(topology_status(lab))

    async def get_routes(request: web.Request) -> web.Response:
        query = request.query
        return web.json_response(route_status(lab, query.get("from", ""), query.get("to", "")))

    return [
        web.get("/faults", get_faults),
        web.post("/faults", post_fault),
        web.post("/faults/remove", remove_fault),
        web.get("/topology", get_topology),
        web.get("/routes", get_routes),
    ]


def _remove(faults: Faults, number: object) -> None:
    if number is None:
        faults.clear()
    elif isinstance(number, int):
        faults.remove(number)
    else:
        raise FaultError(f"{number!r} is no number of a fault")
