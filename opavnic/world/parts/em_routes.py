"""The Ethernet Manager on the control API.

POST /em/apply       an EM configuration as JSON; ?diff=1 only returns what it would change
POST /em/restart     {"memory": true}: restart it with its database; false: without
GET  /em/vesws       virtual switches; /em/vports: vports; /em/mac-table: entries (?vesw=ID)
GET  /em/counters    readings of counters, oldest first (?limit=N); /em/events: events (?after=N)
POST /em/verify      read everything from every agent; return the differences from the configuration
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.core_runner import failure_text
from hfi_sim.base.errors import InputError
from hfi_sim.base.types import mac_text
from opavnic.base.errors import OpavnicError
from opavnic.state.em import (
    CounterReading,
    EmApplied,
    EmCounters,
    EmEvent,
    EmEvents,
    EmMacTable,
    EmRestarted,
    EmVerified,
    EmVesws,
    EmVports,
    MacTableRow,
    VeswStatus,
    VportStatus,
)
from opavnic.world.em_node import down_text
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_answer, json_body, json_object, query_flag, query_number
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.parts.em_convergence import converged_unless_silent
from vema.base.types import EthLinkStatus
from vema.em.core.core import EmCore
from vema.em.core.state import ManagedVesw, Port, Vport
from vema.em.desired.desired import Checked, EmConfigError, checked
from vema.em.desired.problems import Problem
from vema.em.service.preview import EmSnapshot, preview
from vema.em.service.service import EthernetService

PROBLEMS_SAID: Final = 100
"""Number of mistakes of a configuration that are listed; the rest are only counted."""
_ROUTES: Final = (
    (web.post, "/em/apply"),
    (web.post, "/em/verify"),
    (web.post, "/em/restart"),
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


def failed_text(failure: Exception) -> str:
    """Return a line that says that the manager has failed, and why."""
    return f"the Ethernet Manager has failed ({failure_text(failure)}); the log says where"


def em_routes(service: EthernetService, held: Callable[[], Sequence[int]]) -> list[web.RouteDef]:
    """Return the routes of a manager. Args: held: returns the faults that hold it down."""

    def running() -> tuple[EthernetService, EmCore]:
        if service.core is None:
            raise OpavnicError(down_text(held()))
        if service.failure is not None:
            raise OpavnicError(failed_text(service.failure))
        return service, service.core

    one_at_a_time = asyncio.Lock()

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
        em, _ = running()
        data = await json_body(request)
        try:
            async with one_at_a_time:  # a large one takes a second, and memory
                config, changes = await asyncio.to_thread(_judged, data, em.picture())
            em, core = running()
            if query_flag(request, "diff"):
                return await json_answer(EmApplied(changes=changes))
            current_job().begin()
            sets = core.sets
            em.apply(config)
        except EmConfigError as error:
            said = list(error.problems[:PROBLEMS_SAID])
            if more := len(error.problems) - len(said):
                said.append(Problem((), f"... and {more} more"))
            found = [{"path": problem.path, "message": problem.message} for problem in said]
            return web.json_response({"error": "\n".join(map(str, said)), "problems": found}, status=422)
        if converged := await converged_unless_silent(em):
            await em.hosts_ready()
        running()  # it may have failed meanwhile
        return await json_answer(EmApplied(changes=changes, sets=core.sets - sets, converged=converged))

    @Api("Virtual switches", "virtual switches as the manager has planned them", EmVesws)
    async def vesws(_: web.Request) -> web.Response:
        return await json_answer({"vesws": _vesw_rows(running()[1])})

    @Api("Vports", "vports and how far each is configured", EmVports)
    async def vports(_: web.Request) -> web.Response:
        core = running()[1]
        rows = (_vport_row(port, vport) for port, vport in list(core.vports()))
        return await json_answer({"vports": rows})

    @Api("MAC tables", "entries", EmMacTable, query={"vesw": "integer: id of a virtual switch; default: all"})
    async def mac_table(request: web.Request) -> web.Response:
        core = running()[1]
        shown = dict(core.vesws)
        if "vesw" in request.query:
            vesw_id = query_number(request, "vesw", 0)
            if vesw_id not in core.vesws:
                known = ", ".join(map(str, sorted(core.vesws))) or "none"
                raise InputError(f"no virtual switch has id {vesw_id} (known: {known})")
            shown = {vesw_id: shown[vesw_id]}
        return await json_answer({"mac_table": _table_rows(core, shown)})

    @Api("Readings of counters", "readings, oldest first", EmCounters, query={"limit": "integer: how many"})
    async def counters(request: web.Request) -> web.Response:
        em, core = running()
        readings = (
            CounterReading(
                time=stored.time,
                port=_port_name(core, stored.counters.guid),
                vport_num=stored.counters.vport_num,
                vesw_id=stored.counters.vesw_id,
                **dict(stored.counters.values),  # type: ignore[arg-type]
            )
            for stored in em.store.counters(limit=query_number(request, "limit", 100))
        )
        return await json_answer({"counters": readings})

    @Api(
        "Events",
        "events, oldest first",
        EmEvents,
        query={"after": "integer: number of an event", "limit": "integer: how many"},
    )
    async def events(request: web.Request) -> web.Response:
        em, _ = running()
        after, limit = query_number(request, "after", 0), query_number(request, "limit", 100)
        rows = map(EmEvent.of, em.store.events(after=after, limit=limit))
        return await json_answer({"events": rows})

    @Api(
        "Read everything from every agent", "differences from the configuration", EmVerified, job="em verify"
    )
    async def verify(_: web.Request) -> web.Response:
        em, _core = running()
        return await json_answer(EmVerified(differences=[str(one) for one in await em.verify()]))

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
        async with one_at_a_time:
            current_job().begin()
            service.restart(memory=memory)
            _, core = running()
            converged = await converged_unless_silent(service)
        running()
        return await json_answer(EmRestarted(sets=core.sets, converged=converged))

    handlers = (apply, verify, restart, vesws, vports, mac_table, counters, events)
    return [route(path, handler) for (route, path), handler in zip(_ROUTES, handlers, strict=True)]


def _judged(data: Any, now: EmSnapshot) -> tuple[Checked, list[str]]:
    """Return the configuration and what it would change; runs in a thread, so that the fabric does not wait.

    Raises:  EmConfigError: it is invalid, or the fabric cannot satisfy it.
    """
    found = checked(data, now.roster)
    return found, preview(found.config, now)


def _port_name(core: EmCore, guid: int) -> str:
    port = core.ports.get(guid)
    return f"{guid:#018x}" if port is None else port.facts.name


def _vesw_rows(core: EmCore) -> Iterator[VeswStatus]:
    for vesw in list(core.vesws.values()):
        section = vesw.plan.section
        yield VeswStatus(
            id=section.id,
            name=section.name,
            pkey=section.pkey,
            mtu=section.mtu,
            mac=core.config.policy(section),
            multicast_lid=vesw.plan.mlid,
            members=[port.name for port in vesw.plan.members],
            default_lids=list(vesw.plan.default_lids),
            addresses=len(vesw.entries()),
            left_out=[mac_text(mac) for mac in vesw.table.left_out] if vesw.plan.learns else [],
        )


def _vport_row(port: Port, vport: Vport) -> VportStatus:
    info = vport.info
    return VportStatus(
        port=port.facts.name,
        lid=port.facts.lid,
        vport_num=vport.num,
        vesw_id=vport.vesw_id,
        state=_state(port, vport),
        link="up" if info is not None and info.eth_link_status == EthLinkStatus.UP else "down",
        base_mac=mac_text(vport.base_mac),
        unicast=[mac_text(mac) for mac in vport.unicast.macs],
        multicast=[mac_text(mac) for mac in vport.multicast.macs],
        digest=vport.digest,
    )


def _state(port: Port, vport: Vport) -> str:
    if port.isolated:
        return f"isolated: {port.isolated}"
    if not port.in_service:
        return "away"
    if port.failures:
        return "silent"
    return "ok" if vport.done else "in progress"


def _table_rows(core: EmCore, vesws: Mapping[int, ManagedVesw]) -> Iterator[MacTableRow]:
    for vesw_id, vesw in vesws.items():
        for slot, mac, lid, owner in vesw.entries():
            yield MacTableRow(
                vesw_id=vesw_id,
                slot=slot,
                mac=mac_text(mac),
                lid=lid,
                port=_port_name(core, owner) if owner else "",
            )
