"""The fabric on the control API: faults, topology, routes.

GET  /faults           the faults that are set, the seed
POST /faults           {"fault": "loss on h1 20%"}: set one
POST /faults/remove    {"number": 3}; {"number": null} removes all
GET  /topology         the fabric as ibnetdiscover text, links that are down, the routing engine, possible deadlocks
GET  /routes?from=h1&to=h2
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from hfi_sim.did_you_mean import unknown_name
from hfi_sim.errors import FaultError, InputError
from hfi_sim.faults import Faults, parse_fault, spec_text
from hfi_sim.hfi import HfiPort
from hfi_sim.table_paths import deadlock, paths
from hfi_sim.topology import Topology
from hfi_sim.topology.ibnet import dumps
from opavnic.world.json_body import json_object
from opavnic.world.part import RunningPart
from opavnic.world.world import World

Spread = Callable[[dict[str, Any]], Awaitable[None]]


class FabricRoutes(RunningPart):
    """Shows the fabric of a world, and injects faults on request."""

    def __init__(self, world: World, name: str, spread: Spread | None = None) -> None:
        """Prepare.

        Args:  name: the name of the fabric, which is that of the lab. spread: makes a change of faults on the other
               machines that carry parts of the fabric.
        """
        self._spread = spread
        self._world = world
        self._name = name

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/faults", self._get_faults),
            web.post("/faults", self._post_fault),
            web.post("/faults/remove", self._remove_fault),
            web.get("/topology", self._get_topology),
            web.get("/routes", self._get_routes),
        ]

    def _faults(self) -> dict[str, Any]:
        return {"seed": self._world.fabric.seed, "faults": self._world.faults.show()}

    async def _get_faults(self, _: web.Request) -> web.Response:
        return web.json_response(self._faults())

    async def _post_fault(self, request: web.Request) -> web.Response:
        wanted = parse_fault(str((await json_object(request)).get("fault", "")))
        if self._spread is not None:
            await self._spread({"add": spec_text(wanted)})
        fault = self._world.faults.add(wanted)
        return web.json_response({"number": fault.number, **self._faults()})

    async def _remove_fault(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if self._spread is not None:
            await self._spread({"remove": number})
        _remove(self._world.faults, number)
        return web.json_response(self._faults())

    async def _get_topology(self, _: web.Request) -> web.Response:
        fabric, engine = self._world.fabric, "of the fabric manager"
        if self._world.managed_by == "builtin":
            engine, cycle = self._world.subnet_manager.routing.engine, self._world.subnet_manager.deadlock()
        else:
            cycle = deadlock(fabric)
        return web.json_response(
            {
                "lab": self._name,
                "ibnetdiscover": dumps(Topology.of_fabric(fabric, self._name)),
                "down": [link.name for link in fabric.links if not link.up],
                "engine": engine,
                "deadlock": cycle,
                "lids": {port.name: port.lid for port in fabric.hfi_ports()},
            }
        )

    async def _get_routes(self, request: web.Request) -> web.Response:
        a, b = (self._port(request.query.get(key, "")) for key in ("from", "to"))
        found = paths(self._world.fabric, a, b)
        return web.json_response({"from": a.name, "to": b.name, "lid": b.lid, "paths": found})

    def _port(self, name: str) -> HfiPort:
        ports = {port.name: port for port in self._world.fabric.hfi_ports()}
        port = ports.get(name) or ports.get(f"{name}:1")
        if port is None:
            raise InputError(unknown_name("HFI port", name, ports))
        return port


def _remove(faults: Faults, number: object) -> None:
    if number is None:
        faults.clear()
    elif isinstance(number, int):
        faults.remove(number)
    else:
        raise FaultError(f"{number!r} is not the number of a fault")
