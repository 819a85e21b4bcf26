"""The Ethernet Manager on the control API.

POST /em/apply       an EM configuration as JSON; ?diff=1 only returns what it would change
POST /em/restart     {"memory": true}: restart it with its database; false: without
GET  /em/state       role, convergence, trouble
GET  /em/vesws       virtual switches; /em/vports: vports; /em/mac-table: entries (?vesw=ID)
GET  /em/counters    readings of counters, oldest first (?limit=N); /em/events: events (?after=N)
POST /em/verify      read everything from every agent; return the differences from the configuration
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from opavnic.base.errors import OpavnicError
from opavnic.management.em_service import EmCommands, refusal_of
from opavnic.state.em import (
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
from opavnic.world.em_node import down_text
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_answer, json_body, json_object, query_flag, query_number
from opavnic.world.long_work import LOOK_S, SILENCE_S, Silence
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from vema.em.desired.desired import EmConfigError
from vema.em.service.service import EthernetService

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
