"""What `opavnic em` shows of a manager, as tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from opavnic.base.state import StateModel
from opavnic.cli.base.output import (
    lid_text,
    pkey_text,
    print_line,
    print_table,
    wrong,
)
from opavnic.state.em import EmCounters, EmEvents, EmMacTable, EmState, EmVesws, EmVports

_SHOWN_MACS: Final = 3
_COUNTERS: Final = ("tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "tx_errors", "rx_errors")


class Topic(StrEnum):
    """What `show` can show."""

    VESWS = "vesws"
    VPORTS = "vports"
    MAC_TABLE = "mac-table"
    COUNTERS = "counters"
    EVENTS = "events"


def show_state(state: EmState) -> None:
    """Print the state of a manager."""
    how = "" if state.role == "standby" else ", converged" if state.converged else ", not converged"
    print_line(
        f"{state.role}{how}: {state.vesws} virtual switches, {state.vports} vports on {state.ports} ports, "
        f"{state.sets} Sets sent"
    )
    program = state.program
    if program is not None:
        print_line(
            f"{program.port} ({program.device}, GUID {program.guid}) {program.state}, LID {lid_text(program.lid)}, "
            f"subnet manager at LID {lid_text(program.sm_lid)}, P_Key {pkey_text(program.pkey)}"
        )
        print_line(
            f"pid {program.pid}, version {program.version}, {program.config}, database {program.database}"
        )
        if program.only:
            print_line(f"keeps to: {', '.join(program.only)}")
        print_line(
            f"MADs: {program.mads_sent} sent, {program.mads_received} received, {program.mads_timed_out} without "
            f"response, {program.mads_foreign} foreign"
        )
    for name in state.silent:
        print_line(f"{name}: its agent does not answer")
    for line in state.trouble:
        print_line(line)


def _show_vesws(reply: EmVesws) -> None:
    print_table(
        ("id", "name", "pkey", "MTU", "MAC policy", "group", "members", "MACs"),
        [
            [
                vesw.id,
                vesw.name,
                pkey_text(vesw.pkey),
                vesw.mtu,
                vesw.mac,
                lid_text(vesw.multicast_lid),
                len(vesw.members),
                vesw.addresses,
            ]
            for vesw in reply.vesws
        ],
    )
    for line in (line for vesw in reply.vesws for line in vesw.held_lines):
        print_line(line)


def _show_vports(reply: EmVports) -> None:
    print_table(
        ("port", "LID", "vport", "vesw", "state", "link", "base MAC", "unicast", "multicast", "digest"),
        [
            [
                vport.port,
                lid_text(vport.lid),
                vport.vport_num,
                vport.vesw_id,
                wrong(vport.state, vport.state not in ("ok", "in progress")),
                wrong(vport.link, vport.link != "up"),
                vport.base_mac,
                _few(vport.unicast),
                _few(vport.multicast),
                f"{vport.digest:08x}",
            ]
            for vport in reply.vports
        ],
    )


def _few(macs: list[str]) -> str:
    more = f" +{len(macs) - _SHOWN_MACS}" if len(macs) > _SHOWN_MACS else ""
    return " ".join(macs[:_SHOWN_MACS]) + more


def _show_mac_table(reply: EmMacTable) -> None:
    table = [[row.vesw_id, row.slot, row.mac, lid_text(row.lid), row.port] for row in reply.mac_table]
    print_table(("vesw", "slot", "MAC", "LID", "port"), table)


def _show_counters(reply: EmCounters) -> None:
    table = [
        [_when(row.time), row.port, row.vport_num, row.vesw_id, *(row.values.get(name) for name in _COUNTERS)]
        for row in reply.counters
    ]
    print_table(("time", "port", "vport", "vesw", *_COUNTERS), table)


def _show_events(reply: EmEvents) -> None:
    table = [
        [_when(event.time), event.kind, event.port, event.vport_num, event.vesw_id, event.text]
        for event in reply.events
    ]
    print_table(("time", "event", "port", "vport", "vesw", "what"), table)


def _when(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


SHOWN: Final[dict[Topic, tuple[type[StateModel], Callable[[Any], None]]]] = {
    Topic.VESWS: (EmVesws, _show_vesws),
    Topic.VPORTS: (EmVports, _show_vports),
    Topic.MAC_TABLE: (EmMacTable, _show_mac_table),
    Topic.COUNTERS: (EmCounters, _show_counters),
    Topic.EVENTS: (EmEvents, _show_events),
}
"""What each topic reads, and how it is shown."""
