"""What the control socket of the manager answers: the commands of `opavnic.management.em_service`, by their paths."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from hfi_sim.base.errors import InputError
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
            raise InputError('the body is not {"memory": true} or {"memory": false}')
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
    rows: list[tuple[str, float, str]] = [
        ("master", state.role == "master", "1: this manager is the master."),
        ("converged", state.converged, "1: every reachable agent is as configured."),
        ("trouble", len(state.trouble), "Lines of trouble that em status has."),
        ("virtual_switches", state.vesws, "Virtual switches of the configuration."),
        ("vports", state.vports, "Vports that the manager knows."),
        ("ports", state.ports, "HFI ports in service that announce Ethernet."),
        ("silent_ports", len(state.silent), "Ports whose agents do not answer."),
        ("sets_total", state.sets, "Sets sent to agents since the start of the manager."),
    ]
    labels = ""
    if (program := state.program) is not None:
        named = {"port": program.port, "guid": program.guid, "version": program.version}
        labels = ",".join(f'{name}="{value.translate(_LABEL)}"' for name, value in named.items())
        rows += [
            ("info", 1, "The port that the manager runs on."),
            ("port_active", program.state == "ACTIVE", "1: that port is ACTIVE."),
            ("lid", program.lid, "LID of that port."),
            ("sm_lid", program.sm_lid, "LID of the subnet manager."),
            ("start_time_seconds", program.started_at, "Start of the program, seconds since 1970."),
            ("device_silent_seconds", program.device_silent_s, "Time for which the device takes no MAD."),
            ("mads_sent_total", program.mads_sent, "MADs written to the umad device."),
            ("mads_received_total", program.mads_received, "Messages read from it."),
            ("mads_timed_out_total", program.mads_timed_out, "Requests without a response."),
            ("mads_foreign_total", program.mads_foreign, "MADs that nothing awaited, or malformed."),
        ]
    lines = []
    for name, value, meaning in rows:
        full, kind = f"opavnic_em_{name}", "counter" if name.endswith("_total") else "gauge"
        shown = f"{full}{{{labels}}}" if name == "info" else full
        number = int(value) if value == int(value) else value
        lines.append(f"# HELP {full} {meaning}\n# TYPE {full} {kind}\n{shown} {number}\n")
    return "".join(lines)
