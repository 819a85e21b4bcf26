"""The Ethernet Manager of a world, at its `em` node; configured at its start and by `opavnic em apply`.

On the control API:

POST /em/apply       an EM configuration as JSON; ?diff=1 only returns what it would change
POST /em/restart     {"memory": true}: restart it with its database; false: without
GET  /em/state       role, convergence, trouble
GET  /em/vesws       virtual switches; /em/vports: vports; /em/mac-table: entries (?vesw=ID)
GET  /em/counters    readings of counters, oldest first (?limit=N); /em/events: events (?after=N)
POST /em/verify      read everything from every agent; return the differences from the configuration
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.core_runner import failure_text
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.management.sa.session import SaSession
from opavnic.base.errors import OpavnicError
from opavnic.management.em_port import FabricNames, SmTopology, make_em
from opavnic.management.em_service import EmCommands, address_moves, refusal_of, trouble_of
from opavnic.state.em import (
    AddressMoves,
    EmApplied,
    EmCounters,
    EmEvents,
    EmMacTable,
    EmRestarted,
    EmState,
    EmVerified,
    EmVesws,
    EmVports,
)
from opavnic.world.em_node import EM_NODE, down_text
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_answer, json_body, json_object, query_flag, query_number
from opavnic.world.long_work import LOOK_S, SILENCE_S, Silence
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.world import World
from vema.base.errors import VemaError
from vema.em.desired.desired import EmConfig, EmConfigError
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.interfaces import EmSubnet
from vema.em.service.service import EthernetService

log = logging.getLogger("opavnic.world.em")


class BuiltinManager(RunningPart):
    """An Ethernet Manager at work on a world."""

    def __init__(self, em: EthernetService, faults: Faults) -> None:
        self.em = em
        self._faults = faults

    def _held(self) -> list[int]:
        return self._faults.holding(EM_NODE)

    @property
    def trouble(self) -> list[str]:
        """What prevents it from converging: isolated agents, or its own failure."""
        return trouble_of(self.em, lambda: down_text(self._held()))

    @property
    def vesw_names(self) -> dict[int, str]:
        """The names of the virtual switches that it manages, by id."""
        core = self.em.core
        return {} if core is None else {id_: vesw.plan.section.name for id_, vesw in core.vesws.items()}

    @property
    def moves(self) -> list[AddressMoves]:
        """How addresses move between members, of each virtual switch whose addresses it learns."""
        core = self.em.core
        return [] if core is None else address_moves(core)

    def status(self) -> dict[str, Any]:
        if self.em.failure is not None:
            return {"failed": failure_text(self.em.failure)}
        if self.em.core is None:
            return {"down": down_text(self._held())}
        return {"trouble": "; ".join(self.trouble)} if self.em.topology.given else {}

    def routes(self) -> list[web.RouteDef]:
        return em_routes(self.em, self._held)


def _topology(world: World, ends: contextlib.ExitStack) -> EmSubnet:
    """Return the fabric as the EM of a world sees it."""
    if world.managed_by == "builtin":
        return SmTopology(world.subnet_manager, world.em_port, host_of=world.host_of)
    session = SaSession(world.em_port, world.clock)
    ends.callback(session.close)
    return AdministeredSubnet(session, world.em_port, FabricNames(world.fabric.hfi_ports, world.host_of))


def _come_back(em: EthernetService) -> None:
    try:
        em.restart()
    except VemaError as error:
        log.error("the Ethernet Manager does not start again: %s", error)


@contextlib.asynccontextmanager
async def ethernet_manager(world: World, config: EmConfig) -> AsyncIterator[BuiltinManager]:
    """Configure every member of every virtual switch; the VNICs stay as they are when the context is left.

    Raises:  OpavnicError: the manager cannot apply `config`.
    """
    with contextlib.ExitStack() as ends:
        topology = _topology(world, ends)
        em = make_em(
            topology,
            world.em_port,
            clock=world.clock,
            wall_clock=time.time,
            hear_traps=False,
        )
        ends.callback(em.stop)
        ends.callback(world.on_trap(em.trap))
        world.faults.hook(EM_NODE, em.halt, partial(_come_back, em))
        ends.callback(world.faults.unhook, EM_NODE)
        try:
            em.start(config)
        except VemaError as error:
            raise OpavnicError("; ".join(str(error).splitlines())) from error
        yield BuiltinManager(em, world.faults)


# --- wait until an Ethernet Manager has done what it was told: for as long as it makes progress ------------


async def converged_unless_silent(em: EthernetService, silence_s: float = SILENCE_S) -> bool:
    """Wait until a manager has converged. The job that waits shows the Sets.

    Returns: False: it has sent no Set for `silence_s`, has failed, or was restarted.
    """
    job, core = current_job(), em.core
    if core is None:
        return False
    before = core.sets
    job.doing("Sets of the Ethernet Manager")
    silence = Silence(asyncio.get_running_loop().time)
    while not await em.wait_for(lambda: em.converged, LOOK_S):
        if em.core is not core or em.failure is not None:
            return False
        job.count(core.sets - before)
        if silence.look(core.sets) > silence_s:
            return False
    return True


# -----------------------------------------------------------------------------------------------------------

_ROUTES: Final = (
    (web.post, "/em/apply"),
    (web.post, "/em/verify"),
    (web.post, "/em/restart"),
    (web.get, "/em/state"),
    (web.get, "/em/vesws"),
    (web.get, "/em/vports"),
    (web.get, "/em/mac-table"),
    (web.get, "/em/counters"),
    (web.get, "/em/events"),
)


class NoManager(RunningPart):
    """Refuses requests in a lab that has no Ethernet Manager of its own."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def routes(self) -> list[web.RouteDef]:
        return [route(path, self._refuse) for route, path in _ROUTES]

    async def _refuse(self, _: web.Request) -> web.Response:
        raise OpavnicError(self._reason)


def em_routes(service: EthernetService, held: Callable[[], Sequence[int]]) -> list[web.RouteDef]:
    """Return the routes of a manager. Args: held: returns the faults that hold it down."""
    commands = EmCommands(
        service,
        lambda: down_text(held()),
        begin=lambda: current_job().begin(),
        converged=converged_unless_silent,
    )

    @Api(
        "Apply an EM configuration",
        "what it changes; without diff=1 also the Sets sent, and whether the fabric has converged",
        EmApplied,
        query={"diff": "flag: only say what it would change"},
        body={"vesws": "array of object: and every other key of an EM file (em.schema.json)"},
        open=True,
        job="em apply",
        more_errors={"422": "mistakes in the configuration, each with its path"},
    )
    async def apply(request: web.Request) -> web.Response:
        commands.running()
        data = await json_body(request)
        try:
            return await json_answer(await commands.apply(data, only_say=query_flag(request, "diff")))
        except EmConfigError as error:
            return web.json_response(refusal_of(error), status=422)

    @Api("The Ethernet Manager", "role, convergence, and what keeps it from converging", EmState)
    async def state(_: web.Request) -> web.Response:
        return await json_answer(commands.state())

    @Api("Virtual switches", "virtual switches as the manager has planned them", EmVesws)
    async def vesws(_: web.Request) -> web.Response:
        return await json_answer({"vesws": commands.vesws()})

    @Api("Vports", "vports and how far each is configured", EmVports)
    async def vports(_: web.Request) -> web.Response:
        return await json_answer({"vports": commands.vports()})

    @Api("MAC tables", "entries", EmMacTable, query={"vesw": "integer: id of a virtual switch; default: all"})
    async def mac_table(request: web.Request) -> web.Response:
        vesw_id = query_number(request, "vesw", 0) if "vesw" in request.query else None
        return await json_answer({"mac_table": commands.mac_table(vesw_id)})

    @Api("Readings of counters", "readings, oldest first", EmCounters, query={"limit": "integer: how many"})
    async def counters(request: web.Request) -> web.Response:
        return await json_answer({"counters": commands.counters(query_number(request, "limit", 100))})

    @Api(
        "Events",
        "events, oldest first",
        EmEvents,
        query={"after": "integer: number of an event", "limit": "integer: how many"},
    )
    async def events(request: web.Request) -> web.Response:
        after, limit = query_number(request, "after", 0), query_number(request, "limit", 100)
        return await json_answer({"events": commands.events(after, limit)})

    @Api(
        "Read everything from every agent", "differences from the configuration", EmVerified, job="em verify"
    )
    async def verify(_: web.Request) -> web.Response:
        return await json_answer(await commands.verify())

    @Api(
        "Restart the Ethernet Manager",
        "the Sets that it has sent since, and whether the fabric has converged",
        EmRestarted,
        body={"memory": "boolean: whether its database survives; default: true"},
        job="em restart",
    )
    async def restart(request: web.Request) -> web.Response:
        memory = (await json_object(request)).get("memory", True)
        if service.core is None and held():
            raise OpavnicError(f"{down_text(held())}; opavnic fault remove {held()[0]} starts it")
        return await json_answer(await commands.restart(memory=memory))

    handlers = (apply, verify, restart, state, vesws, vports, mac_table, counters, events)
    return [route(path, handler) for (route, path), handler in zip(_ROUTES, handlers, strict=True)]
