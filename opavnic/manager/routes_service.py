"""What the control socket of the manager answers: the commands of `opavnic.management.em_service`, by their paths."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError
from opavnic.management.em_service import EmCommands
from opavnic.manager.control_socket import Handler, HttpRequest, Reply
from opavnic.manager.metrics import metrics_text
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

log = logging.getLogger("opavnic.manager")

_LIMIT: Final = 100
Routes = dict[tuple[str, str], Handler]


class RequestError(OpavnicError, InputError):
    """A request makes no sense."""


def metrics_route(state: Callable[[], EmState]) -> Routes:
    """Return what a scrape asks for."""
    return {("GET", "/metrics"): _now(lambda _: metrics_text(state()))}


def routes_of(commands: EmCommands, state: Callable[[], EmState]) -> Routes:
    """Return the handlers of all requests."""

    async def apply(request: HttpRequest) -> EmApplied:
        commands.running()
        diff = request.query.get("diff") == "1"
        applied = await commands.apply(request.json(), only_say=diff)
        if not diff:
            log.info("a configuration is applied: %d changes, %d Sets", len(applied.changes), applied.sets)
        return applied

    async def restart(request: HttpRequest) -> EmRestarted:
        data = request.json()
        memory = data.get("memory", True) if isinstance(data, dict) else None
        if not isinstance(memory, bool):
            raise RequestError('the body is not {"memory": true} or {"memory": false}')
        log.info("the Ethernet Manager is restarted%s", "" if memory else ", without its database")
        return await commands.restart(memory=memory)

    async def verify(_: HttpRequest) -> EmVerified:
        return await commands.verify()

    def mac_table(request: HttpRequest) -> EmMacTable:
        vesw_id = request.number("vesw", 0) if "vesw" in request.query else None
        return EmMacTable(mac_table=list(commands.mac_table(vesw_id)))

    def counters(request: HttpRequest) -> EmCounters:
        return EmCounters(counters=list(commands.counters(request.number("limit", _LIMIT))))

    def events(request: HttpRequest) -> EmEvents:
        found = commands.events(request.number("after", 0), request.number("limit", _LIMIT))
        return EmEvents(events=list(found))

    return {
        ("GET", "/em/state"): _now(lambda _: state()),
        ("GET", "/em/vesws"): _now(lambda _: EmVesws(vesws=list(commands.vesws()))),
        ("GET", "/em/vports"): _now(lambda _: EmVports(vports=list(commands.vports()))),
        ("GET", "/em/mac-table"): _now(mac_table),
        ("GET", "/em/counters"): _now(counters),
        ("GET", "/em/events"): _now(events),
        ("POST", "/em/apply"): apply,
        ("POST", "/em/restart"): restart,
        ("POST", "/em/verify"): verify,
        **metrics_route(state),
    }


def _now(answer: Callable[[HttpRequest], Reply]) -> Handler:
    async def handler(request: HttpRequest) -> Reply:
        return answer(request)

    return handler
