"""The Ethernet Manager of a world, at its `em` node; configured at its start and by `opavnic em apply`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

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
from opavnic.world.openapi import Api, declared_in
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
        self._commands = EmCommands(
            em,
            lambda: down_text(self._held()),
            begin=lambda: current_job().begin(),
            converged=converged_unless_silent,
        )

    def _held(self) -> list[int]:
        return self._faults.holding(EM_NODE)

    @property
    def trouble(self) -> list[str]:
        """What prevents it from converging: isolated agents, or its own failure."""
        return trouble_of(self.em, lambda: down_text(self._held()))

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

    # --- the control API -----------------------------------------------------------------------------------

    @Api(
        "POST /em/apply",
        "Apply an EM configuration",
        "what it changes; without diff=1 also the Sets sent, and whether the fabric has converged",
        EmApplied,
        query={"diff": "flag: only say what it would change"},
        body={"vesws": "array of object: and every other key of an EM file (em.schema.json)"},
        open=True,
        job="em apply",
        more_errors={"422": "mistakes in the configuration, each with its path"},
    )
    async def _apply(self, request: web.Request) -> web.Response:
        self._commands.running()
        data = await json_body(request)
        try:
            return await json_answer(await self._commands.apply(data, only_say=query_flag(request, "diff")))
        except EmConfigError as error:
            return web.json_response(refusal_of(error), status=422)

    @Api(
        "GET /em/state",
        "The Ethernet Manager",
        "role, convergence, and what keeps it from converging",
        EmState,
    )
    async def _state(self, _: web.Request) -> web.Response:
        return await json_answer(self._commands.state())

    @Api("GET /em/vesws", "Virtual switches", "virtual switches as the manager has planned them", EmVesws)
    async def _vesws(self, _: web.Request) -> web.Response:
        return await json_answer({"vesws": self._commands.vesws()})

    @Api("GET /em/vports", "Vports", "vports and how far each is configured", EmVports)
    async def _vports(self, _: web.Request) -> web.Response:
        return await json_answer({"vports": self._commands.vports()})

    @Api(
        "GET /em/mac-table",
        "MAC tables",
        "entries",
        EmMacTable,
        query={"vesw": "integer: id of a virtual switch; default: all"},
    )
    async def _mac_table(self, request: web.Request) -> web.Response:
        vesw_id = query_number(request, "vesw", 0) if "vesw" in request.query else None
        return await json_answer({"mac_table": self._commands.mac_table(vesw_id)})

    @Api(
        "GET /em/counters",
        "Readings of counters",
        "readings, oldest first",
        EmCounters,
        query={"limit": "integer: how many"},
    )
    async def _counters(self, request: web.Request) -> web.Response:
        return await json_answer({"counters": self._commands.counters(query_number(request, "limit", 100))})

    @Api(
        "GET /em/events",
        "Events",
        "events, oldest first",
        EmEvents,
        query={"after": "integer: number of an event", "limit": "integer: how many"},
    )
    async def _events(self, request: web.Request) -> web.Response:
        after, limit = query_number(request, "after", 0), query_number(request, "limit", 100)
        return await json_answer({"events": self._commands.events(after, limit)})

    @Api(
        "POST /em/verify",
        "Read everything from every agent",
        "differences from the configuration",
        EmVerified,
        job="em verify",
    )
    async def _verify(self, _: web.Request) -> web.Response:
        return await json_answer(await self._commands.verify())

    @Api(
        "POST /em/restart",
        "Restart the Ethernet Manager",
        "the Sets that it has sent since, and whether the fabric has converged",
        EmRestarted,
        body={"memory": "boolean: whether its database survives; default: true"},
        job="em restart",
    )
    async def _restart(self, request: web.Request) -> web.Response:
        memory = (await json_object(request)).get("memory", True)
        if self.em.core is None and self._held():
            raise OpavnicError(f"{down_text(self._held())}; opavnic fault remove {self._held()[0]} starts it")
        return await json_answer(await self._commands.restart(memory=memory))


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


class NoManager(RunningPart):
    """Refuses requests in a lab that has no Ethernet Manager of its own."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def routes(self) -> list[web.RouteDef]:
        return [said.to(self._refuse) for said in declared_in(BuiltinManager).values()]

    async def _refuse(self, _: web.Request) -> web.Response:
        raise OpavnicError(self._reason)
