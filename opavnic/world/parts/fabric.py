"""The fabric on the control API: faults, topology, routes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from aiohttp import web

from hfi_sim.base.errors import FabricError, FaultError, QuantityError
from hfi_sim.base.quantities import parse_whole
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import parse_fault, spec_text
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology.draw import Position
from opavnic.state.fabric import (
    ChangesState,
    FaultAdded,
    FaultsSet,
    LanesState,
    RoutesState,
    SteeringState,
    TopologyState,
)
from opavnic.world.change_log import CHANGES_KEPT, ChangeLog
from opavnic.world.fabric_views import FAULTS, LANES, ROUTES, TOPOLOGY, FabricView, Model
from opavnic.world.json_body import json_answer, json_object, query_number
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.remote_machines import RemoteMachines
from opavnic.world.world import World


class FabricRoutes(RunningPart):
    """Shows the fabric of a world, and injects faults on request."""

    def __init__(
        self,
        world: World,
        name: str,
        remote: RemoteMachines | None = None,
        positions: Mapping[str, Position] = MappingProxyType({}),
    ) -> None:
        """Prepare, and begin to write down what happens.

        Args:  name: of the lab. remote: the other machines that carry parts of the fabric. positions: where nodes are
               drawn, by name.
        """
        self._remote = remote
        self._world = world
        self._name = name
        self._positions = dict(positions)
        self._changes = ChangeLog(world.fabric, world.faults, time.time)

    async def _look(self, view: FabricView[Model], query: Mapping[str, str] = MappingProxyType({})) -> Model:
        if self._remote is not None:
            return await self._remote.look(view, query)
        return view.of(self._world, query)

    @Api("GET /faults", "The faults that are set", "faults with their effects so far", FaultsSet)
    async def _get_faults(self, _: web.Request) -> web.Response:
        return await json_answer(await self._look(FAULTS))

    @Api(
        "POST /faults",
        "Set a fault",
        "its number, and all faults",
        FaultAdded,
        body={"fault": "string: as `opavnic fault add` takes it, `loss on h1 20%`"},
    )
    async def _post_fault(self, request: web.Request) -> web.Response:
        wanted = parse_fault(str((await json_object(request)).get("fault", "")))
        if self._remote is not None:
            number = await self._remote.change_faults({"add": spec_text(wanted)})
        else:
            number = self._world.faults.add(wanted).number
        return await json_answer(FaultAdded(number=number, **dict(await self._look(FAULTS))))

    @Api(
        "POST /faults/remove",
        "Remove a fault, or all",
        "the faults that are left",
        FaultsSet,
        body={"number": "integer or null: the number of a fault; null: all"},
    )
    async def _remove_fault(self, request: web.Request) -> web.Response:
        number = (await json_object(request)).get("number")
        if self._remote is not None:
            await self._remote.change_faults({"remove": number})
        else:
            remove_fault(self._world.faults, number)
        return await json_answer(await self._look(FAULTS))

    @Api(
        "GET /topology",
        "The fabric",
        "ibnetdiscover text, links that are down, the routing engine, a possible deadlock, LIDs by port",
        TopologyState,
    )
    async def _get_topology(self, _: web.Request) -> web.Response:
        found = await self._look(TOPOLOGY, {"name": self._name})
        return await json_answer(found.model_copy(update={"positions": self._positions}))

    @Api(
        "GET /changes",
        "What has happened to links and faults",
        f"changes, oldest first; a lab keeps the last {CHANGES_KEPT}",
        ChangesState,
        query={"after": "integer: number of a change", "limit": "integer: how many"},
    )
    async def _get_changes(self, request: web.Request) -> web.Response:
        after, limit = query_number(request, "after", 0), query_number(request, "limit", CHANGES_KEPT)
        return await json_answer({"changes": self._changes.after(after, limit)})

    @Api(
        "GET /routes",
        "The ways between two hosts, as the tables of the switches have them",
        "nodes and ports of each way, and the links on it with their virtual lanes",
        RoutesState,
        query={"from": "!a host or HFI port", "to": "!a host or HFI port"},
    )
    async def _get_routes(self, request: web.Request) -> web.Response:
        return await json_answer(await self._look(ROUTES, request.query))

    @Api(
        "GET /lanes",
        "Virtual lanes of links: what they have carried, and hold now",
        "directions of links, each with its lanes",
        LanesState,
        query={"on": "!a host, switch, port or link, as of a fault"},
    )
    async def _get_lanes(self, request: web.Request) -> web.Response:
        return await json_answer(await self._look(LANES, request.query))

    @Api(
        "GET /steering",
        "The ways that a program has given switches",
        "by switch, the port for each LID",
        SteeringState,
    )
    async def _get_steering(self, _: web.Request) -> web.Response:
        return await self._steering()

    @Api(
        "POST /steering",
        "Give switches ways for some LIDs, in place of those given before",
        "by switch, the port for each LID",
        SteeringState,
        body={
            "ways": "!object: by switch, the port for each LID, host or HFI port: {leaf0: {h3: 4}}; {}: none"
        },
    )
    async def _steer(self, request: web.Request) -> web.Response:
        wanted = (await json_object(request)).get("ways")
        if self._remote is not None:
            raise FabricError(
                "a lab over several machines cannot be steered: each of them sets up all switches"
            )
        self._world.subnet_manager.steer(steering_of(self._world.fabric, wanted))
        return await self._steering()

    async def _steering(self) -> web.Response:
        ways = self._world.subnet_manager.steering
        return await json_answer(SteeringState(ways={name: dict(ports) for name, ports in ways.items()}))


def steering_of(fabric: Fabric, ways: object) -> dict[str, dict[int, int]]:
    """Return ways by LID that are given by LID or name.

    Raises:  FabricError: they are not a mapping of mappings of ports, or nothing has a name.
    """
    if not isinstance(ways, dict) or not all(isinstance(ports, dict) for ports in ways.values()):
        raise FabricError("ways are a mapping of switches to mappings of LIDs or hosts to ports")
    found: dict[str, dict[int, int]] = {}
    for switch, ports in ways.items():
        for name, port in ports.items():
            if type(port) is not int:
                raise FabricError(f"switch {switch}: {name}: {port!r} is not the number of a port")
            found.setdefault(switch, {}).update(dict.fromkeys(_lids_of(fabric, str(name)), port))
    return found


def _lids_of(fabric: Fabric, name: str) -> Iterable[int]:
    """Return the LIDs that a number, a host or an HFI port stands for."""
    try:
        return (parse_whole(name),)
    except QuantityError:
        pass
    ports = [port for port in fabric.hfi_ports() if name in (port.name, port.hfi.name)]
    if not ports:
        raise FabricError(unknown_name("host, HFI port or LID", name, fabric.hfis))
    return [lid for port in ports for lid in range(port.lid, port.lid + (1 << port.lmc))]


def remove_fault(faults: Faults, number: object) -> None:
    """Remove the fault of a number, or with None all. Raises FaultError if there is none."""
    if number is None:
        faults.clear()
    elif isinstance(number, int):
        faults.remove(number)
    else:
        raise FaultError(f"{number!r} is not the number of a fault")
