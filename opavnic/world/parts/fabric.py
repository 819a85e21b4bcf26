"""The fabric on the control API: faults, topology, routes.

GET  /faults           the faults that are set, the seed
POST /faults           {"fault": "loss on h1 20%"}: set one
POST /faults/remove    {"number": 3}; {"number": null} removes all
GET  /topology         the fabric as ibnetdiscover text, links that are down, the routing engine, possible deadlocks
GET  /routes?from=h1&to=h2   the ways that the tables of the switches say, and the lanes of each link on them
GET  /lanes?on=h1--sw0       what each virtual lane has carried and holds now; on: a place, as of a fault
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from aiohttp import web

from hfi_sim.cable import LinkDirection
from hfi_sim.did_you_mean import unknown_name
from hfi_sim.errors import FaultError, InputError
from hfi_sim.faults import Faults, parse_fault, spec_text
from hfi_sim.faults.targets import directions_of
from hfi_sim.hfi import HfiPort
from hfi_sim.table_paths import deadlock, hops, paths
from hfi_sim.topology import Topology
from hfi_sim.topology.ibnet import dumps
from opavnic.world.json_body import json_object
from opavnic.world.openapi import api
from opavnic.world.part import RunningPart
from opavnic.world.world import World

Spread = Callable[[dict[str, Any]], Awaitable[None]]
MAX_WAYS: Final = 512
"""Directions whose lanes are answered at once: the fabric does not wait long for who looks at it."""


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
            web.get("/lanes", self._get_lanes),
        ]

    def _faults(self) -> dict[str, Any]:
        return {"seed": self._world.fabric.seed, "faults": self._world.faults.show()}

    @api("The faults that are set", "faults with their effects so far", ("seed", "faults"))
    async def _get_faults(self, _: web.Request) -> web.Response:
        return web.json_response(self._faults())

    @api(
        "Set a fault",
        "its number, and all faults",
        ("number", "seed", "faults"),
        body={"fault": "string: as `opavnic fault add` takes it, `loss on h1 20%`"},
    )
    async def _post_fault(self, request: web.Request) -> web.Response:
        wanted = parse_fault(str((await json_object(request)).get("fault", "")))
        if self._spread is not None:
            await self._spread({"add": spec_text(wanted)})
        fault = self._world.faults.add(wanted)
        return web.json_response({"number": fault.number, **self._faults()})

    @api(
        "Remove a fault, or all",
        "the faults that are left",
        ("seed", "faults"),
        body={"number": "integer or null: the number of a fault; null: all"},
    )
    async def _remove_fault(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if self._spread is not None:
            await self._spread({"remove": number})
        _remove(self._world.faults, number)
        return web.json_response(self._faults())

    @api(
        "The fabric",
        "ibnetdiscover text, links that are down, the routing engine, a possible deadlock, LIDs by port",
        ("lab", "ibnetdiscover", "down", "engine", "deadlock", "lids"),
    )
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

    @api(
        "The ways between two hosts, as the tables of the switches have them",
        "nodes and ports of each way, and the links on it with their virtual lanes",
        ("from", "to", "lid", "paths", "hops"),
        query={"from": "!a host or HFI port", "to": "!a host or HFI port"},
    )
    async def _get_routes(self, request: web.Request) -> web.Response:
        a, b = (self._port(request.query.get(key, "")) for key in ("from", "to"))
        fabric = self._world.fabric
        ways = hops(fabric, a, b)
        return web.json_response(
            {
                "from": a.name,
                "to": b.name,
                "lid": b.lid,
                "paths": paths(fabric, a, b),
                "hops": [[direction_status(hop) for hop in way] for way in ways],
            }
        )

    @api(
        "Virtual lanes of links: what they have carried, and hold now",
        "directions of links, each with its lanes",
        ("directions",),
        query={"on": "!a host, switch, port or link, as of a fault"},
    )
    async def _get_lanes(self, request: web.Request) -> web.Response:
        ways = directions_of(self._world.fabric, request.query.get("on", ""))
        if len(ways) > MAX_WAYS:
            raise InputError(
                f"{len(ways)} directions of links are there; at most {MAX_WAYS} are answered at once"
            )
        return web.json_response({"directions": [direction_status(way) for way in ways]})

    def _port(self, name: str) -> HfiPort:
        ports = {port.name: port for port in self._world.fabric.hfi_ports()}
        port = ports.get(name) or ports.get(f"{name}:1")
        if port is None:
            raise InputError(unknown_name("HFI port", name, ports))
        return port


def direction_status(way: LinkDirection) -> dict[str, Any]:
    """Return one direction of a link with its virtual lanes: counters so far, and on a link with credits what is held.

    `credits`, `waiting` and `occupied` are bytes, None on a link without credits.
    """
    lanes = way.lanes
    return {
        "name": way.name,
        "up": way.link.up,
        "rate_bps": way.link.rate_bps,
        "queue_bytes": way.link.queue_bytes,
        "vls": [
            {
                "vl": vl,
                **asdict(counted),
                "credits": None if lanes is None else lanes.credits[vl],
                "waiting": None if lanes is None else lanes.waiting[vl],
                "occupied": None if lanes is None else lanes.occupied[vl],
            }
            for vl, counted in enumerate(way.vl_counters())
            if lanes is None or vl < len(lanes.credits)
        ],
    }


def _remove(faults: Faults, number: object) -> None:
    if number is None:
        faults.clear()
    elif isinstance(number, int):
        faults.remove(number)
    else:
        raise FaultError(f"{number!r} is not the number of a fault")
