"""What the control socket of the manager answers: the commands of `opavnic.management.em_service`, by their paths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError
from opavnic.management.em_service import EmCommands
from opavnic.manager.control_socket import Handler, HttpRequest, Reply
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


_LABEL: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_text(state: EmState) -> str:
    """Return the metrics of a manager that is a program."""
    return "".join(_lines(state))


def _lines(state: EmState) -> Iterator[str]:
    def metric(name: str, kind: str, meaning: str, value: float, labels: str = "") -> str:
        full = f"opavnic_em_{name}"
        return f"# HELP {full} {meaning}\n# TYPE {full} {kind}\n{full}{labels} {_number(value)}\n"

    yield metric("master", "gauge", "1: this manager is the master.", state.role == "master")
    yield metric("converged", "gauge", "1: every reachable agent is as configured.", state.converged)
    yield metric("trouble", "gauge", "Lines of trouble that em status has.", len(state.trouble))
    yield metric("virtual_switches", "gauge", "Virtual switches of the configuration.", state.vesws)
    yield metric("vports", "gauge", "Vports that the manager knows.", state.vports)
    yield metric("ports", "gauge", "HFI ports in service that announce Ethernet.", state.ports)
    yield metric("silent_ports", "gauge", "Ports whose agents do not answer.", len(state.silent))
    yield metric("sets_total", "counter", "Sets sent to agents since the start of the manager.", state.sets)
    program = state.program
    if program is None:
        return
    labels = "{" + ",".join(
        f'{name}="{value.translate(_LABEL)}"'
        for name, value in (("port", program.port), ("guid", program.guid), ("version", program.version))
    ) + "}"  # fmt: skip
    yield metric("info", "gauge", "The port that the manager runs on.", 1, labels)
    yield metric("port_active", "gauge", "1: that port is ACTIVE.", program.state == "ACTIVE")
    yield metric("lid", "gauge", "LID of that port.", program.lid)
    yield metric("sm_lid", "gauge", "LID of the subnet manager.", program.sm_lid)
    yield metric(
        "start_time_seconds", "gauge", "Start of the program, seconds since 1970.", program.started_at
    )
    yield metric(
        "device_silent_seconds", "gauge", "Time for which the device takes no MAD.", program.device_silent_s
    )
    yield metric("mads_sent_total", "counter", "MADs written to the umad device.", program.mads_sent)
    yield metric("mads_received_total", "counter", "Messages read from it.", program.mads_received)
    yield metric("mads_timed_out_total", "counter", "Requests without a response.", program.mads_timed_out)
    yield metric(
        "mads_foreign_total", "counter", "MADs that nothing awaited, or malformed.", program.mads_foreign
    )


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
