"""`opavnic em`: the Ethernet Manager of a running lab."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from opavnic.base.signals import followed
from opavnic.cli.base.common import METAVAR, AsJson, LabOption, lab_client, number
from opavnic.cli.base.group import command_group
from opavnic.cli.base.names import vesw_names
from opavnic.cli.base.output import (
    EXIT_FAILED,
    EXIT_USAGE,
    complain,
    fail,
    lid_text,
    pick,
    pkey_text,
    print_json,
    print_line,
    print_table,
    write_file,
    wrong,
)
from opavnic.lab.file.em_file import EmFile
from opavnic.lab.file.errors import ConfigError, LabError
from opavnic.lab.ownership.client import RefusedFileError
from vema.base.types import MAX_VESW_ID
from vema.em.desired.problems import Problem

MAX_LIMIT = 1_000_000
WATCH_S = 1.0
"""Seconds between two polls of --watch."""
VERIFY_LIMIT_S = 600.0
_SHOWN_MACS = 3
_COUNTERS = ("tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "tx_errors", "rx_errors")

app = command_group("The Ethernet Manager of a running lab.")


@app.callback()
def em() -> None:
    """The Ethernet Manager of a running lab."""


class Topic(StrEnum):
    """What `show` can show."""

    VESWS = "vesws"
    VPORTS = "vports"
    MAC_TABLE = "mac-table"
    COUNTERS = "counters"
    EVENTS = "events"


@app.command(epilog="Example: opavnic em apply tenants.yaml --dry-run")
def apply(
    file: Annotated[Path, typer.Argument(help="An EM file (YAML).")],
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would change.")] = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Apply an EM file to a running lab; what already matches is not touched."""

    def on_the_fabric(data: Any) -> tuple[Problem, ...]:
        try:
            lab_client(lab).post("/em/apply?diff=1", data)
        except RefusedFileError as error:
            return error.found
        except (LabError, TypeError, ValueError):
            pass  # no lab, or values that JSON cannot express: checking the file alone is enough
        return ()

    try:
        em_file = EmFile(file, on_the_fabric)
    except ConfigError as error:
        _refuse(error.problems)
    wanted = json.loads(
        em_file.config.model_dump_json(exclude_unset=True)
    )  # the lab fills in the same defaults
    try:
        data = lab_client(lab, 60.0).post(f"/em/apply{'?diff=1' if dry_run else ''}", wanted)
    except RefusedFileError as error:
        _refuse(em_file.lines(error.found))
    if as_json:
        print_json(data)
    else:
        for line in data["changes"]:
            print_line(line)
        if not dry_run:
            print_line(f"{data['sets']} Sets sent")
    if not dry_run and not data["converged"]:
        fail("the manager has not finished; see: opavnic em show vports", EXIT_FAILED)


def _refuse(lines: Iterable[str]) -> NoReturn:
    problems = list(lines)
    complain("\n".join(problems), EXIT_USAGE, problems=problems)
    raise typer.Exit(EXIT_USAGE)


@app.command(epilog="Example: opavnic em show mac-table --vesw 2 --json")
def show(
    topic: Annotated[Topic, typer.Argument(help="What to show.")],
    vesw: Annotated[
        int | None,
        typer.Option(
            "--vesw",
            metavar=METAVAR,
            parser=number(1, MAX_VESW_ID),
            help="MAC table: only the virtual switch with this id.",
            autocompletion=vesw_names,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MAX_LIMIT, help="Counters and events: how many to show.")
    ] = 50,
    watch: Annotated[
        bool,
        typer.Option("-w", "--watch", help="Repeat every second, until Ctrl-C (or SIGTERM, SIGHUP)."),
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Events: also draw them over time.")
    ] = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what the manager knows: virtual switches, vports, MAC tables, counters, events."""
    if svg is not None and topic is not Topic.EVENTS:
        fail(f"--svg {svg}: {topic.value} have no time to be drawn over; em show events has", EXIT_USAGE)
    client = lab_client(lab)
    path = {
        Topic.MAC_TABLE: "/em/mac-table" + (f"?vesw={vesw}" if vesw is not None else ""),
        Topic.COUNTERS: f"/em/counters?limit={limit}",
        Topic.EVENTS: f"/em/events?limit={limit}",
    }.get(topic, f"/em/{topic.value}")

    def poll() -> None:
        data = client.get(path)
        if svg is not None:
            from opavnic.base.event_timeline import as_svg

            write_file(svg, as_svg(data["events"], "Events of the Ethernet Manager"))
        if as_json:
            print_json(data)
            return
        _SHOW[topic](next(iter(data.values())))

    if not watch:
        poll()
        return
    with suppress(KeyboardInterrupt), followed():
        while True:
            poll()
            sys.stdout.flush()
            time.sleep(WATCH_S)


@app.command(epilog="Example: opavnic em verify")
def verify(lab: LabOption = None, as_json: AsJson = False) -> None:
    """Read everything from every agent and print what differs from the configuration; exit 1 on a difference."""
    data = lab_client(lab, VERIFY_LIMIT_S).post("/em/verify")
    if as_json:
        print_json(data)
    else:
        for line in data["differences"]:
            print_line(line)
        if not data["differences"]:
            print_line("every agent matches the configuration")
    if data["differences"]:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog="Example: opavnic em restart --forget")
def restart(
    forget: Annotated[
        bool, typer.Option("--forget", help="Without its database: it asks the agents what they have.")
    ] = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Restart the manager, as if its process were killed; agents and VNICs go on meanwhile.

    It comes back with its configuration and its database. For a longer absence: opavnic fault add crash on em for=30s
    """
    data = lab_client(lab, 60.0).post("/em/restart", {"memory": not forget})
    if as_json:
        print_json(data)
    else:
        print_line(f"restarted; {data['sets']} Sets sent")
    if not data["converged"]:
        fail("the manager has not finished; see: opavnic em show vports", EXIT_FAILED)


# --- tables --------------------------------------------------------------------------------------------------


def _show_vesws(rows: list[dict[str, Any]]) -> None:
    print_table(
        ("id", "name", "pkey", "MTU", "MAC policy", "group", "members", "MACs"),
        [
            [
                *pick(row, "id", "name"),
                pkey_text(row["pkey"]),
                *pick(row, "mtu", "mac"),
                lid_text(row["multicast_lid"]),
                len(row["members"]),
                row["addresses"],
            ]
            for row in rows
        ],
    )


def _show_vports(rows: list[dict[str, Any]]) -> None:
    print_table(
        ("port", "LID", "vport", "vesw", "state", "link", "base MAC", "unicast", "multicast", "digest"),
        [
            [
                row["port"],
                lid_text(row["lid"]),
                *pick(row, "vport_num", "vesw_id"),
                wrong(row["state"], row["state"] not in ("ok", "in progress")),
                wrong(row["link"], row["link"] != "up"),
                row["base_mac"],
                _few(row["unicast"]),
                _few(row["multicast"]),
                f"{row['digest']:08x}",
            ]
            for row in rows
        ],
    )


def _few(macs: list[str]) -> str:
    more = f" +{len(macs) - _SHOWN_MACS}" if len(macs) > _SHOWN_MACS else ""
    return " ".join(macs[:_SHOWN_MACS]) + more


def _show_mac_table(rows: list[dict[str, Any]]) -> None:
    table = [[*pick(row, "vesw_id", "slot", "mac"), lid_text(row["lid"]), row["port"]] for row in rows]
    print_table(("vesw", "slot", "MAC", "LID", "port"), table)


def _show_counters(rows: list[dict[str, Any]]) -> None:
    table = [[_when(row["time"]), *pick(row, "port", "vport_num", "vesw_id", *_COUNTERS)] for row in rows]
    print_table(("time", "port", "vport", "vesw", *_COUNTERS), table)


def _show_events(rows: list[dict[str, Any]]) -> None:
    table = [[_when(row["time"]), *pick(row, "kind", "port", "vport_num", "vesw_id", "text")] for row in rows]
    print_table(("time", "event", "port", "vport", "vesw", "what"), table)


def _when(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


_SHOW: dict[Topic, Callable[[list[dict[str, Any]]], None]] = {
    Topic.VESWS: _show_vesws,
    Topic.VPORTS: _show_vports,
    Topic.MAC_TABLE: _show_mac_table,
    Topic.COUNTERS: _show_counters,
    Topic.EVENTS: _show_events,
}
